"""Which communication steps are stable, and which are undecided: intervals, by a scan and bisection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from upbeat.scenario.graph import components
from upbeat.stability.linear.flows import balanced
from upbeat.stability.linear.followed import Induced, Verdict
from upbeat.stability.verdicts.spectrum import Judged, merged

# ----------------------------------------------------------------------------------------------------
# Between two steps that were looked at: whether all steps from one to the other are stable.
#
# The matrix of a step moves smoothly with the size of the step, so a few of them give all others by
# interpolation, which costs next to nothing. Between two of these there is a bound: matrices that contract
# in one quadratic norm contract in it together with everything on the straight line between them, and the
# matrix strays from that line by hardly more than it does in the middle. Where a gap is too wide for that
# it is halved, until the bound holds or a step is found that is not stable. So a narrow band of unstable
# steps, as resonances of lightly damped motions have it, does not slip through.

Array = npt.NDArray[np.float64]
Models = Callable[[float], Induced | None]
"""The induced model of a step, if it has one."""

NODES = (9, 17, 33, 65)
"""How many steps a piece of the search is interpolated through: the fewest that will do."""
CLOSE = 1e-11
"""How closely an interpolation has to meet steps that it was not made from, relatively."""
HALVED = 5
"""How often a piece is halved where so much happens that no interpolation will do."""
JUMP = 0.03
"""Coefficients that are smaller than this, and do not get any smaller, are those of a jump: there a solver
makes one step more, or an iteration one round more."""
WIDE = 2.5
"""By no more than this factor do the steps of one piece differ."""
LARGE = 60
"""More entries that depend on each other take too long."""
MAX_SAMPLES = 30_000
"""The most gaps that are looked at in one piece."""
BATCH = 2048
SAFETY = 2.0
"""How much further than in the middle a matrix may stray from a straight line within a gap."""


@dataclass
class Gaps:
    """What was found between two steps. `suspects` look unstable; `left` could not be bounded."""

    suspects: list[float] = field(default_factory=list)
    left: list[tuple[float, float]] = field(default_factory=list)
    samples: int = 0
    gap: float = inf
    """The smallest distance of two steps that were compared."""


class Between:
    """Looks between steps. `fine`: gaps narrower than this part of the step are not halved any more."""

    def __init__(self, models: Models, fine: float) -> None:
        self._models, self._fine = models, fine

    def look(self, low: float, high: float) -> Gaps:
        """Whether everything between two steps is stable, both of which are."""
        found = Gaps()
        count = max(1, int(np.ceil(np.log(high / low) / np.log(WIDE))))
        ends = [low * (high / low) ** (k / count) for k in range(count)] + [high]
        for a, b in pairwise(ends):
            self._piece(a, b, HALVED, found)
            if found.suspects:
                break
        return found

    def _piece(self, a: float, b: float, deep: int, found: Gaps) -> None:
        piece = _interpolated(self._models, a, b)
        if isinstance(piece, _Rough):
            found.samples += len(piece.radii)
            found.gap = min([found.gap, *(two - one for (one, _), (two, _) in pairwise(piece.radii))])
            found.suspects += [step for step, radius in piece.radii if not radius < 1.0]
            if found.suspects:
                return
            if deep == 0 or piece.jump or not piece.radii:
                found.left.append((a, b))
                return
            middle = 0.5 * (a + b)
            self._piece(a, middle, deep - 1, found)
            if not found.suspects:
                self._piece(middle, b, deep - 1, found)
            return
        for block in piece.blocks():
            self._bounded(piece, block, found)

    def _bounded(self, piece: _Piece, block: list[int], found: Gaps) -> None:
        """Halve gaps until all steps in them are known to be stable."""
        edges = np.linspace(piece.low, piece.high, 2 * len(piece.coefficients))
        low, high = edges[:-1], edges[1:]
        part = piece.part(block)
        looked = 0
        while len(low):
            looked += len(low)
            found.gap = min(found.gap, 0.5 * float((high - low).min()))
            if looked > MAX_SAMPLES:
                found.left += zip(low.tolist(), high.tolist(), strict=True)
                break
            middle = 0.5 * (low + high)
            good, radii = part.contracts(low, middle, high)
            # What grows is not looked at any further to its right: that is another interval.
            bad = middle[radii >= 1.0]
            if len(bad):
                found.suspects.append(float(bad.min()))
            wide = high - low > self._fine * high
            found.left += zip(low[~good & ~wide].tolist(), high[~good & ~wide].tolist(), strict=True)
            rest = ~good & wide
            if found.suspects:
                rest &= low < min(found.suspects)
            low, middle, high = low[rest], middle[rest], high[rest]
            low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        found.samples += looked


@dataclass(frozen=True)
class _Rough:
    """A piece that no interpolation describes: the steps that were tried, and how large motions are there."""

    radii: list[tuple[float, float]]
    jump: bool = False
    """Whether it looks as if something jumps there, which halving the piece does not help against."""


@dataclass(frozen=True)
class _Piece:
    """The matrices of all steps from `low` to `high`, as Chebyshev series, and how well they are known."""

    low: float
    high: float
    coefficients: Array
    error: Array

    def blocks(self) -> list[list[int]]:
        """Entries that influence each other in a circle: what others there are makes no eigenvalue."""
        there = np.abs(self.coefficients).max(axis=0) > 0.0
        before = [np.flatnonzero(row).tolist() for row in there]
        return [g for g in components(before) if len(g) > 1 or g[0] in before[g[0]]]

    def part(self, block: list[int]) -> _Piece:
        """The same about some entries, in units of measure that suit them."""
        which = np.ix_(block, block)
        own = np.stack([each[which] for each in self.coefficients])
        scale = balanced(np.abs(own).sum(axis=0))[1]
        return _Piece(
            self.low, self.high, own / scale[:, None] * scale, self.error[which] / scale[:, None] * scale
        )

    def at(self, steps: Array) -> Array:
        """The matrices of some steps."""
        x = np.clip((2.0 * steps - self.low - self.high) / (self.high - self.low), -1.0, 1.0)
        count, size = len(self.coefficients), self.coefficients.shape[1]
        waves = np.cos(np.arccos(x)[:, None] * np.arange(count))
        return (waves @ self.coefficients.reshape(count, -1)).reshape(len(steps), size, size)

    def contracts(self, low: Array, middle: Array, high: Array) -> tuple[npt.NDArray[np.bool_], Array]:
        """Of each gap, whether all matrices in it contract; and how large motions are in its middle."""
        good, radii = np.zeros(len(low), dtype=bool), np.zeros(len(low))
        for first in range(0, len(low), BATCH):
            some = slice(first, first + BATCH)
            good[some], radii[some] = self._some(*(self.at(part[some]) for part in (low, middle, high)))
        return good, radii

    def _some(self, left: Array, here: Array, right: Array) -> tuple[npt.NDArray[np.bool_], Array]:
        good, radii = np.zeros(len(here), dtype=bool), np.zeros(len(here))
        with np.errstate(all="ignore"):
            norms, known = _lyapunov(here)
            try:
                roots = np.linalg.cholesky(np.where(known[:, None, None], norms, np.eye(here.shape[1])))
            except np.linalg.LinAlgError:
                known[:], roots = False, np.broadcast_to(np.eye(here.shape[1]), here.shape)
            up = np.swapaxes(roots, 1, 2)  # |x| = ‖up·x‖ is the norm
            back = np.linalg.inv(up)
            known &= np.isfinite(back).all(axis=(1, 2))
            back[~known] = 0.0
            room = np.full(len(here), np.inf)
            for matrices in (left, right):
                moved = up @ matrices @ back
                room = np.minimum(room, 1.0 - np.linalg.norm(moved, 2, axis=(1, 2)))
            bend = up @ (here - 0.5 * (left + right)) @ back
            blur = np.abs(up) @ self.error @ np.abs(back)
            strays = SAFETY * np.linalg.norm(bend, axis=(1, 2)) + np.linalg.norm(blur, axis=(1, 2))
            good = known & (strays < room)
        if not good.all():
            radii[~good] = np.abs(np.linalg.eigvals(here[~good])).max(axis=1)
        return good, radii


def _lyapunov(matrices: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
    """The sum of Aᵀᵏ·Aᵏ for each matrix, a norm in which it contracts; and whether there is one."""
    one = np.broadcast_to(np.eye(matrices.shape[1]), matrices.shape)
    norms, power = one.copy(), matrices.copy()
    for _ in range(48):
        norms = norms + np.swapaxes(power, 1, 2) @ norms @ power
        power = power @ power
        size = np.abs(power).max(axis=(1, 2))
        power[~(size < 1e100)] = np.nan  # it grows, and stays so
        if not (size > 1e-9).any():
            break
    known = np.isfinite(norms).all(axis=(1, 2)) & (np.abs(norms).max(axis=(1, 2)) < 1e13) & (size <= 1e-9)
    return norms, known


def _interpolated(models: Models, low: float, high: float) -> _Piece | _Rough:
    """All steps between two through as few of them as will do."""
    seen: dict[float, Array] = {}
    keep: list[int] = []
    names: tuple[str, ...] = ()
    blur, jump = 0.0, False

    def node(cosine: float) -> bool:
        """Look at one more step."""
        nonlocal keep, names, blur
        step = (
            low if cosine == -1.0 else high if cosine == 1.0 else 0.5 * (low + high + cosine * (high - low))
        )
        if cosine in seen:
            return True
        model = models(step)
        if model is None or not np.isfinite(model.matrix).all() or names not in ((), model.names):
            return False
        matrix, left, _ = merged(model.matrix)
        if not names:
            names, keep = model.names, left
        if left != keep or len(left) > LARGE:
            return False
        blur = max(blur, model.accuracy * (8 + len(left)))
        seen[cosine] = matrix
        return True

    def rough() -> _Rough:
        found = [(0.5 * (low + high + x * (high - low)), each) for x, each in sorted(seen.items())]
        return _Rough([(step, float(np.abs(np.linalg.eigvals(each)).max())) for step, each in found], jump)

    for count in NODES:
        angles = np.pi * np.arange(count) / (count - 1)
        cosines = [round(float(x), 15) for x in np.cos(angles)]
        if not all(node(x) for x in cosines):
            return _Rough([])
        values = np.stack([seen[x] for x in cosines])
        series = _series(values, angles)
        size = np.abs(values).max(axis=0)
        tail = np.abs(series[-2:]).max(axis=0)
        enough = max(CLOSE, 10.0 * blur) * np.maximum(size, CLOSE * size.max())
        if not (tail <= enough).all():
            sizes = np.abs(series).max(axis=(1, 2))
            jump = bool(sizes[-3:].max() < JUMP * sizes.max())
            continue
        checks = [
            round(float(np.cos(np.pi * (k + 0.37) / (count - 1))), 15) for k in (0, count // 2, count - 2)
        ]
        if not all(node(x) for x in checks):
            return _Rough([])
        piece = _Piece(low, high, series, np.zeros_like(size))
        steps = 0.5 * (low + high + np.array(checks) * (high - low))
        apart = np.abs(piece.at(steps) - np.stack([seen[x] for x in checks])).max(axis=0)
        if (apart <= 4.0 * enough).all():
            series[:, size == 0.0] = 0.0
            return _Piece(low, high, series, 4.0 * apart + 4.0 * tail + blur * size)
    return rough()


def _series(values: Array, angles: Array) -> Array:
    """The Chebyshev coefficients of values at the extrema of the last polynomial."""
    last = len(values) - 1
    weights = np.ones(last + 1)
    weights[[0, -1]] = 0.5
    waves = np.cos(np.outer(np.arange(last + 1), angles)) * weights * 2.0 / last
    series: Array = np.tensordot(waves, values, axes=1)
    series[[0, -1]] *= 0.5
    return series


# ----------------------------------------------------------------------------------------------------

Judge = Callable[[float], Judged]
"""The deciding motion for a step; `Spent` if there is no time left to find it."""
FINE = 1e-6
"""How closely the ends of intervals are found, relatively."""
ENDS = 1e-3
"""So near to the end of an interval, relatively, nothing is bounded: motions hardly decay there."""
FAR = 3.0
"""From a spectral radius so large nothing comes back to 1 between two steps that are close."""


class Spent(Exception):
    """Nothing more can be looked at: the budget is spent."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Steps from `low` to `high` with one verdict. `open_ended`: the search did not look beyond `high`."""

    low: float
    high: float
    from_zero: bool = False
    """Whether it begins at the smallest step looked at."""
    open_ended: bool = False

    def __contains__(self, step: float) -> bool:
        return self.low <= step <= self.high

    def __str__(self) -> str:
        beyond = " and perhaps beyond" if self.open_ended else ""
        return f"{'up to' if self.from_zero else f'{self.low:.6g} …'} {self.high:.6g}{beyond}"


