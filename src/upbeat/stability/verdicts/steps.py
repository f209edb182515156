"""Which communication steps are stable, and of which nobody can tell: intervals, by a scan and bisection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from upbeat.stability.linear.followed import Verdict
from upbeat.stability.verdicts.between import Between, Models
from upbeat.stability.verdicts.spectrum import Judged

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
    """The stable steps among those looked at, those of which nobody can tell, and what was looked at.

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
    runs, told = _closed(judge, models, runs)

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
        loose=told.loose,
        samples=len(looked) + told.samples,
        gap=gap if told.gap is None else min(gap, told.gap),
    )


class _Told(NamedTuple):
    """What looking between steps has brought: where it is not certain, and how closely it looked."""

    loose: tuple[float, float] | None
    samples: int = 0
    gap: float | None = None


def _closed(judge: Judge, models: Models | None, runs: list[_Run]) -> tuple[list[_Run], _Told]:
    """Runs without what only seemed stable, and where something may still hide in the stable ones."""
    stable = [run for run in runs if run.verdict == "stable"]
    if models is None or not stable:
        return runs, _Told((stable[0].low, stable[-1].high) if stable else None)
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
    return _merged([*done, *waiting]), _Told(span, samples, gap)


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

    What matters is whether it may cross the limit: far from it nobody needs to know how it bends, nor where
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
