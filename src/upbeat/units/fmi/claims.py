"""What an FMU declares, tried out: whether its states come back, and what its outputs depend on."""

from __future__ import annotations

import base64
import enum
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upbeat.core.abilities import Ability
from upbeat.core.ports import Causality, Kind, Port
from upbeat.units.fmi import known
from upbeat.units.fmi.description import CoSimulation
from upbeat.units.fmi.instance import FmuError
from upbeat.units.fmi.trial import Notes, Trial, attempt
from upbeat.units.fmi.trials import Bench, Seen, apart, model_of, settings_of

if TYPE_CHECKING:
    from upbeat.units.fmi.model import Fmu

# -- whether its states come back, as it declares --------------------------------------------------------
#
# Real FMUs that declare it crash in it, or come back only nearly. So before a state of an FMU is relied on,
# one is saved, the FMU runs on, goes back and runs on again the same way, in a process that may be thrown
# away: all outputs and local variables must be the same, bit by bit. The same through bytes, into an
# instance in another process.


NEARLY = 1e-3
"""A state that comes back with errors beyond this part of a value (or of 1) has not come back."""
FIRST, ON = "running its first steps", "running on"
_log = logging.getLogger("upbeat.fmu")
_warned: set[tuple[Path, Ability]] = set()


class Verdict(enum.Enum):
    """What a claim is worth."""

    EXACT = "exact"
    APPROXIMATE = "approximate"
    FAILS = "fails"


@dataclass(frozen=True, slots=True)
class Claim:
    """A verdict: with the largest error and where it is if it is approximate, with the reason if it fails."""

    verdict: Verdict
    error: float = 0.0
    why: str = ""

    def __str__(self) -> str:
        match self.verdict:
            case Verdict.EXACT:
                return "exact"
            case Verdict.APPROXIMATE:
                return f"approximate: {self.why} ({self.error:.2g} off)"
            case Verdict.FAILS:
                return f"fails: {self.why}"


@dataclass(frozen=True, slots=True)
class Claims:
    """What an FMU declares of its state, checked; None for what it does not declare."""

    rollback: Claim | None = None
    serialise: Claim | None = None

    def of(self, ability: Ability) -> Claim | None:
        """The claim behind an ability of a unit."""
        return {Ability.ROLLBACK: self.rollback, Ability.SERIALISE: self.serialise}.get(ability)


def checked(model: Fmu) -> Claims:
    """The claims of an FMU as it is run here, checked now if they have not been before."""
    if not model.interface.saves_state:
        return Claims()
    found = known.recall(model.path, f"claims-{model.interface_name}")
    if found is None:
        return remember(model, *check(model))
    return Claims(**{name: _read(entry) for name, entry in found.items()})


class Holds(enum.Enum):
    """For how long a finding counts."""

    FOR_GOOD = enum.auto()
    FOR_NOW = enum.auto()
    """A deadline has passed, which it may not do tomorrow."""
    THIS_TIME = enum.auto()
    """The FMU did not come as far as its state: with other parameters it may."""


def remember(model: Fmu, claims: Claims, holds: Holds) -> Claims:
    """Keep what `check` found as long as it counts."""
    if holds is not Holds.THIS_TIME:
        lasting = holds is Holds.FOR_GOOD
        known.remember(model.path, f"claims-{model.interface_name}", _written(claims), lasting=lasting)
    return claims


def check(model: Fmu) -> tuple[Claims, Holds]:
    """Try it."""
    arguments: dict[str, Any] = {"path": str(model.path), "settings": settings_of(model), "fed": True}
    serialises = model.interface.serialises_state
    trial = attempt(go_back, arguments | {"serialise": serialises})
    if trial.stage in (FIRST, ON):  # nothing to do with states: perhaps it does not like its inputs
        arguments["fed"] = False
        trial = attempt(go_back, arguments | {"serialise": serialises})
    rollback = _judged(trial, "rollback")
    if trial.stage in ("", FIRST, ON) and trial.failure:
        return Claims(rollback, rollback if serialises else None), Holds.THIS_TIME
    serialise, hung = _judged(trial, "bytes") if serialises else None, trial.hung
    if serialise is None:
        return Claims(rollback), Holds.FOR_NOW if hung else Holds.FOR_GOOD
    if serialise.verdict is not Verdict.FAILS and rollback.verdict is not Verdict.FAILS:
        kept = {name: trial.found[name] for name in ("data", "expected", "count")}
        fresh = attempt(go_on, arguments | kept)
        serialise, hung = max(serialise, _judged(fresh, "fresh"), key=_badness), hung or fresh.hung
    return Claims(rollback, serialise), Holds.FOR_NOW if hung else Holds.FOR_GOOD