@dataclass(frozen=True)
class Steps:
    """The stable steps among those looked at, those that are undecided, and what was looked at.

    `looked` are pairs of step and size of the deciding motion; infinite where no matrix was found.
    """

    stable: tuple[Interval, ...]
    undecided: tuple[Interval, ...]
    looked: tuple[tuple[float, float], ...]
    why: str = ""
    """Why there is no matrix for some of the undecided steps, in the words of one of them."""
    unlooked: str = ""
    """Why the last of the undecided steps were not looked at, if so, in words."""
    inside: tuple[float, ...] = ()
    """The sizes of steps inside nested scenarios: all above is about steps that fit these, only."""
    loose: tuple[float, float] | None = None
    """Outside of these two a bound leaves no room for others between the stable steps that were looked at;
    from one to the other they were sampled. None: the bound holds for all of them."""
    samples: int = 0
    """How many steps were looked at, those included whose matrix was interpolated."""
    gap: float = 0.0
    """The smallest distance of two of them."""

    @property
    def sampled(self) -> str:
        """How closely was looked, in words, if that leaves room for what was not seen; else nothing."""
        if not self.stable or self.loose is None:
            return ""
        low, high = self.loose
        return (
            f"from {low:.6g} to {high:.6g} sampled at {self.samples} steps, finest gap {self.gap:.2g}: others"
            " may lie between"
        )

    def fitted(self, fitting: Callable[[float], float], inside: tuple[float, ...]) -> Steps:
        """The same about those steps alone that fit the ones `inside` nested scenarios."""

        def fit(found: tuple[Interval, ...]) -> tuple[Interval, ...]:
            return tuple(replace(one, low=fitting(one.low), high=fitting(one.high)) for one in found)

        looked = tuple({fitting(step): radius for step, radius in self.looked}.items())
        return replace(
            self, stable=fit(self.stable), undecided=fit(self.undecided), looked=looked, inside=inside
        )

    @property
    def largest(self) -> float | None:
        """The end of the first interval of stable steps, unless unstable ones were found below it.

        None if there is no such interval. Steps below it may be undecided: a motion that a step hardly
        damps cannot be told from one that it does not damp at all. Larger stable steps may exist (`stable`),
        but between them and this one are others.
        """
        return None if self._first is None else self._first.high

    @property
    def open(self) -> bool | None:
        """Whether `largest` is where the search ended, so that larger ones may be stable; None without it."""
        return None if self._first is None else self._first.open_ended

    @property
    def _first(self) -> Interval | None:
        if not self.stable:
            return None
        first, below = self.stable[0], self.undecided[:1]
        joined = first.from_zero or any(one.from_zero and one.high >= first.low for one in below)
        return first if joined else None

    @property
    def not_unstable(self) -> float | None:
        """Up to here, from the smallest step on, no step was found to be unstable; None if that one is."""
        end = None
        for one in sorted((*self.stable, *self.undecided), key=lambda one: one.low):
            if one.from_zero or one.low == end:
                end = one.high
        return end


