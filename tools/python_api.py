"""Writes docs/python-api.md: every public name with its signature and the first sentence of its docstring.

`make python-api` after a public name, a parameter or such a sentence has changed; a test compares names and
signatures. The built site adds the docstrings (`tools/mkdocs_hooks.py`).
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import upbeat as up
from upbeat.core import errors

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "python-api.md"

HEAD = """# Python API

Everything here is in `import upbeat as up`; heavy and optional packages are loaded when first needed. All
parameters and docstrings are in `help(up.Ode)`, and below on the built site. Extensions are written with
[`upbeat.extend`](extending.md).
"""

SECTIONS: dict[str, tuple[str, str]] = {
    "Running": (
        "`simulate`, `start`, `experiment` and `load` take the same [settings](settings.md).",
        "simulate start experiment Experiment Run Settings Checkpoint resume RealTime LateWarning consistent",
    ),
    "Scenarios and their files": (
        "Event inputs are connected as in [files](file-format.md#events), with a dictionary for a table.",
        "Scenario load write_scenario read_sa read_ssp write_ssp export_fmu export_c Signals read_signals",
    ),
    "Models": (
        "",
        "Ode Function PythonOde PythonFunction PythonDiscrete PythonUnit NativeUnit Fmu Isolated "
        "StateMachine Discrete Mode Emission Variable LastValue Sampler Edge Threshold Clock "
        "Schedule Nested adapted Adaptation as_discrete as_continuous blocks Model Unit Ability Port "
        "Kind Causality",
    ),
    "Solvers": (
        "",
        "Euler Midpoint RK4 DormandPrince Cvode",
    ),
    "Masters": (
        "[Couplings](couplings.md) and [paces](settings.md#pace) say what the settings mean.",
        "Master Simultaneous Jacobi GaussSeidel Iterated Constrained MultiRate Negotiated Refined "
        "Interruptible Variants Variant Newton Anderson FixedPoint Fixed EventDriven ErrorControl "
        "LookAhead Revised Pattern Monitored Hold Linear Polynomial Hermite Taylor Continuous Smooth Nepce",
    ),
    "Results": (
        "",
        "Trace EventLog Occurrence EventKind Lateness Outcome read summary plot write_report "
        "explain trust Trust recommend_step StepAdvice plot_steps discover Discovery plot_discovery "
        "Property robustness Robustness",
    ),
    "Studies and hints": (
        "",
        "Study Results Hint read_hints configure Configuration",
    ),
    "Stability": (
        "",
        "stability_of Stability stability_of_structures StructuresStability induced Induced "
        "stability_along Along compare_couplings Alternative "
        "stability_map StabilityMap plot_stability plot_map certified Certified plot_automaton "
        "SwitchedSystem Automaton Lift decide Decision joint_radius JointRadius Certificate "
        "stabilise Stabilised stabilise_best stabilise_greedily Bimodal largest_delay LargestDelay",
    ),
}
"""The sections of the page: a sentence, and names in their order. Names that are in none come last."""


def signature(name: str, thing: Any) -> str:
    """The call in one line: names of parameters, and defaults that are short."""
    given = name in MADE_BY_US or inspect.ismodule(thing) or getattr(thing, "_is_protocol", False)
    if given or (isinstance(thing, type) and issubclass(thing, (enum.Enum, Exception))):
        return name
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return name
    shown = list(_parameters(parameters))
    while len(", ".join(shown)) > LONGEST:
        shown = [*shown[:-2], "…"]
    return f"{name}({', '.join(shown)})"


def _parameters(parameters: Any) -> Iterator[str]:
    starred = False
    for one in parameters:
        if one.kind is one.VAR_POSITIONAL:
            starred = True
            yield f"*{one.name}"
        elif one.kind is one.VAR_KEYWORD:
            yield f"**{one.name}"
        else:
            if one.kind is one.KEYWORD_ONLY and not starred:
                starred = True
                yield "*"
            yield one.name + _default(one.default)


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return ""
    if isinstance(value, (bool, int, float, str)) or value is None:
        return f"={value!r}".replace("'", '"')
    return "=…"


def sentence(thing: Any) -> str:
    """The first sentence of the docstring up to a semicolon, on one line and without what is in brackets."""
    first = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    end = re.search(r"(?<=[^.A-Z])[.:](?= [A-Z`]|$)|;", first)
    said = first[: end.start()] if end else first
    return re.sub(r" \([^()]*\)$", "", said.rstrip(".:"))


def members(name: str, thing: Any) -> str:
    """The values of an enumeration; what a user does with an object."""
    if isinstance(thing, type) and issubclass(thing, enum.Enum):
        return ", ".join(f"`{one.name}`" for one in thing)
    return ", ".join(f"`.{one}`" for one in MEMBERS.get(name, "").split())


LONGEST = 60
"""Characters of the parameters that are shown; `help` has them all."""
MEMBERS = {
    "Experiment": "plan structures run with_ with_values monolithic",
    "Run": "time finished step set checkpoint trace",
    "Scenario": "units connections events with_values with_units monolith",
    "Trace": "time names events steps notes info outcome at one_sided between save "
    "to_pandas to_polars to_xarray",
    "EventLog": "names counts times values of",
    "Stability": "verdict why spectral_radius margin mode local largest_stable_step",
    "StructuresStability": "parts switching why",
    "Certified": "proven forbidden monitor",
}
"""What is told of objects that users hold in their hands."""
MADE_BY_US = {
    *(
        "Experiment",
        "Run",
        "Trace",
        "EventLog",
        "Occurrence",
        "EventKind",
        "Lateness",
        "Stability",
        "Induced",
    ),
    *(
        "Along",
        "Alternative",
        "StructuresStability",
        "StabilityMap",
        "Certified",
        "Decision",
        "JointRadius",
        "Certificate",
    ),
    *("Stabilised", "LargestDelay", "Interrupted"),
}
"""Classes that users get and do not make: their arguments are nobody's business."""


def row(name: str) -> str:
    thing = getattr(up, name)
    more = members(name, thing)
    said = sentence(thing)
    return f"* `{signature(name, thing)}`: {said}{': ' if more else ''}{more}"


def page() -> str:
    placed = {name for _, names in SECTIONS.values() for name in names.split()}
    wrong = [name for name in up.__all__ if isinstance(getattr(errors, name, None), type)]
    sections = {title: (text, names.split()) for title, (text, names) in SECTIONS.items()}
    left = [name for name in up.__all__ if name not in placed and name not in wrong]
    if left:
        sections["More"] = ("", left)
    sections["Errors"] = (
        "All errors that Upbeat raises on purpose are one tree: catch `UpbeatError`.",
        wrong,
    )
    parts = [HEAD]
    for title, (text, names) in sections.items():
        lines = [f"## {title}", ""] + ([text, ""] if text else [])
        parts.append("\n".join([*lines, *(row(name) for name in names)]) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
