"""Upbeat: couple simulation models and run them together, with results you can trust.

Every public name is imported from where it lives when it is first used, so that `import upbeat`
costs next to nothing and a command loads only what it needs. `__init__.pyi` has the same names for
type checkers and editors; a test compares the two.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "adapt.adaptation": "Adaptation",
    "core.abilities": "Ability Model Unit",
    "core.errors": (
        "ExpressionError FileProblem Interrupted InvalidInput MasterError MissingExtra ModelError "
        "RecordingError RunError ScenarioError StepError UnitError UpbeatError"
    ),
    "core.ports": "Causality Kind Port",
    "engine.checkpoint": "Checkpoint",
    "engine.consistent": "consistent",
    "engine.experiment": "Experiment experiment",
    "engine.formats.files": "load write_scenario",
    "engine.nesting.adapted": "adapted",
    "engine.nesting.model": "Nested as_continuous as_discrete",
    "engine.realtime": "LateWarning RealTime",
    "engine.resume": "resume",
    "engine.run": "Run",
    "engine.settings": "Settings",
    "engine.formats.sa": "read_sa",
    "engine.formats.ssp": "read_ssp write_ssp",
    "engine.simulate": "simulate start",
    "generate.embedded": "export_c",
    "generate.fmu": "export_fmu",
    "hints.configure": "Configuration configure",
    "hints.language": "Hint read_hints",
    "judging.discovering": "Discovery discover",
    "explore.store": "Results",
    "explore.study": "Study",
    "judging.steps": "StepAdvice recommend_step",
    "master.inputs.approximation": "Continuous Hermite Hold Linear Nepce Polynomial Smooth Taylor",
    "master.couplings.constrained": "Constrained",
    "master.couplings.coupling": "GaussSeidel Jacobi",
    "master.paces.error_control": "ErrorControl",
    "master.events.instants": "Simultaneous",
    "master.couplings.interruptible": "Interruptible",
    "master.couplings.iterated": "Iterated",
    "master.paces.monitored": "Monitored",
    "master.couplings.multirate": "MultiRate",
    "master.couplings.negotiated": "Negotiated",
    "master.loops": "Anderson FixedPoint Newton",
    "master.master": "Master",
    "master.paces.lookahead": "LookAhead",
    "master.paces.pace": "EventDriven Fixed",
    "master.paces.pattern": "Pattern",
    "master.couplings.refined": "Refined",
    "master.couplings.variants": "Variant Variants",
    "master.paces.revised": "Revised",
    "judging.trust": "Trust trust",
    "properties.robustness": "Property Robustness robustness",
    "report.discovery": "plot_discovery",
    "report.document": "write_report",
    "report.explain": "explain",
    "report.plot": "plot",
    "report.stability": "plot_automaton plot_map plot_stability",
    "report.steps": "plot_steps",
    "report.summary": "summary",
    "scenario.scenario": "Scenario",
    "scenario.signals": "Signals read_signals",
    "stability.switched.automaton": "Automaton",
    "stability.switched.decide": "Certificate Decision Lift decide",
    "stability.verdicts.along": "Along stability_along",
    "stability.verdicts.compare": "Alternative compare_couplings",
    "stability.hybrid.bimodal": "Bimodal",
    "stability.hybrid.late": "LargestDelay largest_delay",
    "stability.verdicts.structures": "StructuresStability stability_of_structures",
    "stability.verdicts.pieces": "StabilityMap stability_map",
    "stability.linear.followed": "Induced",
    "stability.verdicts.judge": "Stability induced stability_of",
    "stability.switched.policies": "Certified certified",
    "stability.switched.radius": "JointRadius joint_radius",
    "stability.switched.stabilise": "Stabilised stabilise stabilise_best stabilise_greedily",
    "stability.switched.system": "SwitchedSystem",
    "trace.events": "EventKind EventLog Occurrence",
    "trace.log": "Lateness Outcome",
    "trace.trace": "Trace read",
    "units": (
        "Clock Cvode Discrete DormandPrince Edge Emission Euler Function Isolated LastValue Midpoint Mode "
        "NativeUnit Ode PythonDiscrete PythonFunction PythonOde PythonUnit RK4 Sampler Schedule "
        "StateMachine Threshold Variable blocks"
    ),
    "units.fmi.model": "Fmu",
}
_WHERE = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_WHERE)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("upbeat.version").__version__
    if name not in _WHERE:
        raise AttributeError(f"module 'upbeat' has no attribute {name!r}")
    value = getattr(import_module(f"upbeat.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__, "__version__"]


def _shown(how: str, value: object) -> str:
    """A value in words (`how` is "sentence") or as HTML ("html"): for `upbeat.core.display`."""
    return str(getattr(import_module("upbeat.report.notebook"), how)(value))