class _Run(NamedTuple):
    """Steps that share a verdict."""

    verdict: Verdict
    low: float
    high: float


def stable_steps(
    judge: Judge, low: float, high: float, points: int, *, deep: int = 6, models: Models | None = None
) -> Steps:
    """What is known about the steps between `low` and `high`.

    Looks at `points` steps with equal ratios, and in the middle of any two; where that is not what they let
    expect, more and more closely. Between neighbours with different verdicts the end of an interval is found
    by bisection. `deep`: how often a distance is halved at most. Then what was found to be stable is looked
    at again: with the matrices of steps (`models`) there is a bound on what lies between them.

    It goes from small steps to large ones, and is done with all below before it goes on. Where `judge` has to
    give up, what is above is undecided. It must not give up at once.
    """
    ratio = (high / low) ** (1.0 / (points - 1))
    sizes = [low * ratio**k for k in range(points)]
    pairs = [(low, judge(low))]
    changes: list[tuple[float, Verdict]] = [(low, pairs[0][1].verdict)]
    beyond: tuple[Interval, ...] = ()
    try:
        for size in sizes[1:]:
            before, here = pairs[-1], (size, judge(size))
            part = [before, *sorted(_between(judge, before, here, deep - 1).items()), here]
            found: list[tuple[float, Verdict]] = []
            for (a, at_a), (b, at_b) in pairwise(part):
                found += _changes(judge, a, at_a.verdict, b, at_b.verdict)
            pairs += part[1:]
            changes += found
    except Spent:
        beyond = (Interval(pairs[-1][0], sizes[-1], open_ended=True),)
    first, last = low, pairs[-1][0]
    ends = [*(step for step, _ in changes[1:]), last]
    runs = _merged([_Run(kind, a, b) for (a, kind), b in zip(changes, ends, strict=True)])
    runs, scanned = _closed(judge, models, runs)

    def of(kind: Verdict) -> tuple[Interval, ...]:
        return tuple(
            Interval(run.low, run.high, from_zero=run.low == first, open_ended=run.high == last)
            for run in runs
            if run.verdict == kind
        )

    undecided = of("undecided")
    if beyond and undecided and undecided[-1].high == last:
        beyond = (replace(undecided[-1], high=beyond[0].high),)
        undecided = undecided[:-1]
    looked = tuple((step, found.radius) for step, found in pairs)
    gap = min((b - a for (a, _), (b, _) in pairwise(looked)), default=0.0)
    return Steps(
        of("stable"),
        (*undecided, *beyond),
        looked,
        loose=scanned.loose,
        samples=len(looked) + scanned.samples,
        gap=gap if scanned.gap is None else min(gap, scanned.gap),
    )


