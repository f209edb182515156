"""Conditions that explain what happened inside black boxes, with what speaks for them and against them.

A condition explains what happened if some quantity had the same value each time just before, and moved the
same way: an output or an input of the unit in which it shows, a sum or a difference of two of them, the rate
of one, or the time. It has to say more than chance would, and where the quantity passes that value and
nothing happens counts against it, unless a second quantity tells these times apart. The best condition is
taken first; what it leaves unexplained is for the next one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from upbeat.core.expr import Name, show
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port
from upbeat.judging.discontinuities import WORDS, Before, Happening, Numbers, Rows
from upbeat.scenario.connection import Connection
from upbeat.scenario.scenario import Scenario

ENOUGH = 4.0
"""The logarithm of the odds against chance that a condition needs."""
AT_MOST = math.log(1e4)
"""No single agreement counts for more than this."""
SHARPEST = 1e-4
"""No threshold is claimed to be known better than this part of the range of its quantity."""
WRONG = 4.0
"""What each time counts at which the condition came true and nothing happened."""
PERIODS = 40
"""So many periods of a clock are tried at most."""
SAME = 3.0
"""Thresholds that differ by no more than so many times their errors are the same one."""
SILENT = 0.3
"""The same for ticks of a clock: nothing need come of them."""
_WEIGHTS = {"port": 1.0, "pair": 0.85, "rate": 0.7, "time": 0.95}
"""What agreements count for: less, where a quantity is less simple."""


# ----------------------------------------------------------------------------------------------------
# Quantities that a condition may be about, and what units can know of them.


@dataclass(frozen=True)
class Quantity:
    """A sum of signals, each with a sign; or the rate of one; or, without signals, the time."""

    terms: tuple[tuple[float, str], ...]
    rate: bool = False

    @property
    def kind(self) -> str:
        return (
            "time" if not self.terms else "rate" if self.rate else "pair" if len(self.terms) > 1 else "port"
        )

    @property
    def text(self) -> str:
        if not self.terms:
            return "time"
        (_, first), *rest = self.terms
        return _written(first) + "".join(
            f" {'+' if sign > 0 else '-'} {_written(name)}" for sign, name in rest
        )

    def before(self, one: Happening) -> Before | None:
        """What it was just before something happened."""
        if not self.terms:
            return Before(one.time, 1.0, 0.0, one.spread, 0.0)
        parts = [(sign, one.before.get(name)) for sign, name in self.terms]
        known = [(sign, part) for sign, part in parts if part is not None]
        if len(known) < len(parts):
            return None
        value, slope, bend = (
            sum(sign * getattr(part, what) for sign, part in known)
            for what in ("value", "slope", "curvature")
        )
        error, slope_error = (
            sum(getattr(part, what) for _, part in known) for what in ("error", "slope_error")
        )
        if self.rate:
            return Before(slope, bend, 0.0, slope_error, 0.0)
        return Before(value, slope, bend, error, slope_error)

    def path(self, rows: Rows) -> Numbers:
        """Its course over a run."""
        if not self.terms:
            return rows.time
        values = np.sum([sign * rows.real[name] for sign, name in self.terms], axis=0)
        if not self.rate:
            return np.asarray(values)
        return np.asarray(np.gradient(values, rows.time))


class Visible:
    """What units of a scenario show and take, as far as conditions can be about it."""

    def __init__(self, scenario: Scenario) -> None:
        self.by_unit: dict[str, set[str]] = {unit: set() for unit in scenario.units}
        """The signals that each unit shows, and those that it takes."""
        self.measures: dict[str, str | None] = {}
        """Their units of measure."""
        self.derivatives: dict[str, str] = {}
        """The signals that are said to be the rates of others."""
        self.record: list[str] = []
        """What has to be recorded."""
        ports = (*scenario.inputs, *(output.port for output in scenario.all_outputs))
        events = (event.name for event in scenario.events)
        self.taken = frozenset({*scenario.units, *(port.name for port in ports), *events})
        """Names that the scenario has for something."""
        for unit, model in scenario.units.items():
            for port in model.ports:
                if port.causality is not Causality.OUTPUT:
                    continue
                cells = self._known(f"{unit}.{port.name}", port)
                self.by_unit[unit].update(cells)
                if port.derivative is not None and cells:
                    rates = cell_names(f"{unit}.{port.derivative}", port.size)
                    self.derivatives.update(zip(cells, rates, strict=True))
        for c in scenario.connections:
            taken = _plain_source(c, scenario)
            if taken is None:
                port = next(p for p in scenario.units[c.unit].ports if p.name == c.port)
                taken = self._known(c.target, port)
            self.by_unit[c.unit].update(taken)

    def _known(self, name: str, port: Port) -> list[str]:
        if port.event or port.internal or port.extra or port.kind is Kind.STRING:
            return []  # or not recorded
        cells = list(cell_names(name, port.size))
        self.measures.update(dict.fromkeys(cells, port.unit))
        self.record.append(name)
        return cells


def _plain_source(c: Connection, scenario: Scenario) -> list[str] | None:
    """The cells of the output that an input gets as it is; None if it is computed, or comes from outside."""
    if len(c.sources) != 1 or c.sources[0][0] not in scenario.units:
        return None
    unit, name = c.sources[0]
    port = next(p for p in scenario.units[unit].ports if p.name == name)
    cells = cell_names(f"{unit}.{name}", port.size)
    return list(cells) if [str(getattr(cell, "id", "")) for cell in c.cells] == list(cells) else None


class Evidence:
    """Runs with what happened in them, and what units may see: the ports that conditions can be about."""

    def __init__(
        self, rows: Sequence[Rows], found: Sequence[Happening], visible: Visible, usual: float
    ) -> None:
        self.rows = list(rows)
        self.found = list(found)
        self.visible = visible
        self.seen = visible.by_unit
        self.usual = usual
        """The usual step: what moves by nothing in it stands still."""
        self.step = max(
            (float(np.median(np.diff(rows.time))) for rows in self.rows if len(rows.time) > 1), default=0.0
        )

    @cached_property
    def moving(self) -> frozenset[str]:
        return frozenset(name for rows in self.rows for name in rows.moving)

    def owners(self, one: Happening) -> set[str]:
        """The units in which it shows."""
        return {unit for b in one.breaks for unit in self._owners(b.signal)}

    def _owners(self, signal: str) -> set[str]:
        unit = signal.partition(".")[0]
        return {unit} if unit in self.seen else set(self.seen)

    def quantities(self) -> list[tuple[Quantity, frozenset[str]]]:
        """All that conditions may be about, with the units that can know it."""
        measures = self.visible.measures
        made: dict[Quantity, set[str]] = {}
        for unit, signals in self.seen.items():
            own = sorted(name for name in signals if name in self.moving)
            for name in own:
                made.setdefault(Quantity(((1.0, name),)), set()).add(unit)
                if not self._shown_rate(name, own):
                    made.setdefault(Quantity(((1.0, name),), rate=True), set()).add(unit)
            for one, other in combinations(own, 2):
                if measures.get(one) == measures.get(other):
                    for sign in (-1.0, 1.0):
                        made.setdefault(Quantity(((1.0, one), (sign, other))), set()).add(unit)
        made[Quantity(())] = set(self.seen)
        return [(quantity, frozenset(units)) for quantity, units in made.items()]

    def _shown_rate(self, name: str, others: Sequence[str]) -> bool:
        """Whether some signal is the rate of this one: then that is what a condition is about."""
        return any(other != name and self._is_rate(name, other) for other in others)

    def _is_rate(self, name: str, other: str) -> bool:
        for rows in self.rows:
            if name not in rows.moving or other not in rows.moving or len(rows.time) < 8:
                return False
            off = np.abs(np.gradient(rows.real[name], rows.time) - rows.real[other])
            if float(np.median(off)) > 1e-3 * rows.ranges[other]:
                return False
        return True


# ----------------------------------------------------------------------------------------------------
# Conditions that explain what happened.


@dataclass(frozen=True)
class _Candidate:
    quantity: Quantity
    rising: bool
    threshold: float
    error: float
    explains: tuple[int, ...]
    """Places among the happenings."""
    wrong: tuple[tuple[int, float], ...]
    """Runs and times at which it came true and nothing happened."""
    odds: float
    guard: str = ""


class _Search:
    """Goes through all quantities for the one that explains most of what is left."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.quantities = evidence.quantities()
        self._paths: dict[tuple[Quantity, int], Numbers] = {}
        self.ranges = {quantity: self._range(quantity) for quantity, _ in self.quantities}

    def path(self, quantity: Quantity, run: int) -> Numbers:
        if (quantity, run) not in self._paths:
            self._paths[quantity, run] = quantity.path(self.evidence.rows[run])
        return self._paths[quantity, run]

    def _range(self, quantity: Quantity) -> float:
        ends = []
        for run in range(len(self.evidence.rows)):
            path = self.path(quantity, run)
            low, high = np.quantile(path, (0.005, 0.995)) if quantity.rate else (path.min(), path.max())
            ends += [float(low), float(high)]
        return max(ends) - min(ends)

    def _noise(self, quantity: Quantity) -> float:
        """How far it is off from row to row, without what is smooth."""
        paths = [self.path(quantity, run) for run in range(len(self.evidence.rows))]
        bends = [float(np.median(np.abs(np.diff(path, 2)))) for path in paths if len(path) > 2]
        return 1.4826 * max(bends, default=0.0) / math.sqrt(6.0)

    def best(self, left: Collection[int]) -> _Candidate | None:
        """The condition that says most about what is `left`."""
        found: _Candidate | None = None
        for quantity, units in self.quantities:
            for rising in (True, False):
                if quantity.kind == "time" and not rising:
                    continue
                for one in self._candidates(quantity, units, rising, left):
                    if found is None or one.odds > found.odds:
                        found = one
        return found if found is not None and found.odds >= ENOUGH else None

    def _candidates(
        self, quantity: Quantity, units: frozenset[str], rising: bool, left: Collection[int]
    ) -> Iterator[_Candidate]:
        size = self.ranges[quantity]
        if not size > 0.0:
            return
        spans: list[tuple[float, float, int]] = []
        for place in left:
            one = self.evidence.found[place]
            if not units & self.evidence.owners(one):
                continue
            span = self._span(quantity, one, rising, size)
            if span is not None:
                spans.append((*span, place))
        for low, high, places in _common(spans):
            runs = [self.evidence.found[place].run for place in places]
            if len(places) < 2 or (quantity.kind == "time" and len(set(runs)) < len(runs)):
                continue
            if len(quantity.terms) > 1 and not self._both_matter(quantity, places):
                continue
            threshold, error = 0.5 * (low + high), max(0.5 * (high - low), SHARPEST * size)
            widths = [max(b - a, 2 * SHARPEST * size) for a, b, place in spans if place in places]
            agreed = sorted(min(math.log(size / width), AT_MOST) if width < size else 0.0 for width in widths)
            odds = _WEIGHTS[quantity.kind] * sum(agreed[:-1]) - _log_choices(len(left), len(places))
            odds -= math.log(2 * len(self.quantities))
            if odds < ENOUGH:
                continue
            wrong = self._wrong(
                quantity, rising, threshold, max(error, 1e-3 * size, 5.0 * self._noise(quantity))
            )
            made = _Candidate(
                quantity, rising, threshold, error, tuple(places), wrong, odds - WRONG * len(wrong)
            )
            yield self._guarded(made, units) if wrong else made

    def _both_matter(self, quantity: Quantity, places: Sequence[int]) -> bool:
        """Whether each of two signals was different from time to time: else the other one alone says it
        all."""
        for _, name in quantity.terms:
            values = [self.evidence.found[place].before[name].value for place in places]
            if max(values) - min(values) < 0.02 * self.ranges[Quantity(((1.0, name),))]:
                return False
        return True

    def _span(
        self, quantity: Quantity, one: Happening, rising: bool, size: float
    ) -> tuple[float, float] | None:
        """The values that the threshold may have had, as far as one happening tells."""
        before = quantity.before(one)
        if before is None or (before.slope > 0.0) != rising:
            return None
        if abs(before.slope) * self.evidence.usual < 1e-5 * size or abs(before.slope) <= before.slope_error:
            return None  # it stood still
        curved = 0.5 * abs(before.curvature) * one.spread**2
        room = before.error + abs(before.slope) * one.spread + curved + 1e-9 * size
        if room > 0.25 * size:
            return None
        low, high = before.value - room, before.value + room
        own = {b.signal.partition(".")[0] for b in one.breaks}
        for sign, name in quantity.terms:
            if name.partition(".")[0] not in own and not quantity.rate:
                # Inputs stand still during a step of a black box: it knows what they were a step ago at most.
                stale = -sign * one.before[name].slope * (one.high - one.low)
                low, high = min(low, low + stale), max(high, high + stale)
        return low, high

    def _wrong(
        self, quantity: Quantity, rising: bool, threshold: float, room: float
    ) -> tuple[tuple[int, float], ...]:
        """When it passed the threshold, by more than `room` on both sides, and nothing happened."""
        found = []
        for run, rows in enumerate(self.evidence.rows):
            path = self.path(quantity, run) - threshold
            if not rising:
                path = -path
            happened = np.array(sorted(one.time for one in self.evidence.found if one.run == run))
            side = np.where(path > room, 1, np.where(path < -room, -1, 0))
            firm = np.flatnonzero(side)
            for a, b in zip(firm[:-1].tolist(), firm[1:].tolist(), strict=True):
                if side[a] == -1 and side[b] == 1:
                    low, high = rows.time[a] - self.evidence.step, rows.time[b] + self.evidence.step
                    if not ((happened >= low) & (happened <= high)).any():
                        found.append((run, float(rows.time[b])))
        return tuple(found)

    def _guarded(self, one: _Candidate, units: frozenset[str]) -> _Candidate:
        """With a second condition that holds whenever something happened, and at no other time, if there is
        one that is clear enough."""
        if len(one.explains) < 3:
            return one
        right = [self.evidence.found[place] for place in one.explains]
        names = {name for unit in units for name in self.evidence.seen[unit]}
        clear: list[tuple[float, str]] = []
        for name in sorted(names & self.evidence.rows[0].other.keys()):
            labels = {h.modes.get(name) for h in right}
            others = {self._label(name, run, t) for run, t in one.wrong}
            if len(labels) == 1 and not labels & others:
                clear.append((1.0, f"{_written(name)} == {_label_text(str(*labels))}"))
        tried = 0
        for quantity, size in self.ranges.items():
            if (
                quantity.rate
                or not quantity.terms
                or not size > 0.0
                or not {n for _, n in quantity.terms} <= names
            ):
                continue
            tried += 1
            known = [quantity.before(h) for h in right]
            values = [before.value for before in known if before is not None]
            other = [self._value(quantity, run, t) for run, t in one.wrong]
            if not values or not other:
                continue
            for gap, middle, sign in (
                (min(values) - max(other), 0.5 * (min(values) + max(other)), ">"),
                (min(other) - max(values), 0.5 * (min(other) + max(values)), "<"),
            ):
                if gap > 0.05 * size:
                    clear.append(
                        (
                            (0.9 if len(quantity.terms) > 1 else 1.0) * gap / size,
                            f"{quantity.text} {sign} {middle:.3g}",
                        )
                    )
        if not clear:
            return one
        _, guard = max(clear)
        odds = one.odds + WRONG * len(one.wrong) - math.log(4 * max(tried, 1)) - 1.0
        return replace(one, wrong=(), odds=odds, guard=guard) if odds > one.odds else one

    def _label(self, name: str, run: int, t: float) -> str:
        rows = self.evidence.rows[run]
        return str(rows.other[name][max(int(np.searchsorted(rows.time, t)) - 1, 0)])

    def _value(self, quantity: Quantity, run: int, t: float) -> float:
        return float(np.interp(t, self.evidence.rows[run].time, self.path(quantity, run)))