def _badness(claim: Claim) -> tuple[int, float]:
    return list(Verdict).index(claim.verdict), claim.error


def _judged(trial: Trial, name: str) -> Claim:
    if name not in trial.found:
        return Claim(Verdict.FAILS, why=trial.why or "it was not tried")
    error, relative, where = trial.found[name]
    if not where:
        return Claim(Verdict.EXACT)
    verdict = Verdict.APPROXIMATE if relative <= NEARLY else Verdict.FAILS
    return Claim(verdict, error, f"after going back {where}")


def objection(model: Fmu, ability: Ability) -> str | None:
    """Why an ability of the FMU cannot be relied on; None if it can. One that is nearly true is a warning."""
    claim = checked(model).of(ability)
    if claim is None or claim.verdict is Verdict.EXACT:
        return None
    if claim.verdict is Verdict.FAILS:
        return (
            f"{model.path.name} declares that it {ability.value}, but when this was tried, {claim.why}. Give "
            'the unit rollback = "never" to do without, or rollback = "trust" to go on regardless'
        )
    if (model.path, ability) not in _warned:
        _warned.add((model.path, ability))
        _log.warning(
            "%s %s only approximately: when this was tried, %s (%.2g off)",
            *(model.path.name, ability.value, claim.why, claim.error),
        )
    return None


def _written(claims: Claims) -> dict[str, Any]:
    entries = {"rollback": claims.rollback, "serialise": claims.serialise}
    return {
        name: None if claim is None else [claim.verdict.value, claim.error, claim.why]
        for name, claim in entries.items()
    }


def _read(entry: Any) -> Claim | None:
    return None if entry is None else Claim(Verdict(entry[0]), entry[1], entry[2])


# ------------------------------------------------------------------------ in the other process


def go_back(notes: Notes, path: str, settings: dict[str, Any], fed: bool, serialise: bool) -> None:
    """Save, run on, go back, run on: twice, for a state can be used many times; then through bytes."""
    bench = Bench(model_of(path, settings), fed=fed)
    unit: Any = bench.unit
    notes.stage(FIRST)
    bench.feed(1)
    for _ in range(2):
        bench.advance()
    notes.stage("saving its state")
    token, count, time = unit.save(), bench.count, bench.time
    notes.stage(ON)
    wanted = bench.run()
    worst: tuple[float, float, str] = (0.0, 0.0, "")
    for _ in range(2):
        notes.stage("restoring its state")
        unit.restore(token)
        bench.count, bench.time = count, time
        notes.stage("running on from a restored state")
        worst = max(worst, apart(wanted, bench.run()))
    notes.found("rollback", worst)
    if serialise:
        notes.stage("turning its state into bytes")
        data = unit.to_bytes(token)
        notes.stage("making a state of bytes")
        unit.restore(unit.from_bytes(data))
        bench.count, bench.time = count, time
        notes.stage("running on from a state made of bytes")
        notes.found("bytes", apart(wanted, bench.run()))
        for name, value in (
            ("data", base64.b64encode(data).decode()),
            ("expected", wanted),
            ("count", count),
        ):
            notes.found(name, value)
    notes.stage("being freed")
    bench.close()


def go_on(
    notes: Notes, path: str, settings: dict[str, Any], fed: bool, data: str, expected: list[Seen], count: int
) -> None:
    """In a fresh instance, run on from the bytes of another one."""
    bench = Bench(model_of(path, settings), fed=fed)
    unit: Any = bench.unit
    notes.stage("making a state of bytes in a fresh instance")
    unit.restore(unit.from_bytes(base64.b64decode(data)))
    bench.count, bench.time = count, bench.start + count * bench.step
    notes.stage("running on from bytes in a fresh instance")
    notes.found("fresh", apart(expected, bench.run()))
    notes.stage("being freed")
    bench.close()


# -- how it responds to its inputs, and to others of its kind --------------------------------------------
#
# An FMU declares which outputs depend directly on which inputs. Real ones forget some; and outputs of FMUs
# for co-simulation may show a change of an input only after the next step, which is no direct dependency.