class _Scanned(NamedTuple):
    """What looking between steps has brought: where it is not certain, and how closely it looked."""

    loose: tuple[float, float] | None
    samples: int = 0
    gap: float | None = None


def _closed(judge: Judge, models: Models | None, runs: list[_Run]) -> tuple[list[_Run], _Scanned]:
    """Runs without what only seemed stable, and where something may still hide in the stable ones."""
    stable = [run for run in runs if run.verdict == "stable"]
    if models is None or not stable:
        return runs, _Scanned((stable[0].low, stable[-1].high) if stable else None)
    between = Between(models, 0.01 * FINE)
    waiting, done = list(runs), list[_Run]()
    loose: list[tuple[float, float]] = []
    samples, gap = 0, None
    try:
        while waiting:
            run = waiting[0]
            if run.verdict == "stable" and run.low < run.high:
                gaps = between.look(run.low, run.high)
                samples += gaps.samples
                gap = gaps.gap if gap is None else min(gap, gaps.gap)
                hole = _hole(judge, run, min(gaps.suspects)) if gaps.suspects else None
                end = run.high if hole is None else hole.low
                loose += _inner(gaps.left, run.low, end)
                if hole is not None:
                    # What lies before the hole was looked at together with it; what lies behind comes next.
                    done += [part for part in (_Run("stable", run.low, end), hole) if part.low < part.high]
                    waiting[:1] = [_Run("stable", hole.high, run.high)] if hole.high < run.high else []
                    continue
                if gaps.suspects:
                    loose.append((min(gaps.suspects), run.high))
            done.append(waiting.pop(0))
    except Spent:
        loose += [(run.low, run.high) for run in waiting if run.verdict == "stable"]
    span = (min(a for a, _ in loose), max(b for _, b in loose)) if loose else None
    return _merged([*done, *waiting]), _Scanned(span, samples, gap)