def _common(spans: Sequence[tuple[float, float, int]]) -> Iterator[tuple[float, float, list[int]]]:
    """Sets of spans that have values in common, with these values: none that is a part of another one."""
    ends = sorted(
        [(low, 0, place) for low, _, place in spans] + [(high, 1, place) for _, high, place in spans]
    )
    by_place = {place: (low, high) for low, high, place in spans}
    open_: dict[int, None] = {}
    grown = False
    for _, end, place in ends:
        if end == 0:
            open_[place] = None
            grown = True
            continue
        if grown:
            places = list(open_)
            yield max(by_place[p][0] for p in places), min(by_place[p][1] for p in places), places
            grown = False
        open_.pop(place, None)


def _log_choices(n: int, k: int) -> float:
    """The logarithm of the number of ways to choose k of n."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _written(name: str) -> str:
    """A signal as expressions have it: in backticks, if its name is an odd one."""
    return show(Name(name))


def _label_text(label: str) -> str:
    return label if label in ("True", "False") or re.fullmatch(r"-?\d+", label) else f"'{label}'"


# ----------------------------------------------------------------------------------------------------
# Times that come again and again.


def _clock(
    evidence: Evidence, left: Collection[int]
) -> tuple[float, float, tuple[int, ...], int, float] | None:
    """A period and its first time, what it explains, how many ticks were silent, and the odds."""
    best: tuple[float, float, tuple[int, ...], int, float] | None = None
    times = {place: evidence.found[place] for place in left}
    for run in range(len(evidence.rows)):
        own = sorted((one.time, one.spread, place) for place, one in times.items() if one.run == run)
        if len(own) < 4:
            continue
        for period in _periods(np.diff([t for t, _, _ in own]), evidence.step):
            made = _ticks(evidence, own, period, len(left))
            if made is not None and (best is None or made[4] > best[4]):
                best = made
    return best if best is not None and best[4] >= ENOUGH else None


def _periods(gaps: Numbers, step: float) -> list[float]:
    """The periods that are worth a trial: gaps and their halves, those first that are seen most often."""
    several: list[list[float]] = []
    for gap in sorted(float(gap / part) for gap in gaps for part in (1, 2) if gap / part > 4 * step):
        if several and gap - several[-1][0] <= step:
            several[-1].append(gap)
        else:
            several.append([gap])
    return [float(np.median(alike)) for alike in sorted(several, key=len, reverse=True)[:PERIODS]]


def _ticks(
    evidence: Evidence, own: Sequence[tuple[float, float, int]], period: float, left: int
) -> tuple[float, float, tuple[int, ...], int, float] | None:
    """What a clock of about this period explains."""
    base = own[0][0]
    kept: list[tuple[int, float, float, int]] = []
    offset = base
    for t, spread, place in own:
        k = round((t - offset) / period)
        room = 3 * spread + 1e-6 * period + evidence.step
        if abs(t - offset - k * period) <= room:
            kept.append((k, t, max(spread, 1e-9), place))
            if k > 0 and len(kept) > 1:  # the period becomes better known as time goes on
                n, tt = np.array([one[0] for one in kept], float), np.array([one[1] for one in kept])
                period, offset = (float(x) for x in np.polyfit(n, tt, 1))
    if len(kept) < 4:
        return None
    first, last = kept[0][0], kept[-1][0]
    silent = (last - first + 1) - len({k for k, *_ in kept})
    if silent > 2 * len(kept):
        return None
    off = max(abs(t - offset - k * period) for k, t, _, _ in kept)
    width = max(2 * off, 4e-4 * period)
    agreed = (
        _WEIGHTS["pair"] * (len(kept) - 2) * min(math.log(period / width), AT_MOST) if width < period else 0.0
    )
    odds = agreed - SILENT * silent - _log_choices(left, len(kept)) - math.log(PERIODS)
    start = evidence.rows[0].time[0]
    offset += period * math.ceil((start - offset) / period - 1e-6)
    return period, offset, tuple(place for *_, place in kept), silent, odds


# ----------------------------------------------------------------------------------------------------
# From what happened to conditions in the words of a scenario.


@dataclass(frozen=True)
class Condition:
    """A condition that explains `count` of the things that happened, with what speaks for it and against it.

    `when` is the condition as it is written in `[events]`; of a clock it is empty, and `every` and `offset`
    say when it ticks. `confidence` is the chance that the next time it comes true something happens, by what
    has been seen (rule of succession). Unless `shown`, it is about the rate of a signal that no output shows,
    written ``der(unit.port)``: nobody can watch for it.
    """

    name: str
    when: str
    confidence: float
    count: int
    of: int
    wrong: int
    odds: float
    threshold: float
    uncertainty: float
    times: tuple[float, ...]
    effects: tuple[str, ...]
    every: float | None = None
    offset: float | None = None
    shown: bool = True
    hysteresis: str = ""
    """The condition that is its other half."""
    against: tuple[tuple[int, float], ...] = field(default=(), repr=False, compare=False)
    """The runs and times at which it came true and nothing happened."""
    told: tuple[tuple[int, float], ...] = field(default=(), repr=False, compare=False)
    """The runs and times of what it explains."""
    quantity: Quantity | None = field(default=None, repr=False, compare=False)

    @property
    def evidence(self) -> str:
        """In a sentence."""
        times = ", ".join(f"{t:.4g}" for t in self.times[:4]) + (" …" if len(self.times) > 4 else "")
        effects = ", ".join(self.effects[:3])
        said = f"{self.count} of {self.of} times that something happened ({times}): {effects}"
        if self.every is not None:
            return f"{said}; {self.wrong} ticks at which nothing was seen"
        said += f"; threshold known to ±{self.uncertainty:.1g}"
        against = (
            f"{self.wrong} times it came true and nothing happened" if self.wrong else "nothing against it"
        )
        if not self.shown:
            against += "; no output shows this rate, so that nobody can watch for it: give the unit one"
        half = f"; together with {self.hysteresis} a hysteresis" if self.hysteresis else ""
        return f"{said}; {against}{half}"

    @property
    def tables(self) -> dict[str, Any]:
        """What a scenario file needs for it."""
        if self.every is not None:
            clock = {"kind": "clock", "every": self.every}
            return {"units": {self.name: clock | ({"offset": self.offset} if self.offset else {})}}
        return {"events": {self.name: {"when": self.when}}}

    def data(self) -> dict[str, Any]:
        """For JSON."""
        own = {
            "name": self.name, "when": self.when or None, "confidence": round(self.confidence, 4),
            "explains": self.count, "of": self.of, "wrong": self.wrong, "log_odds": round(self.odds, 2),
            "threshold": self.threshold, "uncertainty": self.uncertainty, "times": list(self.times),
            "effects": list(self.effects), "shown": self.shown, "hysteresis": self.hysteresis or None,
        }  # fmt: skip
        return own | ({"every": self.every, "offset": self.offset} if self.every is not None else {})


def conditions(evidence: Evidence) -> tuple[tuple[Condition, ...], tuple[Happening, ...]]:
    """What explains the happenings, the surest first; and what stays unexplained."""
    left = {place for place, one in enumerate(evidence.found) if not one.known}
    total = len(left)
    search = _Search(evidence)
    found: list[_Candidate] = []
    made: list[Condition] = []
    names = set(evidence.visible.taken)
    while left:
        one = search.best(left)
        clock = _clock(evidence, left)
        if clock is not None and (one is None or clock[4] > one.odds):
            period, offset, places, silent, odds = clock
            made.append(_as_clock(evidence, places, _Clock(period, offset, silent, odds), total, names))
            left -= set(places)
        elif one is not None:
            found = _merged(found, one)
            left -= set(one.explains)
        else:
            break
    made += [_as_condition(evidence, one, total, names) for one in found]
    ordered = sorted(_paired(made), key=lambda one: -one.confidence)
    return tuple(ordered), tuple(evidence.found[place] for place in sorted(left))


def _merged(found: Sequence[_Candidate], one: _Candidate) -> list[_Candidate]:
    """These and one more, which is none of its own where another one is the same but for errors: steps that
    end near a threshold tell it so well that these do not overlap."""
    for place, other in enumerate(found):
        alike = (other.quantity, other.rising, other.guard) == (one.quantity, one.rising, one.guard)
        if alike and abs(other.threshold - one.threshold) <= SAME * (other.error + one.error):
            low = min(other.threshold - other.error, one.threshold - one.error)
            high = max(other.threshold + other.error, one.threshold + one.error)
            wrong = tuple(sorted({*other.wrong, *one.wrong}))
            whole = replace(
                other, threshold=0.5 * (low + high), error=0.5 * (high - low), wrong=wrong,
                explains=(*other.explains, *one.explains), odds=other.odds + one.odds,
            )  # fmt: skip
            return [*found[:place], whole, *found[place + 1 :]]
    return [*found, one]


def _as_condition(evidence: Evidence, one: _Candidate, total: int, names: set[str]) -> Condition:
    found = [evidence.found[place] for place in one.explains]
    if one.threshold < -one.error and [sign for sign, _ in one.quantity.terms] == [1.0, -1.0]:
        (_, first), (_, second) = one.quantity.terms  # a distance that is positive is easier to read
        turned = Quantity(((1.0, second), (-1.0, first)))
        one = replace(one, quantity=turned, rising=not one.rising, threshold=-one.threshold)
    threshold = shortest(one.threshold, one.error)
    quantity, shown = one.quantity.text, True
    (_, first), *_ = one.quantity.terms or ((1.0, "time"),)
    if one.quantity.rate:
        shown = first in evidence.visible.derivatives
        rate = evidence.visible.derivatives.get(first)
        quantity = f"der({first})" if rate is None else _written(rate)
    when = f"{quantity} {'>=' if one.rising else '<='} {threshold}"
    way = "rises" if one.rising else "falls"
    what = "rate_of_" + _identifier(first) if one.quantity.rate else _identifier(one.quantity.text)
    name = _free(f"{what}_{way}" if one.quantity.terms else f"at_{_identifier(threshold)}", names)
    return Condition(
        name, f"{when} and {one.guard}" if one.guard else when, _confidence(len(found), len(one.wrong)),
        len(found), total, len(one.wrong), one.odds, float(threshold), one.error,
        tuple(sorted(h.time for h in found)), _effects(found), shown=shown, against=one.wrong,
        told=tuple((h.run, h.time) for h in found), quantity=one.quantity,
    )  # fmt: skip


class _Clock(NamedTuple):
    """Times that some happenings have in common."""

    period: float
    offset: float
    silent: int
    """How often it was due and nothing happened."""
    odds: float


def _as_clock(
    evidence: Evidence, places: Sequence[int], clock: _Clock, total: int, names: set[str]
) -> Condition:
    period, offset, silent, odds = clock
    found = [evidence.found[place] for place in places]
    span = max(len(found), 2)
    every = float(shortest(period, evidence.step / span))
    first = float(shortest(offset, 0.5 * evidence.step))
    name = _free(f"every_{_identifier(f'{every:g}')}", names)
    return Condition(
        name, "", _confidence(len(found), 0), len(found), total, silent, odds, every, evidence.step / span,
        tuple(sorted(h.time for h in found)), _effects(found), every=every, offset=first % every if every else
        first,
    )  # fmt: skip


def _confidence(right: int, wrong: int) -> float:
    return (right + 1) / (right + wrong + 2)


def _effects(found: Sequence[Happening]) -> tuple[str, ...]:
    """What happens, in a few words: signals and how they change, those of the most happenings first."""
    counts: dict[str, int] = {}
    for one in found:
        for b in one.breaks:
            text = f"{b.signal} {WORDS[b.what]}"
            counts[text] = counts.get(text, 0) + 1
    return tuple(sorted(counts, key=lambda text: -counts[text]))


def _paired(found: Sequence[Condition]) -> list[Condition]:
    """Conditions on one quantity in both directions, the rising one above the falling one, are a
    hysteresis."""
    made = list(found)
    for i, j in combinations(range(len(made)), 2):
        one, other = made[i], made[j]
        up, down = (one, other) if ">=" in one.when else (other, one)
        left, right = up.when.partition(" >= ")[0], down.when.partition(" <= ")[0]
        if left == right and up.threshold > down.threshold and "<=" in down.when and ">=" in up.when:
            made[i], made[j] = _half(made[i], made[j]), _half(made[j], made[i])
    return made


def _half(one: Condition, other: Condition) -> Condition:
    """The one as half of a hysteresis: what it comes to when the other one was not the last does not
    count."""
    against = []
    for run, t in one.against:
        last, last_other = (
            max((when for which, when in half.told if which == run and when < t), default=-math.inf)
            for half in (one, other)
        )
        if last_other > last:
            against.append((run, t))
    wrong = len(against)
    return replace(
        one,
        hysteresis=other.name,
        against=tuple(against),
        wrong=wrong,
        confidence=_confidence(one.count, wrong),
    )


def shortest(value: float, error: float) -> str:
    """The shortest decimal number that is no further from the value than the error."""
    if abs(value) <= error:
        return "0"
    for digits in range(1, 17):
        near = float(f"{value:.{digits}g}")
        if abs(near - value) <= error:
            return f"{near:.15g}"
    return repr(value)


def _identifier(text: str) -> str:
    words = text.replace(" - ", "_minus_").replace(" + ", "_plus_").replace("-", "minus_")
    return re.sub(r"\W+", "_", words, flags=re.ASCII).strip("_")


def _free(name: str, taken: set[str]) -> str:
    made, count = name, 1
    while made in taken:
        count += 1
        made = f"{name}_{count}"
    taken.add(made)
    return made
