from upbeat.adapt.adaptation import Adaptation
from upbeat.core.abilities import Ability, Model, Unit
from upbeat.core.errors import (
    ExpressionError,
    FileProblem,
    Interrupted,
    InvalidInput,
    MasterError,
    MissingExtra,
    ModelError,
    RecordingError,
    RunError,
    ScenarioError,
    StepError,
    UnitError,
    UpbeatError,
)
from upbeat.core.ports import Causality, Kind, Port
from upbeat.engine.checkpoint import Checkpoint
from upbeat.engine.consistent import consistent
from upbeat.engine.experiment import Experiment, experiment
from upbeat.engine.formats.files import load, write_scenario
from upbeat.engine.formats.sa import read_sa
from upbeat.engine.formats.ssp import read_ssp, write_ssp
from upbeat.engine.nesting.adapted import adapted
from upbeat.engine.nesting.model import Nested, as_continuous, as_discrete
from upbeat.engine.realtime import LateWarning, RealTime
from upbeat.engine.resume import resume
from upbeat.engine.run import Run
from upbeat.engine.settings import Settings
from upbeat.engine.simulate import simulate, start
from upbeat.explore.store import Results as Results
from upbeat.explore.study import Study as Study
from upbeat.generate.embedded import export_c
from upbeat.generate.fmu import export_fmu
from upbeat.hints.configure import Configuration, configure
from upbeat.hints.language import Hint, read_hints
from upbeat.judging.discovering import Discovery, discover
from upbeat.judging.steps import StepAdvice, recommend_step
from upbeat.judging.trust import Trust, trust
from upbeat.master.couplings.constrained import Constrained
from upbeat.master.couplings.coupling import GaussSeidel, Jacobi
from upbeat.master.couplings.interruptible import Interruptible
from upbeat.master.couplings.iterated import Iterated
from upbeat.master.couplings.multirate import MultiRate
from upbeat.master.couplings.negotiated import Negotiated
from upbeat.master.couplings.refined import Refined
from upbeat.master.couplings.variants import Variant, Variants
from upbeat.master.events.instants import Simultaneous
from upbeat.master.inputs.approximation import (
    Continuous,
    Hermite,
    Hold,
    Linear,
    Nepce,
    Polynomial,
    Smooth,
    Taylor,
)
from upbeat.master.loops import Anderson, FixedPoint, Newton
from upbeat.master.master import Master
from upbeat.master.paces.error_control import ErrorControl
from upbeat.master.paces.lookahead import LookAhead
from upbeat.master.paces.monitored import Monitored
from upbeat.master.paces.pace import EventDriven, Fixed
from upbeat.master.paces.pattern import Pattern
from upbeat.master.paces.revised import Revised
from upbeat.properties.robustness import Property, Robustness, robustness
from upbeat.report.discovery import plot_discovery
from upbeat.report.document import write_report
from upbeat.report.explain import explain
from upbeat.report.plot import plot
from upbeat.report.stability import plot_automaton, plot_map, plot_stability
from upbeat.report.steps import plot_steps
from upbeat.report.summary import summary
from upbeat.scenario.scenario import Scenario
from upbeat.scenario.signals import Signals, read_signals
from upbeat.stability.hybrid.bimodal import Bimodal
from upbeat.stability.hybrid.late import LargestDelay, largest_delay
from upbeat.stability.linear.followed import Induced
from upbeat.stability.switched.automaton import Automaton
from upbeat.stability.switched.decide import Certificate, Decision, Lift, decide
from upbeat.stability.switched.policies import Certified, certified
from upbeat.stability.switched.radius import JointRadius, joint_radius
from upbeat.stability.switched.stabilise import Stabilised, stabilise, stabilise_best, stabilise_greedily
from upbeat.stability.switched.system import SwitchedSystem
from upbeat.stability.verdicts.along import Along, stability_along
from upbeat.stability.verdicts.compare import Alternative, compare_couplings
from upbeat.stability.verdicts.judge import Stability, induced, stability_of
from upbeat.stability.verdicts.pieces import StabilityMap, stability_map
from upbeat.stability.verdicts.structures import StructuresStability, stability_of_structures
from upbeat.trace.events import EventKind, EventLog, Occurrence
from upbeat.trace.log import Lateness, Outcome
from upbeat.trace.trace import Trace, read
from upbeat.units import (
    RK4,
    Clock,
    Cvode,
    Discrete,
    DormandPrince,
    Edge,
    Emission,
    Euler,
    Function,
    Isolated,
    LastValue,
    Midpoint,
    Mode,
    NativeUnit,
    Ode,
    PythonDiscrete,
    PythonFunction,
    PythonOde,
    PythonUnit,
    Sampler,
    Schedule,
    StateMachine,
    Threshold,
    Variable,
    blocks,
)
from upbeat.units.fmi.model import Fmu