Responses = Mapping[str, tuple[list[str], list[str]]]
"""For each input that was tried, the outputs that react to it at once, and those that do after a step."""


def responses(model: Fmu) -> tuple[Responses, str]:
    """What was found, now or before; and why it is not all there is, or nothing."""
    what = f"responses-{model.interface_name}"
    found = known.recall(model.path, what)
    if found is None:
        from upbeat.units.fmi.trials import respond  # trials are made of models

        trial = attempt(respond, {"path": str(model.path), "settings": settings_of(model)})
        tried = {k.removeprefix("input "): v for k, v in trial.found.items() if k.startswith("input ")}
        found = {"inputs": tried, "why": trial.why}
        known.remember(model.path, what, found, lasting=not trial.failure)
    return {name: (at_once, later) for name, (at_once, later) in found["inputs"].items()}, found["why"]


def lags(model: Fmu) -> list[tuple[str, str]]:
    """The pairs (output, input) that are declared, but where the output reacts only after the next step.

    An output of which nothing is declared may be a state, which cannot react at once: that is no fault.
    """
    if not isinstance(model.interface, CoSimulation):
        return []
    said = {u.variable for u in model.description.structure.outputs if u.dependencies is not None}
    declared = [(out.name, name) for out in _outputs(model) if out.name in said for name in out.depends]
    if not declared:
        return []
    found, _ = responses(model)
    return sorted(
        (output, name)
        for output, name in declared
        if name in found and output not in found[name][0] and output in found[name][1]
    )


def undeclared(model: Fmu) -> tuple[list[tuple[str, str]], str]:
    """The pairs (output, input) where the output reacts at once and is declared not to; and what failed."""
    found, why = responses(model)
    depends = {out.name: out.depends for out in _outputs(model)}
    pairs = [
        (output, name)
        for name, (at_once, _) in found.items()
        for output in at_once
        if output in depends and name not in depends[output]
    ]
    return sorted(pairs), why


def disturbed(model: Fmu) -> str:
    """What goes wrong where two units of this FMU run on two threads at the same time; empty: nothing."""
    what = f"threads-{model.interface_name}"
    found = known.recall(model.path, what)
    if found is None:
        from upbeat.units.fmi.trials import threads  # trials are made of models

        trial = attempt(threads, {"path": str(model.path), "settings": settings_of(model)})
        found = trial.found["threads"][2] if "threads" in trial.found else trial.why
        known.remember(model.path, what, found, lasting=not trial.failure)
    return str(found)


def _outputs(model: Fmu) -> list[Port]:
    return [p for p in model.ports if p.causality is Causality.OUTPUT and not p.event and not p.extra]


# -- whether it moves with every communication step ------------------------------------------------------

LOOKED = 48
"""So many steps are made to see that."""


def inner_step(model: Fmu, step: float, start: float) -> float:
    """The time between two solver steps inside, if the FMU does not move with every such step; else 0.

    It is found here and not in another process: whoever asks is about to make the same steps.
    """
    if model.interface.only_once_per_process:
        return 0.0
    unit: Any = model.instantiate(f"{model.path.stem} (tried)", start)
    moved: list[int] = []
    try:
        for port in model.ports:
            if port.causality is Causality.INPUT and port.kind is Kind.REAL and not port.event:
                given = [float(value) + 1.0 for value in port.initial]
                unit.set(port.name, [given[0] if port.size is None else tuple(given)])
        description = model.description
        states = [unit.instance.reader(description.by_name[name]) for name in description.states]
        outputs = [port.name for port in _outputs(model) if port.kind is Kind.REAL and not port.event]
        before: list[Any] = []
        for k in range(LOOKED):
            unit.advance(start + k * step, start + (k + 1) * step)
            now = [read() for read in states] or [unit.get(name) for name in outputs]
            if k and now != before:
                moved.append(k)
            before = now
    except FmuError:  # whatever it is, a run meets it as well, and tells it where it happens
        return 0.0
    finally:
        unit.close()
    gaps = [after - before for before, after in pairwise(moved)]
    if sum(gap > 1 for gap in gaps) < 2:  # moves each time, or has come to rest, or never moves
        return 0.0
    return (moved[-1] - moved[0]) / len(gaps) * step