def _inner(left: list[tuple[float, float]], low: float, high: float) -> list[tuple[float, float]]:
    """Open gaps that are not just at the ends of the interval, where motions hardly decay."""
    return [(a, b) for a, b in left if b > low * (1.0 + ENDS) and a < high * (1.0 - ENDS)]


def _hole(judge: Judge, run: _Run, suspect: float) -> _Run | None:
    """The steps around one that are not stable, within a run that seemed so; none, if that one is."""
    verdict = judge(suspect).verdict
    if verdict == "stable":
        return None
    width = FINE * suspect
    low = high = suspect
    while low > run.low and judge(low).verdict != "stable":
        low, width = max(run.low, suspect - width), 2.0 * width
    width = FINE * suspect
    while high < run.high and judge(high).verdict != "stable":
        high, width = min(run.high, suspect + width), 2.0 * width
    inner = _changes(judge, low, "stable", suspect, verdict)[:1] if low < suspect else []
    outer = _changes(judge, suspect, verdict, high, "stable")[-1:] if high > suspect else []
    return _Run(verdict, inner[0][0] if inner else run.low, outer[0][0] if outer else run.high)


def _between(
    judge: Judge, one: tuple[float, Judged], two: tuple[float, Judged], deep: int
) -> dict[float, Judged]:
    """Steps between two, as many as it takes until the radius goes nearly straight for where it matters.

    What matters is whether it may cross the limit: far from it it does not matter how it bends, nor where
    it bends by less than it is known to.
    """
    (a, at_a), (b, at_b) = one, two
    middle = 0.5 * (a + b)
    here = judge(middle)
    found = {middle: here}
    all_three = (at_a, here, at_b)
    bend = abs(here.radius - 0.5 * (at_a.radius + at_b.radius))
    nearest = min(abs(each.radius - 1.0) for each in all_three)
    known = max(each.uncertainty for each in all_three)
    straight = bend <= max(0.25 * nearest, known)
    if deep > 0 and not straight and min(each.radius for each in all_three) < FAR:
        found |= _between(judge, one, (middle, here), deep - 1)
        found |= _between(judge, (middle, here), two, deep - 1)
    return found


