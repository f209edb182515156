"""What a probe found, as data, and what the measurements mean for its users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from upbeat.core.display import Displayed
from upbeat.core.ports import Causality
from upbeat.units.fmi.claims import Claim, Verdict
from upbeat.units.fmi.model import Fmu
from upbeat.units.fmi.trial import Trial

# -- what a probe found, as data: rows of *declared* and *measured*, the interface, the feedthrough ------


FORMAT = 1
"""Of the JSON; see docs/fmi.md."""


@dataclass(frozen=True, slots=True)
class Row:
    """One property: what the FMU declares (None: nothing), what was measured, and whether that is well."""

    name: str
    declared: bool | None
    measured: str
    ok: bool


@dataclass(frozen=True, slots=True)
class PortRow:
    """One port of the interface."""

    name: str
    causality: str
    kind: str
    size: int | None = None
    unit: str | None = None
    start: list[Any] | None = None
    event: bool = False


@dataclass(frozen=True, slots=True)
class Reaction:
    """The inputs an output reacts to: as declared, at once, and after one more step."""

    output: str
    declared: list[str]
    at_once: list[str]
    after_a_step: list[str]


@dataclass(frozen=True, kw_only=True)
class Report(Displayed):
    """The whole of it, and with `format` and `findings` the object that `upbeat probe --json` prints.

    `format` grows when the meaning of a key changes; new keys may come at any time. `step` is in seconds, and
    None, like `time_per_step_ns`, if there was none. `usable`: it got through its first step. `crash` says
    how it ended its process, or hung, in ordinary use; it may be empty. `feedthrough` lists, by output, the
    inputs that are declared, that it reacts to at once, and after a step.
    """

    file: str
    sha256: str
    name: str
    fmi: str
    tool: str
    platform: str
    upbeat: str
    interfaces: list[str]
    interface: str
    step: float | None
    time_per_step_ns: float | None
    usable: bool
    crash: str
    ports: list[PortRow]
    rows: list[Row]
    feedthrough: list[Reaction]
    notes: list[str] = field(default_factory=list)

    @property
    def findings(self) -> list[str]:
        """What is not well, one line each."""
        return [f"{row.name}: {row.measured}" for row in self.rows if not row.ok]

    def to_json(self) -> dict[str, Any]:
        """What `upbeat probe --json` prints."""
        return {"format": FORMAT, **asdict(self), "findings": self.findings}


# -- from trials to rows: what a measurement means for whoever wants to use the FMU ----------------------


_GROWTH = 4096.0
"""Bytes per life of an instance; below it is the noise of the measurement."""


def usable(trial: Trial) -> bool:
    """Whether it got through its first step."""
    return bool(trial.found.get("started"))


def runs(trial: Trial) -> Row:
    """The experiment of its maker."""
    name = "runs its own experiment"
    if trial.failure:
        return Row(name, None, trial.why, False)
    return Row(name, None, f"yes, {trial.found['steps']} steps until t = {trial.found['reached']:g}", True)


def claim(name: str, declared: bool, found: Claim | None) -> Row:
    """What it says of its state."""
    if found is None:
        return Row(name, declared, "not measured", True)
    return Row(name, declared, str(found), found.verdict is Verdict.EXACT)


def same(name: str, trial: Trial, key: str, declared: bool | None = None) -> Row:
    """Two series that should be the same."""
    if key not in trial.found:
        return Row(name, declared, f"no: {trial.why}", False)
    return compared(name, trial.found[key], declared)


def compared(name: str, distance: Sequence[Any], declared: bool | None = None) -> Row:
    """The same, if the comparison has been made."""
    _, _, where = distance
    return Row(name, declared, f"no: {where}" if where else "yes", not where)


def once(declared: bool, trial: Trial) -> Row:
    """Whether two instances can live at a time; that they cannot is well if it is declared."""
    name = "two instances in one process"
    if declared:
        return Row(name, False, "not tried: it declares that there can be only one", True)
    row = same(name, trial, "together", True)
    return Row(name, None, row.measured, row.ok)


def uneven(declared: bool, trial: Trial) -> Row:
    """Steps of different lengths: results differ by what its solver makes of them."""
    name = "steps of different lengths"
    if "uneven" not in trial.found:
        return Row(name, declared, f"no: {trial.why}", not declared)
    _, _, where = trial.found["uneven"]
    extent = f", results differ: {where}" if where else ", same results"
    return Row(name, declared, f"accepted{extent}", True)


def small(name: str, trial: Trial, *, refusable: bool) -> Row:
    """Steps of no length, or nearly none. Refusing length 0 is no fault: Upbeat never asks for it."""
    if "done" in trial.found:
        return Row(name, None, "accepted", True)
    return Row(name, None, f"no: {trial.why}", refusable and not _deadly(trial))


def memory(trial: Trial) -> Row:
    """Growth over instantiate and free."""
    name = "memory per instantiate and free"
    if "growth" not in trial.found:
        return Row(name, None, trial.why or "not measured on this system", not trial.why)
    growth = float(trial.found["growth"])
    text = "no growth" if growth < _GROWTH else f"{growth / 1000:.0f} kB are lost each time"
    return Row(name, None, f"{text} ({trial.found['lives']} times)", growth < _GROWTH)


def reactions(model: Fmu, trial: Trial) -> list[Reaction]:
    """For each output the inputs that it reacts to."""
    measured: Mapping[str, Any] = {
        key.removeprefix("input "): value for key, value in trial.found.items() if key.startswith("input ")
    }
    outputs = [p for p in model.ports if p.causality is Causality.OUTPUT and not p.event and not p.extra]
    return [
        Reaction(
            output.name,
            sorted(output.depends),
            [name for name, (at_once, _) in measured.items() if output.name in at_once],
            [name for name, (_, later) in measured.items() if output.name in later],
        )
        for output in outputs
    ]


def feedthrough(model: Fmu, trial: Trial, found: Sequence[Reaction]) -> list[Row]:
    """Whether outputs react as declared, and before the next step."""
    declared_name, follow_name = (
        "declared feedthrough is complete",
        "outputs follow inputs before the next step",
    )
    if trial.failure:
        return [Row(declared_name, None, f"no: {trial.why}", False)]
    tried = {key.removeprefix("input ") for key in trial.found}
    hidden = [f"'{r.output}' on '{i}'" for r in found for i in r.at_once if i not in r.declared]
    late = [
        (r.output, i)
        for r in found
        for i in r.declared
        if i in tried and i not in r.at_once and i in r.after_a_step
    ]
    rows = [Row(declared_name, None, f"no, it lacks: {_some(hidden)}" if hidden else "yes", not hidden)]
    if any(r.declared for r in found):
        rows.append(_followed(follow_name, model, late))
    return rows


def _followed(name: str, model: Fmu, late: Sequence[tuple[str, str]]) -> Row:
    """An output of which nothing is declared may well be a state, which cannot react at once."""
    said = {u.variable for u in model.description.structure.outputs if u.dependencies is not None}
    broken = [f"'{output}' on '{input}'" for output, input in late if output in said]
    if broken:
        return Row(name, None, f"no, only at the next step: {_some(broken)}", False)
    others = [f"'{output}' on '{input}'" for output, input in late]
    text = f"yes, but for what is not declared: {_some(others)}" if others else "yes"
    return Row(name, None, text, True)


def _some(texts: Sequence[str], maximum: int = 5) -> str:
    rest = f" and {len(texts) - maximum} more" if len(texts) > maximum else ""
    return ", ".join(texts[:maximum]) + rest


def crash(trials: Sequence[Trial]) -> str:
    """How it took its process along, or did not come back, in one of these; empty if it never did."""
    return next((trial.why for trial in trials if trial.failure and _deadly(trial)), "")


def _deadly(trial: Trial) -> bool:
    return trial.hung or not trial.failure.startswith("it failed")
