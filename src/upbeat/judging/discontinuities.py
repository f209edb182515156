"""Where signals of a trace jump or have a kink: events as they show from outside, told from noise.

At every place between two rows a polynomial is put through rows on either side. By how much both differ
there, in value, slope or curvature, is the *mismatch*: of a smooth signal it is small, and falls quickly if
fewer rows are used; noise makes one everywhere. A discontinuity has a mismatch that

* stands out: it is many times what is usual around it, for the same number of rows,
* stays: with half as many rows it is about the same,
* matters: within a communication step it comes to a notable part of the range of the signal.

`suspects` gives the places that are worth a closer look, in a run with steps of one size. `happenings` is
that closer look, in a run with short steps around them: what is found there, in which signals, when, and what
all signals were just before. What is not real (a mode) changes or does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from upbeat.core.ports import Kind
from upbeat.trace.trace import Trace

Numbers = NDArray[np.float64]
Window = tuple[float, float]
What = Literal["jump", "kink", "bend", "mode"]
WORDS: dict[What, str] = {"jump": "jumps", "kink": "has a kink", "bend": "bends", "mode": "changes"}

STANDS_OUT = 8.0
"""A mismatch that is so many times as large as usual around it is no accident."""
SUSPECT = 6.0
"""And so many times is worth a closer look."""
STAYS = (0.6, 1.7)
"""The mismatch with half as many rows, relative to that with all of them: of a discontinuity it is 1, of a
smooth signal 1/8, 1/4 or 1/4 (value, slope, curvature)."""
NOTABLE = 1e-4
"""What comes to less than this part of the range of a signal within a step is not looked for."""
FEWEST, MOST = 6, 96
"""So many rows on a side are used at least, and at most."""
AROUND = 64
"""So many places on each side tell what is usual."""
ON_ROW = 0.05
"""A kink that is no further from a row than this part of a step is at that row."""
BESIDE = float(FEWEST)
"""So many rows beside a kink (a bend) the values (the slopes) of both sides still seem to differ."""
_LOOKED_FOR: tuple[tuple[What, int, int], ...] = (("jump", 0, 2), ("kink", 1, 2), ("bend", 2, 3))
"""What is looked for: the order of the derivative that jumps, and the degree of polynomials."""
LEVELS = 32
"""A signal that takes so many levels at least, all of them multiples of one, may be quantised."""
RESTLESS = 0.25
"""Its steps change in so large a part of the rows in which it moves; of a ramp they stay the same."""
_FLOOR = 64 * float(np.finfo(float).eps)
"""Of the size of a signal: what rounding may make of it."""


@dataclass(frozen=True)
class Break:
    """A discontinuity of one signal, between the times `low` and `high`; `spread`: how well `time` is known.

    `size` is what it jumps by, or its slope, or its curvature; `effect` that within a step, relative to the
    range of the signal. Of a mode: what it was and what it has become.
    """

    signal: str
    what: What
    low: float
    high: float
    time: float
    spread: float
    size: float = 0.0
    effect: float = 1.0
    modes: tuple[str, str] = ("", "")

    def __str__(self) -> str:
        if self.what == "mode":
            return f"{self.signal} {self.modes[0]} → {self.modes[1]}"
        return f"{self.signal} {WORDS[self.what]} ({self.size:+.3g})"


@dataclass(frozen=True)
class Before:
    """A signal just before something happened: its value there, its slope and its curvature, and how well the
    first two are known."""

    value: float
    slope: float
    curvature: float
    error: float
    slope_error: float


@dataclass(frozen=True)
class Happening:
    """Something that happened in a run at one time, as the signals show it."""

    run: int
    time: float
    low: float
    high: float
    spread: float
    breaks: tuple[Break, ...]
    before: Mapping[str, Before] = field(default_factory=dict, repr=False, compare=False)
    modes: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """What is not real, just before."""
    known: str = ""
    """The event of the log that it is, if there is one at that time."""


# ----------------------------------------------------------------------------------------------------
# Signals as numbers, and the mismatch between both sides of every place between two rows.


class Rows:
    """The rows of a trace, by signal: a column each, and one row for each time, after what happened there."""

    def __init__(self, trace: Trace) -> None:
        trace = trace.one_sided()
        self.time: Numbers = np.asarray(trace.time, dtype=float)
        self.real: dict[str, Numbers] = {}
        self.other: dict[str, NDArray[np.str_]] = {}
        for column in trace.columns:
            name = column.name
            if column.kind is Kind.REAL:
                self.real[name] = np.asarray(trace[name], dtype=float)
            else:
                values = trace.labels(name) if column.items else trace[name]
                self.other[name] = np.asarray([str(value) for value in values])
        self.events = [(float(event.time), str(event.name)) for event in trace.events]

    @cached_property
    def ranges(self) -> dict[str, float]:
        """How far each real signal goes; 0 if it stays where it is."""
        found = {}
        for name, values in self.real.items():
            finite = values[np.isfinite(values)]
            spread = float(np.ptp(finite)) if len(finite) else 0.0
            largest = float(np.abs(finite).max()) if len(finite) else 0.0
            found[name] = spread if spread > 1e-12 * largest else 0.0
        return found

    @cached_property
    def moving(self) -> dict[str, Numbers]:
        """The real signals that move, and are numbers all the time."""
        return {n: v for n, v in self.real.items() if self.ranges[n] > 0.0 and np.isfinite(v).all()}

    @cached_property
    def quanta(self) -> dict[str, float]:
        """The size of the steps of signals that are quantised, as those of a sensor; 0 of all others."""
        return {name: _quantum(values, self.ranges[name]) for name, values in self.moving.items()}

    def part(self, first: int, last: int) -> Rows:
        """The rows from `first` up to `last`, without that one; ranges stay those of the whole."""
        made = Rows.__new__(Rows)
        made.time = self.time[first:last]
        made.real = {name: values[first:last] for name, values in self.real.items()}
        made.other = {name: values[first:last] for name, values in self.other.items()}
        made.events = self.events
        made.__dict__["ranges"], made.__dict__["quanta"] = self.ranges, self.quanta
        made.__dict__["moving"] = {name: self.real[name][first:last] for name in self.moving}
        return made


def _quantum(values: Numbers, range_: float) -> float:
    """The size of the levels of a signal that has such; else 0. What only ever counts up (or down) may mean
    each of its steps, and what has few levels goes from one mode to another."""
    steps = np.diff(values)
    moves = steps[steps != 0.0]
    if not len(moves) or not (moves.min() < 0.0 < moves.max()):
        return 0.0
    quantum = float(np.abs(moves).min())
    off = np.abs(moves / quantum - np.round(moves / quantum))
    restless = int(np.count_nonzero(np.abs(np.diff(steps)) > 0.5 * quantum))
    if range_ < LEVELS * quantum or off.max() > 1e-3 or restless < RESTLESS * len(moves):
        return 0.0
    return quantum


def _weights(times: Numbers, at: Numbers, degree: int) -> Numbers:
    """By which the values at `times` (one row for each place) give value, slope and curvature, at one time
    for each place, of the polynomial that fits them best."""
    scale = np.maximum(np.abs(times - at[:, None]).max(axis=1), 1e-300)
    x = (times - at[:, None]) / scale[:, None]
    powers = np.stack([x**k for k in range(degree + 1)], axis=2)
    q, r = np.linalg.qr(powers)
    inverse = np.linalg.solve(r, np.swapaxes(q, 1, 2))  # the pseudo-inverse, one row for each coefficient
    found = np.zeros((len(at), 3, times.shape[1]))
    for k in range(min(degree, 2) + 1):
        found[:, k] = (1.0, 1.0, 2.0)[k] * inverse[:, k] / scale[:, None] ** k
    return found


class Places:
    """The places between two rows with `count` rows on either side, for polynomials of a degree."""

    def __init__(self, time: Numbers, count: int, degree: int) -> None:
        self.count = count
        self.first = np.arange(max(len(time) - 2 * count + 1, 0))
        """Of each place: the first row on its left. The place itself is behind row `first + count - 1`."""
        if not len(self.first):
            return
        self.before = self.first + count - 1
        self.width = time[self.before + 1] - time[self.before]
        middle = 0.5 * (time[self.before] + time[self.before + 1])
        gaps = np.diff(time)
        alike = float(np.ptp(gaps)) <= 1e-6 * float(gaps.max())
        some = self.first[:1] if alike else self.first  # of equal steps, one place tells all
        rows = some[:, None] + np.arange(count)
        self._left = _weights(time[rows], middle[: len(some)], degree)
        self._right = _weights(time[rows + count], middle[: len(some)], degree)

    def __len__(self) -> int:
        return len(self.first)

    def mismatch(self, values: Numbers, order: int) -> Numbers:
        """Right minus left at every place, of the value (0), the slope (1) or the curvature (2)."""
        windows = np.lib.stride_tricks.sliding_window_view(values, self.count)
        left, right = windows[: len(self)], windows[self.count :]
        return np.asarray(
            (self._right[:, order] * right).sum(axis=1) - (self._left[:, order] * left).sum(axis=1)
        )

    def rounding(self, values: Numbers, order: int, quantum: float = 0.0) -> Numbers:
        """What rounding of the values may make of that; to levels, where there is a `quantum`."""
        size = float(np.abs(values).max()) * _FLOOR
        left, right = self._left[:, order], self._right[:, order]
        found = size * (np.abs(left).sum(axis=1) + np.abs(right).sum(axis=1))
        if quantum:
            found += 0.5 * quantum * np.sqrt((left**2).sum(axis=1) + (right**2).sum(axis=1))
        return np.asarray(np.broadcast_to(found, (len(self),)))


def _usual(mismatch: Numbers, width: int = AROUND) -> Numbers:
    """What is usual around each place: 1.5 times the median of the sizes there (a standard deviation, if it
    is noise)."""
    size = np.abs(mismatch)
    if len(size) <= 2 * width + 1:
        return np.full(len(size), 1.4826 * float(np.median(size)) if len(size) else 0.0)
    blocks = np.lib.stride_tricks.sliding_window_view(size, 2 * width + 1)[::width]
    medians = 1.4826 * np.median(blocks, axis=1)
    centres = width + width * np.arange(len(medians))
    return np.asarray(np.interp(np.arange(len(size)), centres, medians))


# ----------------------------------------------------------------------------------------------------
# The first look, at a run with steps of one size.

_FIRST_LOOKS: tuple[tuple[int, int, tuple[int, ...]], ...] = (
    (3, 2, (0, 1)),
    (8, 2, (0, 1)),
    (8, 3, (2,)),
    (24, 2, (0, 1)),
)
"""Numbers of rows on a side, degrees and orders: few see what is close together, more see through noise."""


def suspects(rows: Rows) -> list[Window]:
    """Where something may have happened: between these times. Those that touch each other are one."""
    found: list[Window] = []
    time = rows.time
    for count, degree, orders in _FIRST_LOOKS:
        places = Places(time, count, degree)
        if not len(places):
            continue
        for name, values in rows.moving.items():
            for order in orders:
                mismatch = np.abs(places.mismatch(values, order))
                per_step = mismatch * np.maximum(places.width, 1e-300) ** order
                usual = np.maximum(_usual(mismatch), places.rounding(values, order, rows.quanta[name]))
                hits = (mismatch > SUSPECT * usual) & (per_step > 1e-3 * NOTABLE * rows.ranges[name])
                hits &= mismatch >= _largest_near(mismatch, count)
                found += [(float(time[k]), float(time[k + 1])) for k in places.before[hits]]
    for labels in rows.other.values():
        changed = np.flatnonzero(labels[1:] != labels[:-1])
        found += [(float(time[k]), float(time[k + 1])) for k in changed]
    return joined(found)


def _largest_near(size: Numbers, reach: int) -> Numbers:
    """The largest within so many places on both sides."""
    padded = np.pad(size, reach, constant_values=0.0)
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1).max(axis=1))


def joined(windows: Sequence[Window]) -> list[Window]:
    """Windows in order, those that overlap or touch each other as one."""
    made: list[Window] = []
    for low, high in sorted(windows):
        if made and low <= made[-1][1]:
            made[-1] = (made[-1][0], max(made[-1][1], high))
        else:
            made.append((low, high))
    return made


# ----------------------------------------------------------------------------------------------------
# The closer look, at rows that are close together.


class _Look:
    """Places with all numbers of rows that fit into some rows, made once for all signals."""

    def __init__(self, time: Numbers) -> None:
        self.time = time
        self._places: dict[tuple[int, int], Places] = {}

    def places(self, count: int, degree: int) -> Places:
        if (count, degree) not in self._places:
            self._places[count, degree] = Places(self.time, count, degree)
        return self._places[count, degree]

    def around(self, row: int) -> tuple[float, float, float, float]:
        """The times of a row and the next one, the middle, and how far it is from there to both."""
        low, high = float(self.time[row]), float(self.time[row + 1])
        return low, high, 0.5 * (low + high), 0.5 * (high - low)

    @property
    def counts(self) -> list[int]:
        """Numbers of rows on a side, each about half of the next."""
        found, count = [], FEWEST
        while count <= min(MOST, len(self.time) // 2):
            found.append(count)
            count *= 2
        return found


def _breaks(name: str, rows: Rows, look: _Look, step: float) -> Iterator[Break]:
    """The discontinuities of a real signal in some rows that are close together."""
    values, range_, quantum = rows.moving[name], rows.ranges[name], rows.quanta[name]
    taken: list[float] = []
    for what, order, degree in _LOOKED_FOR:
        for row, size, places in _standing(values, look, order, degree, quantum):
            made = _placed(Break(name, what, *look.around(row), size), order, values, look, row, places)
            if made is None or any(abs(made.time - t) <= FEWEST * (made.high - made.low) for t in taken):
                continue
            effect = abs(made.size) * (1.0, step, 0.5 * step * step)[order] / range_
            if effect >= NOTABLE:
                taken.append(made.time)
                yield replace(made, effect=effect)


def _standing(
    values: Numbers, look: _Look, order: int, degree: int, quantum: float
) -> Iterator[tuple[int, float, Places]]:
    """Places (by the row before them) whose mismatch stands out and stays, the largest first."""
    counts = look.counts
    sizes: dict[int, dict[int, tuple[float, bool]]] = {}
    for count in counts:
        places = look.places(count, degree)
        if not len(places):
            continue
        mismatch = places.mismatch(values, order)
        usual = np.maximum(_usual(mismatch), places.rounding(values, order, quantum))
        out = np.abs(mismatch) > STANDS_OUT * usual
        top = np.abs(mismatch) >= _largest_near(np.abs(mismatch), count // 2)
        for k in np.flatnonzero(out).tolist():
            sizes.setdefault(int(places.before[k]), {})[count] = (float(mismatch[k]), bool(top[k]))
    seen: list[tuple[float, int, float, int]] = []
    for row, by_count in sizes.items():
        for count in counts[:-1]:
            few, many = by_count.get(count), by_count.get(2 * count)
            if few is None or many is None or not (few[1] or many[1]):
                continue
            if STAYS[0] <= few[0] / many[0] <= STAYS[1]:
                seen.append((abs(few[0]), row, few[0], count))
                break
    for _, row, size, count in sorted(seen, reverse=True):
        yield row, size, look.places(count, degree)


def _placed(found: Break, order: int, values: Numbers, look: _Look, row: int, places: Places) -> Break | None:
    """The break behind a row; of a kink, where both sides meet, which has to be near there.

    Right beside a kink both sides differ by a little in value, and right beside a bend in slope: what is no
    more than a few rows make of the next derivative is not counted.
    """
    time, size, width = look.time, found.size, found.high - found.low
    k = row - places.count + 1
    beside = BESIDE * width * float(places.mismatch(values, order + 1)[k]) if order < 2 else 0.0
    if abs(size) < abs(beside):
        return None
    if found.what != "kink":
        return found
    value = places.mismatch(values, 0)
    meet = found.time - float(value[k]) / size
    if not found.low - 2 * width <= meet <= found.high + 2 * width:
        return None
    row = min(max(int(np.searchsorted(time, meet, side="right")) - 1, 0), len(time) - 2)
    nearest = row if meet - float(time[row]) < float(time[row + 1]) - meet else row + 1
    if nearest > 0 and abs(meet - float(time[nearest])) < ON_ROW * width:
        # At a communication point a unit hears of what has happened to another one in the step before.
        low, reach = float(time[nearest - 1]), float(time[nearest]) + ON_ROW * width
        middle, half = 0.5 * (low + reach), 0.5 * (reach - low)
        return replace(found, low=low, high=float(time[nearest]), time=middle, spread=half)
    off = max(float(places.rounding(values, 0)[k]), 2.0 * float(_usual(value)[k])) / abs(size)
    spread = max(min(off, found.spread), 0.02 * found.spread)
    low, high, *_ = look.around(row)
    return replace(found, low=low, high=high, time=meet, spread=spread)


def _changes(name: str, labels: NDArray[np.str_], look: _Look) -> Iterator[Break]:
    for k in np.flatnonzero(labels[1:] != labels[:-1]).tolist():
        yield Break(name, "mode", *look.around(k), modes=(str(labels[k]), str(labels[k + 1])))


def happenings(rows: Rows, windows: Sequence[Window], step: float, run: int = 0) -> list[Happening]:
    """All that has happened within these windows, of rows that are close together there. `step` is the
    communication step for which it matters."""
    found: list[Happening] = []
    before = float(rows.time[0]) if len(rows.time) else 0.0
    for low, high in windows:
        first = int(np.searchsorted(rows.time, low, side="left"))
        part = rows.part(first, int(np.searchsorted(rows.time, high, side="right")))
        if len(part.time) < 2:
            continue
        look = _Look(part.time)
        breaks: list[Break] = []
        for name in part.moving:
            breaks += _breaks(name, part, look, step)
        for name, labels in part.other.items():
            breaks += _changes(name, labels, look)
        for several in _together(breaks):
            found.append(_happened(several, rows, before, run, step))
            before = found[-1].high
    return found


def _together(breaks: Sequence[Break]) -> list[list[Break]]:
    """Breaks of several signals at one time."""
    groups: list[list[Break]] = []
    for one in sorted(breaks, key=lambda one: one.low):
        width = max(one.high - one.low, 0.0)
        if groups and one.low <= max(other.high for other in groups[-1]) + FEWEST * width:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _happened(breaks: Sequence[Break], rows: Rows, since: float, run: int, step: float) -> Happening:
    """What several breaks tell together. The first of them is when it happened: others see it by what they
    are given, up to a step later. Of those that may be the first, the one that is known best tells the time.
    Where something only bends is known to some rows, and counts if there is nothing else."""
    clear = [one for one in breaks if one.what != "bend"] or breaks
    low, high = min(one.low for one in clear), max(one.high for one in clear)
    earliest = min(one.high for one in clear)
    best = min((one for one in clear if one.low < earliest), key=lambda one: one.spread)
    time = best.time
    before = {name: _before(values, rows.time, low, since, time) for name, values in rows.moving.items()}
    row = int(np.searchsorted(rows.time, low, side="right")) - 1
    modes = {name: str(labels[max(row, 0)]) for name, labels in rows.other.items()}
    near = [name for t, name in rows.events if low - 1e-9 * step <= t <= high + 1e-9 * step]
    return Happening(
        run, time, low, min(high, earliest), best.spread, tuple(sorted(breaks, key=lambda one: -one.effect)),
        before, modes, near[0] if near else "",
    )  # fmt: skip


_SIDES = ((6, 2), (12, 2), (24, 3), (48, 3), (96, 3))
"""Numbers of rows and degrees from which the value before is told: those that tell it best."""


def _before(values: Numbers, time: Numbers, low: float, since: float, at: float) -> Before:
    """A signal just before `at`, from rows up to `low` and not before `since`."""
    last = int(np.searchsorted(time, low, side="right"))
    first = min(int(np.searchsorted(time, since, side="left")), last - 1)
    told: list[tuple[Numbers, float, float]] = []
    for count, degree in _SIDES:
        if last - first < count:
            break
        t, y = time[last - count : last], values[last - count : last]
        weights = _weights(t[None, :], np.array([at]), degree)[0]
        curve = np.polynomial.Polynomial.fit(t, y, degree)
        noise = float(np.sqrt(np.sum((y - curve(t)) ** 2) / (count - degree - 1)))
        value, slope = (noise * float(np.linalg.norm(weights[k])) for k in (0, 1))
        told.append((weights @ y, value, slope))
    if not told:
        gap = float(time[last - 1] - time[max(last - 2, 0)])
        slope = float(values[last - 1] - values[max(last - 2, 0)]) / gap if gap > 0.0 else 0.0
        away = slope * (at - float(time[last - 1]))
        return Before(float(values[last - 1]) + away, slope, 0.0, abs(away), abs(slope))
    best, error, slope_error = min(told, key=lambda one: one[1])
    return Before(float(best[0]), float(best[1]), float(best[2]), 3.0 * error, 3.0 * slope_error)