__version__: str

__all__ = [
    "RK4",
    "Ability",
    "Adaptation",
    "Along",
    "Alternative",
    "Anderson",
    "Automaton",
    "Bimodal",
    "Causality",
    "Certificate",
    "Certified",
    "Checkpoint",
    "Clock",
    "Configuration",
    "Constrained",
    "Continuous",
    "Cvode",
    "Decision",
    "Discovery",
    "Discrete",
    "DormandPrince",
    "Edge",
    "Emission",
    "ErrorControl",
    "Euler",
    "EventDriven",
    "EventKind",
    "EventLog",
    "Experiment",
    "ExpressionError",
    "FileProblem",
    "Fixed",
    "FixedPoint",
    "Fmu",
    "Function",
    "GaussSeidel",
    "Hermite",
    "Hint",
    "Hold",
    "Induced",
    "Interrupted",
    "Interruptible",
    "InvalidInput",
    "Isolated",
    "Iterated",
    "Jacobi",
    "JointRadius",
    "Kind",
    "LargestDelay",
    "LastValue",
    "LateWarning",
    "Lateness",
    "Lift",
    "Linear",
    "LookAhead",
    "Master",
    "MasterError",
    "Midpoint",
    "MissingExtra",
    "Mode",
    "Model",
    "ModelError",
    "Monitored",
    "MultiRate",
    "NativeUnit",
    "Negotiated",
    "Nepce",
    "Nested",
    "Newton",
    "Occurrence",
    "Ode",
    "Outcome",
    "Pattern",
    "Polynomial",
    "Port",
    "Property",
    "PythonDiscrete",
    "PythonFunction",
    "PythonOde",
    "PythonUnit",
    "RealTime",
    "RecordingError",
    "Refined",
    "Revised",
    "Robustness",
    "Run",
    "RunError",
    "Sampler",
    "Scenario",
    "ScenarioError",
    "Schedule",
    "Settings",
    "Signals",
    "Simultaneous",
    "Smooth",
    "Stabilised",
    "Stability",
    "StabilityMap",
    "StateMachine",
    "StepAdvice",
    "StepError",
    "StructuresStability",
    "SwitchedSystem",
    "Taylor",
    "Threshold",
    "Trace",
    "Trust",
    "Unit",
    "UnitError",
    "UpbeatError",
    "Variable",
    "Variant",
    "Variants",
    "adapted",
    "as_continuous",
    "as_discrete",
    "blocks",
    "certified",
    "compare_couplings",
    "configure",
    "consistent",
    "decide",
    "discover",
    "experiment",
    "explain",
    "export_c",
    "export_fmu",
    "induced",
    "joint_radius",
    "largest_delay",
    "load",
    "plot",
    "plot_automaton",
    "plot_discovery",
    "plot_map",
    "plot_stability",
    "plot_steps",
    "read",
    "read_hints",
    "read_sa",
    "read_signals",
    "read_ssp",
    "recommend_step",
    "resume",
    "robustness",
    "simulate",
    "stabilise",
    "stabilise_best",
    "stabilise_greedily",
    "stability_along",
    "stability_map",
    "stability_of",
    "stability_of_structures",
    "start",
    "summary",
    "trust",
    "write_report",
    "write_scenario",
    "write_ssp",
]
