"""Scenarios with several structures: whether each is stable, and all sequences of them that events allow.

Each structure is judged without the events that end it: as if it went on for ever. Where every structure is
linear and events only lead from one to the next, a run is a product of one matrix for each step, over the
states of all units: those that are absent are zero, for a unit that appears begins at values that are fixed.
If all products that the events allow die out, then so do deviations, whenever it switches: two runs that
change their structure at the same steps come closer to each other, whatever they began with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import InvalidInput
from upbeat.core.records import dataclass
from upbeat.engine.experiment import Experiment
from upbeat.stability.linear.followed import Induced
from upbeat.stability.linear.induced import At
from upbeat.stability.switched.automaton import Automaton, Edge
from upbeat.stability.switched.decide import decide
from upbeat.stability.switched.system import SwitchedSystem
from upbeat.stability.verdicts.judge import SECONDS, Stability, stability_of

SAME = 1e-9
"""By how much, relatively, held inputs may differ from what the states say they are."""


@dataclass(frozen=True)
class StructuresStability:
    """Verdicts on each structure, and on `switching` between them."""

    parts: Mapping[str, Stability]
    switching: str
    """"stable", "unstable" or "undecided"."""
    why: str = ""
    """What the verdict on switching rests on, or why there is none."""

    @property
    def verdict(self) -> str:
        """That on switching, which is one on all structures."""
        return self.switching

    def data(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "verdict": self.switching,
            "why": self.why,
            "structures": {name: part.data() for name, part in self.parts.items()},
        }


def without_end(part: Experiment) -> Experiment:
    """A structure without the events that end it: as if it went on for ever."""
    stage = part.scenario.stage
    if stage is None:
        return part
    ends = {switch.event for switch in stage.switches}
    events = tuple(event for event in part.scenario.events if event.name not in ends)
    return part.with_(scenario=part.scenario.with_parts(events=events, stage=None))


def stability_of_structures(
    made: Experiment,
    *,
    at: At = "start",
    ideal: bool = False,
    scan: bool | tuple[float, float] | None = False,
    seconds: float = SECONDS,
    report: Callable[[str], None] | None = None,
) -> StructuresStability:
    """Whether each structure of an experiment is stable, and switching between them. See `stability_of`."""
    if not made.structures:
        raise InvalidInput("this scenario has one structure only: up.stability_of judges it")
    parts = {}
    for name, part in made.structures.items():
        lasting = without_end(part)
        try:
            parts[name] = stability_of(lasting, at=at, ideal=ideal, scan=scan, seconds=seconds, report=report)
        except InvalidInput as error:
            raise InvalidInput(
                f"structure '{name}': {error} Others can be judged alone: choose one (--structure NAME, in "
                "Python experiment.structures[…])"
            ) from error
    return StructuresStability(parts, *_switching(made, parts, seconds))


def _switching(made: Experiment, parts: Mapping[str, Stability], seconds: float) -> tuple[str, str]:
    """The verdict on switching, and what it rests on."""
    for name, part in parts.items():
        if part.verdict == "unstable":
            stays = f"the structure '{name}' alone is {part.labelled}, and a run may stay in it"
            return ("undecided" if part.local else "unstable"), stays
    why = _obstacle(made, parts)
    if why:
        return "undecided", f"because {why}"
    states = list(dict.fromkeys(name for part in parts.values() for name in _states(part.model)))
    place = {name: k for k, name in enumerate(states)}
    matrices = []
    for name, part in parts.items():
        reduced = _reduced(part.model)
        if reduced is None:
            return "undecided", (
                f"because in '{name}' a step depends on the one before it (inputs with a history), and "
                "what becomes of that at a switch is not followed: judge it with held inputs"
            )
        whole = np.zeros((len(states), len(states)))
        own = [place[state] for state in _states(part.model)]
        whole[np.ix_(own, own)] = reduced
        matrices.append(whole)
    names = list(parts)
    edges = [Edge(k, k, k) for k in range(len(names))]
    for k, structure in enumerate(made.structures.values()):
        stage = structure.scenario.stage
        assert stage is not None
        targets = dict.fromkeys(names.index(switch.to) for switch in stage.switches)
        edges += [Edge(k, to, to) for to in targets]
    system = SwitchedSystem(matrices, Automaton(len(names), tuple(edges), tuple(names)), names)
    found = decide(system, seconds=seconds)
    if found.verdict == "stable":
        return "stable", (
            "deviations die out in every sequence of structures that events allow, however long each lasts "
            "(two runs that switch at the same steps come closer to each other)"
        )
    if found.verdict == "unstable":
        word = " · ".join(names[k] for k in found.growing[0].policies)
        return "unstable", f"this sequence of steps grows when it is repeated: {word}"
    return (
        "undecided",
        f"because {found.why}" if found.why else "because neither a proof nor a cycle was found",
    )


def _obstacle(made: Experiment, parts: Mapping[str, Stability]) -> str:
    """Why a run is not a product of matrices; nothing, if it is one."""
    for name, part in made.structures.items():
        stage = part.scenario.stage
        assert stage is not None
        ends = {switch.event: switch for switch in stage.switches}
        for event in part.scenario.events:
            if event.name in ends and event.then:
                return f"the event '{event.name}' changes values where it leads from '{name}' on"
        for switch in stage.switches:
            if switch.start:
                return f"what appears after '{switch.event}' begins with values that depend on '{name}'"
    for name, judged in parts.items():
        if judged.local:
            return f"what is known of '{name}' holds near its operating point only"
        # Free motions are in the matrix, so that a proof or a cycle decides; what it does not contain is not.
        if judged.no_matrix or judged.model.unseen:
            return f"'{name}' alone is undecided: {judged.why}"
    if len({judged.step for judged in parts.values()}) > 1:
        return "the steps of the structures have different sizes"
    return ""


_OTHERS = (" (held", " (register)")


def _states(model: Induced) -> list[str]:
    """The states of units: what is left when inputs are known again."""
    return [name for name in model.names if not any(other in name for other in _OTHERS)]


def _reduced(model: Induced) -> npt.NDArray[np.float64] | None:
    """The matrix over the states alone, where all else in the extended state follows from them at the end of
    each step; None where it does not."""
    own = [k for k, name in enumerate(model.names) if not any(other in name for other in _OTHERS)]
    rest = [k for k in range(model.size) if k not in own]
    if not rest:
        return model.matrix
    after, others = model.matrix[own], model.matrix[rest]
    if np.linalg.matrix_rank(after) < len(own):
        return None
    follows, *_ = np.linalg.lstsq(after.T, others.T, rcond=None)
    size = max(float(np.abs(others).max(initial=0.0)), 1e-300)
    if float(np.abs(follows.T @ after - others).max(initial=0.0)) > SAME * size:
        return None
    reduced: npt.NDArray[np.float64] = after[:, own] + after[:, rest] @ follows.T
    return reduced
