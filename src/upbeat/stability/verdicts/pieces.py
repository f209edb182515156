"""Verdicts at kinks: all linear pieces that meet at an operating point, and what motions across them do.

Where slopes jump (abs, max, limits, `if`), a step does to small deviations what one of several matrices does,
depending on their direction. No single one of them says anything. All together they do: if one quadratic form
shrinks with each of them, every motion decays; if a deviation that is followed from piece to piece keeps
growing, some motion grows. Otherwise nothing is decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt

from upbeat.core.display import Displayed
from upbeat.core.errors import InvalidInput, MissingExtra, RunError
from upbeat.core.time import checked_step
from upbeat.engine.experiment import Experiment
from upbeat.engine.settings import Settings
from upbeat.scenario.scenario import Scenario
from upbeat.stability.linear.followed import Induced
from upbeat.stability.linear.forms import NoMatrix
from upbeat.stability.linear.induced import At, Inducing, Kinks, Nearby, experiment_of
from upbeat.stability.switched.decide import decide
from upbeat.stability.switched.system import SwitchedSystem
from upbeat.stability.verdicts.spectrum import spectrum

Array = npt.NDArray[np.float64]
DIRECTIONS = 24
"""How many pairs of directions are looked at for pieces."""
MOTIONS = 12
"""How many deviations are followed …"""
LENGTH = 60
"""… and for how many steps at first; the fastest of them much longer."""
CLOSED = 1e-10
"""A direction is the same again if the cosine between both differs from 1 by no more."""
GROWN = 1e3
"""What has grown so much, and still goes on, grows for ever: nothing in it depends on its size."""
MAX_PIECES = 24
"""Pieces that one form is looked for; others are tested with it."""
NEW = 0.25
"""Pieces that are still new, for so many of the directions looked at last, have no end."""
SECONDS = 10.0


def settled(inducing: Inducing, step: float, at: At) -> Induced:
    """The matrix of a step at a point; where several pieces meet there, one that stands for all of them.

    `NoMatrix` where that leaves the verdict open.
    """
    found = inducing.model(step, at)
    if not inducing.looks or found.unseen or not found.size or not np.isfinite(found.matrix).all():
        return found
    kinks = _Judging(inducing, step, found, inducing.reach)
    near = kinks.meet() if inducing.reach else []
    if near:
        return kinks.judged(near, inducing.ports)
    if not inducing.ideal:  # then slopes are not those of the solvers that steps are made with
        kinks.check_slopes()
    return found


class _Motion(NamedTuple):
    """The directions that a deviation takes, and the logarithms by which it grows from each to the next."""

    ways: list[Array]
    logs: list[float]

    @property
    def grown(self) -> float:
        """By how much over its last half."""
        return float(np.sum(self.logs[len(self.logs) // 2 :]))


class _Judging(Kinks):
    """All pieces that meet at a point, judged together."""

    # ---------------------------------------------------------------- all pieces

    def judged(self, near: Sequence[Nearby], ports: Sequence[str]) -> Induced:
        """One matrix that stands for the verdict on all; `near` are steps in some of the pieces."""
        self._ports = ports
        pieces = [self._here, *near]
        for _ in range(DIRECTIONS):
            way = self._random()
            pieces += [self._at(way), self._at(-way)]
        growing, seen = self._followed(pieces)
        if growing is not None:
            return growing
        pieces += seen
        moves = np.logical_or.reduce([one.moves for one in pieces])
        kept = np.flatnonzero(moves)
        matrices = self._different([one.matrix for one in pieces])
        late = len(self._different([one.matrix for one in pieces[: len(pieces) // 2]]))
        if len(matrices) - late > NEW * (len(pieces) - len(pieces) // 2):
            raise NoMatrix(
                f"slopes jump at the operating point: {len(matrices)} linear pieces were seen to meet there, "
                "one in nearly every direction (the norm of a vector, a root), and there are more. No motion "
                "across them was found that keeps growing, which proves nothing. Choose another point (at=…, "
                "--at)."
            )
        proven, why = self._proven([matrix[np.ix_(kept, kept)] for matrix in matrices])
        if proven is None:
            raise NoMatrix(
                f"slopes jump at the operating point: {len(matrices)} linear pieces or more meet there, and "
                f"which of them a deviation is in depends on its direction. No motion across them was found "
                f"that keeps growing, but {why}. Choose another point (at=…, --at)."
            )
        return self._named(proven, kept, 1)

    def _different(self, matrices: Sequence[Array]) -> list[Array]:
        found: list[Array] = []
        for matrix in matrices:
            if all(self._apart(matrix, other) > 0.1 * self._tolerance for other in found):
                found.append(matrix)
        return found

    def _followed(self, pieces: Sequence[Nearby]) -> tuple[Induced | None, list[Nearby]]:
        """Deviations from piece to piece: a motion that keeps growing, if there is one; and pieces met."""
        starts = [self._random() for _ in range(MOTIONS - 4)]
        worst = max(pieces, key=lambda one: float(np.abs(np.linalg.eigvals(one.matrix)).max(initial=0.0)))
        values, vectors = np.linalg.eig(worst.matrix)
        main = np.real(vectors[:, int(np.argmax(np.abs(values)))]) / self._sizes
        main = main / (np.abs(main).max() or 1.0)
        starts += [main, -main, main + 0.01 * self._random(), -main + 0.01 * self._random()]
        motions = [self._motion(start, LENGTH) for start in starts]
        fastest = max(motions, key=lambda motion: motion.grown)
        seen = [self._at(way) for motion in motions for way in motion.ways[-3:]]
        for length in (5 * LENGTH, 25 * LENGTH) if fastest.grown > 0.0 else ():
            on = self._motion(fastest.ways[-1], length)
            seen += [self._at(way) for way in on.ways[-8:]]
            growing = self._cycle(on)
            if growing is not None or on.grown <= 0.0:
                return growing, seen
        return None, seen

    def _motion(self, start: Array, length: int) -> _Motion:
        """A deviation from step to step, made small again after each."""
        way, ways, logs = start, [start], list[float]()
        for _ in range(length):
            near = self._at(way, rows=False)
            after = (near.end - self._here.end) / self._sizes
            size, before = float(np.abs(after).max()), float(np.abs(near.away / self._sizes).max())
            if not np.isfinite(size) or size <= 1e-6 * before:
                return _Motion(ways, [-np.inf])
            logs.append(float(np.log(size / before)))
            way = after / size
            ways.append(way)
        return _Motion(ways, logs)

    def _cycle(self, on: _Motion) -> Induced | None:
        """The steps after which a growing deviation has its direction again, as one matrix.

        What comes back to its own direction, and is larger, grows for ever. What does not quite come back has
        to have grown much, and to go on growing.
        """
        last = on.ways[-1] / np.linalg.norm(on.ways[-1])
        half = len(on.ways) // 2
        turned = [float(np.dot(way, last) / np.linalg.norm(way)) for way in on.ways[half:-1]]
        nearest = max(turned)
        back = next(k for k in range(1, len(turned) + 1) if turned[-k] >= nearest - 1e-12)
        closes = nearest >= 1.0 - CLOSED and sum(on.logs[-back:]) > 1e3 * CLOSED
        quarters = np.sum(on.logs[half : half + half // 2]), np.sum(on.logs[half + half // 2 :])
        goes_on = on.grown > np.log(GROWN) and min(quarters) > 0.3 * max(quarters)
        if not (closes or goes_on):
            return None
        product = np.eye(len(last))
        moves = np.zeros(len(last), dtype=bool)
        for way in on.ways[-1 - back : -1]:
            near = self._at(way)
            product = near.matrix @ product
            moves |= near.moves
        found = self._named(product[np.ix_(moves, moves)], np.flatnonzero(moves), back)
        return found if spectrum(found).judged.verdict == "unstable" else None

    def _named(self, matrix: Array, kept: npt.NDArray[np.int64], steps: int) -> Induced:
        names, ports = self._inducing.entries, self._ports
        return replace(
            self._found,
            matrix=matrix,
            names=tuple(names[i] for i in kept),
            ports=tuple(ports[i] for i in kept),
            accuracy=self._found.accuracy * steps,
            steps=steps * self._found.steps,
            error=None,
            again=None,
        )

    def _proven(self, matrices: list[Array]) -> tuple[Array | None, str]:
        """The piece with the largest spectral radius, if one form shrinks with all; else why not."""
        unsure = 1.0 + 100.0 * self._found.accuracy
        chosen = matrices[:MAX_PIECES]
        for _ in range(4):
            try:
                found = decide(SwitchedSystem([unsure * one for one in chosen]), seconds=SECONDS, lift=0)
            except MissingExtra as missing:
                return None, f"{missing}"
            if found.verdict != "stable":
                return None, "no quadratic form shrinks with all of them"
            form = found.certificates[0].forms[0] if found.certificates else None
            if form is None:
                break
            open_ = [
                one for one in matrices if np.linalg.eigvalsh(form - unsure**2 * one.T @ form @ one)[0] <= 0.0
            ]
            if not open_:
                break
            chosen += open_[: MAX_PIECES // 2]
        else:
            return None, "too many of them meet for one proof"
        return max(matrices, key=lambda one: float(np.abs(np.linalg.eigvals(one)).max(initial=0.0))), ""


# ----------------------------------------------------------------------------------------------------
# A map of stability: the spectral radius over step sizes and values of one parameter.

MAX_STEPS = 250_000
"""The most points of a map."""


@dataclass(frozen=True)
class StabilityMap(Displayed):
    """`radius[i, j]` is the spectral radius for ``values[i]`` of the parameter and ``steps[j]``.

    `verdicts` has "stable", "unstable" or "undecided" for each. Where the program could not be followed the
    radius is infinite, and nothing is decided.
    """

    parameter: str
    values: tuple[float, ...]
    steps: tuple[float, ...]
    radius: npt.NDArray[np.float64]
    verdicts: npt.NDArray[np.str_]
    local: bool = False
    """Whether any of them holds for small motions only."""

    @property
    def stable(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.verdicts == "stable")

    @property
    def undecided(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.verdicts == "undecided")

    def data(self) -> dict[str, Any]:
        """For JSON."""
        rows = [[value if np.isfinite(value) else None for value in row] for row in self.radius.tolist()]
        return {
            "parameter": self.parameter,
            "values": list(self.values),
            "steps": list(self.steps),
            "spectral_radius": rows,
            "verdicts": self.verdicts.tolist(),
            "local": self.local,
        }


def stability_map(
    given: Scenario | Experiment,
    parameter: str,
    values: Sequence[float],
    steps: Sequence[float],
    *,
    at: At = "start",
    ideal: bool = False,
    **settings: Unpack[Settings],
) -> StabilityMap:
    """The spectral radius over `steps` and `values` of one parameter, such as ``"right.dc"``.

    `at` and `ideal` as of `stability_of`. A start value will do as well: that of a scenario which is not
    linear says where it is linearised.
    """
    if isinstance(given, Scenario) and settings.get("pace") is None:
        settings = {**settings, "pace": checked_step(steps[0])}
    made = experiment_of(given, settings)
    sizes = [checked_step(step, "a step of the map") for step in steps]
    if not sizes or not len(values):
        raise InvalidInput("a map needs at least one step and one value of the parameter")
    if len(sizes) * len(values) > MAX_STEPS:
        raise InvalidInput(
            f"a map of {len(values)} values × {len(sizes)} steps is too large: {MAX_PIECES:,} points will do"
        )
    found = np.full((len(values), len(sizes)), np.inf)
    verdicts = np.full(found.shape, "undecided")
    local = False
    for i, value in enumerate(values):
        changed = made.with_(scenario=made.scenario.with_values({parameter: float(value)}))
        with Inducing(changed, ideal=ideal) as inducing:
            for j, step in enumerate(sizes):
                try:
                    model = settled(inducing, step, at)
                    one = spectrum(model)
                except (RunError, OverflowError):
                    continue
                found[i, j], verdicts[i, j] = one.radius, one.judged.verdict
                local = local or not model.linear
    return StabilityMap(parameter, tuple(float(v) for v in values), tuple(sizes), found, verdicts, local)
