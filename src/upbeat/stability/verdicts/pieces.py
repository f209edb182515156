"""Verdicts at kinks: all linear pieces that meet at an operating point, and what motions across them do.

Where slopes jump (abs, max, limits, `if`), a step does to small deviations what one of several matrices does,
depending on their direction. No single one of them says anything. All together they do: if one quadratic form
shrinks with each of them, every motion decays; if a deviation that is followed from piece to piece keeps
growing, some motion grows. Otherwise nothing is decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import MissingExtra
from upbeat.stability.linear.beside import NoMatrix
from upbeat.stability.linear.followed import Induced
from upbeat.stability.linear.induced import At, Inducing
from upbeat.stability.linear.kinks import Kinks, Nearby
from upbeat.stability.switched.decide import decide
from upbeat.stability.switched.system import SwitchedSystem
from upbeat.stability.verdicts.spectrum import spectrum

Array = npt.NDArray[np.float64]
DIRECTIONS = 24
"""How many pairs of directions are looked at for pieces."""
MOTIONS = 12
"""How many deviations are followed …"""
LENGTH = 60
"""… and for how many steps at first; the fastest of them five times as long."""
GROWN = 1e3
"""What has grown so much, and still goes on, grows for ever: nothing in it depends on its size."""
MOST = 24
"""Pieces that one form is looked for; others are tested with it."""
SECONDS = 10.0


def settled(inducing: Inducing, step: float, at: At) -> Induced:
    """The matrix of a step at a point; where several pieces meet there, one that stands for all of them.

    `NoMatrix` where that leaves the verdict open.
    """
    found = inducing.model(step, at)
    far = inducing.reach
    if not far or not found.size or not np.isfinite(found.matrix).all():
        return found
    kinks = _Judging(inducing, step, found, far)
    near = kinks.meet()
    return kinks.judged(near, inducing.ports) if near else found


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
        fastest = max(motions, key=lambda motion: motion[0])
        seen = [self._at(way) for motion in motions for way in motion[1][-3:]]
        if fastest[0] > 0.0:
            logs, ways = fastest[0], fastest[1]
            more, on = self._motion(ways[-1], 5 * LENGTH)
            seen += [self._at(way) for way in on[-8:]]
            halves = self._growth(on)
            if more > np.log(GROWN) and min(halves) > 0.3 * max(halves) and logs > 0.0:
                return self._cycle(on), seen
        return None, seen

    def _motion(self, start: Array, length: int) -> tuple[float, list[Array]]:
        """By how much, as a logarithm, a deviation grows over its last half, and the directions it takes."""
        way, grown, ways = start, 0.0, [start]
        for k in range(length):
            near = self._at(way, rows=False)
            after = (near.end - self._here.end) / self._sizes
            size = float(np.abs(after).max())
            if not np.isfinite(size) or size <= 1e-6 * float(np.abs(near.away / self._sizes).max() or 1.0):
                return -np.inf, ways
            if 2 * k >= length:
                grown += float(np.log(size / np.abs(near.away / self._sizes).max()))
            way = after / size
            ways.append(way)
        return grown, ways

    def _growth(self, ways: Sequence[Array]) -> tuple[float, float]:
        """By how much it grows over the third and over the last quarter of a motion."""
        count = len(ways) - 1
        found = []
        for first, last in ((count // 2, 3 * count // 4), (3 * count // 4, count)):
            grown = 0.0
            for way in ways[first:last]:
                near = self._at(way, rows=False)
                after = np.abs((near.end - self._here.end) / self._sizes).max()
                grown += float(np.log(after / np.abs(near.away / self._sizes).max()))
            found.append(grown)
        return found[0], found[1]

    def _cycle(self, ways: Sequence[Array]) -> Induced:
        """The steps after which a growing deviation has its direction again, as one matrix."""
        last = ways[-1] / np.linalg.norm(ways[-1])
        turned = [float(np.dot(way, last) / np.linalg.norm(way)) for way in ways[:-1]]
        late = turned[len(turned) // 2 :]
        nearest = max(late)
        back = next(k for k in range(1, len(late) + 1) if late[-k] >= nearest - 1e-9)
        product = np.eye(len(last))
        moves = np.zeros(len(last), dtype=bool)
        for way in ways[-1 - back : -1]:
            near = self._at(way)
            product = near.matrix @ product
            moves |= near.moves
        found = self._named(product[np.ix_(moves, moves)], np.flatnonzero(moves), back)
        if spectrum(found).judged.verdict != "unstable":
            raise NoMatrix(
                "slopes jump at the operating point, and deviations that are followed from one linear piece "
                "to the next keep growing, but no sequence of pieces was found that surely does."
            )
        return found

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
        )

    def _proven(self, matrices: list[Array]) -> tuple[Array | None, str]:
        """The piece with the largest spectral radius, if one form shrinks with all; else why not."""
        unsure = 1.0 + 100.0 * self._found.accuracy
        chosen = matrices[:MOST]
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
            chosen += open_[: MOST // 2]
        else:
            return None, "too many of them meet for one proof"
        return max(matrices, key=lambda one: float(np.abs(np.linalg.eigvals(one)).max(initial=0.0))), ""