def _changes(judge: Judge, a: float, at_a: Verdict, b: float, at_b: Verdict) -> list[tuple[float, Verdict]]:
    """Where the verdict changes between `a` and `b`, and to what."""
    if at_a == at_b:
        return []
    while b - a > FINE * a:
        middle = 0.5 * (a + b)
        here = judge(middle).verdict
        if here == at_a:
            a = middle
        elif here == at_b:
            b = middle
        else:
            return [*_changes(judge, a, at_a, middle, here), *_changes(judge, middle, here, b, at_b)]
    return [(a if at_a == "stable" else b, at_b)]


def _merged(runs: list[_Run]) -> list[_Run]:
    """Without the hair's breadth between stable and unstable where the eigenvalue is 1."""
    found: list[_Run] = []
    for k, run in enumerate(runs):
        sides = {runs[j].verdict for j in (k - 1, k + 1) if 0 <= j < len(runs)}
        thin = run.high - run.low <= 4.0 * FINE * run.high
        edge = thin and run.verdict == "undecided" and sides == {"stable", "unstable"}
        verdict: Verdict = "unstable" if edge else run.verdict
        if found and found[-1].verdict == verdict:
            found[-1] = found[-1]._replace(high=run.high)
        else:
            found.append(run._replace(verdict=verdict))
    return found
