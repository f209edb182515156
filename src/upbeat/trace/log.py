"""How a run went: its steps, how late it was in real time, how it ended."""

from __future__ import annotations

import enum
import math
from array import array as packed_array
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from upbeat.core.plain import WHOLE, Fields, array, listed, same_length
from upbeat.core.reasons import Reason, Why, as_reason
from upbeat.core.records import dataclass
from upbeat.trace.events import EventLog

# ----------------------------------------------------------------------------------------------------
# How late the steps of a run in real time were: a distribution of bounded size.

FINEST = 1e-6
"""Seconds. Anything less counts as on time: clocks of ordinary computers tell no more."""
PER_DECADE = 20
_MAX_PLACES = 400 * PER_DECADE
"""Bins for a factor of ten: a percentile is known to 12 %, and a run of years needs some 300 of them."""


class Lateness:
    """Counts steps by how late they were done, in seconds of the wall clock.

    Counts, mean and maximum are exact; so is the number `beyond` the tolerance. Percentiles come from
    logarithmic bins and are never too small. `given_up` is the time that the policy "skip" has let go, in
    `skips` pieces.
    """

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.count = 0
        self.beyond = 0
        self.total = 0.0
        self.maximum = 0.0
        self.skips = 0
        self.given_up = 0.0
        self._bins: dict[int, int] = {}

    def add(self, late: float) -> None:
        """A step was done `late` seconds after it was due; less than nothing is on time."""
        self.count += 1
        if late < FINEST:
            return
        place = math.floor(PER_DECADE * math.log10(late / FINEST))
        self._bins[place] = self._bins.get(place, 0) + 1
        self.total += late
        self.maximum = max(self.maximum, late)
        self.beyond += late > self.tolerance

    def skip(self, late: float) -> None:
        """That much time was given up."""
        self.skips += 1
        self.given_up += late

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    @property
    def share(self) -> float:
        """The part of all steps that were later than the tolerance."""
        return self.beyond / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """At least `percent` of all steps were no later than this."""
        if not 0 <= percent <= 100:
            raise ValueError(f"a percentile lies between 0 and 100, not at {percent!r}")
        left = percent / 100 * self.count - (self.count - sum(self._bins.values()))
        if left <= 0:
            return 0.0
        for place in sorted(self._bins):
            left -= self._bins[place]
            if left <= 0:
                return min(self.maximum, FINEST * 10 ** ((place + 1) / PER_DECADE))
        return self.maximum

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lateness) and self.to_data() == other.to_data()

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return (
            f"Lateness({self.count} steps, {self.beyond} later than {self.tolerance:g} s, "
            f"mean {self.mean:.3g} s, 99 % {self.percentile(99):.3g} s, maximum {self.maximum:.3g} s)"
        )

    def to_data(self) -> dict[str, Any]:
        """Plain data for a file, with what people ask for already worked out."""
        return {
            "tolerance": self.tolerance,
            "count": self.count,
            "beyond": self.beyond,
            "share": self.share,
            "mean": self.mean,
            "p50": self.percentile(50),
            "p90": self.percentile(90),
            "p99": self.percentile(99),
            "maximum": self.maximum,
            "total": self.total,
            "skips": self.skips,
            "given_up": self.given_up,
            "bins": [[place, self._bins[place]] for place in sorted(self._bins)],
        }

    @classmethod
    def from_data(cls, data: Any) -> Lateness:
        """What `to_data` gave; `ValueError` if it is something else."""
        fields = Fields(data, "the lateness")
        made = cls(fields.number("tolerance"))
        made.count, made.beyond, made.skips = map(fields.whole, ("count", "beyond", "skips"))
        made.total, made.maximum, made.given_up = map(fields.number, ("total", "maximum", "given_up"))
        for entry in fields.entries("bins"):
            place, count = array(entry, np.int64, "a bin").tolist()
            if not (-_MAX_PLACES <= place <= _MAX_PLACES and count > 0):
                raise ValueError(f"there is no bin {place} with {count} steps")
            made._bins[place] = count
        return made


# ----------------------------------------------------------------------------------------------------
# Every accepted step of a run with its reason, run-length encoded.


@dataclass(frozen=True, slots=True)
class StepRun:
    """A run of `count` equal steps from `first` to `last`, all taken for the same reason `why`."""

    first: float
    last: float
    count: int
    why: Reason
    block: str = "step"
    rejected: int = 0

    @property
    def reason(self) -> str:
        """Why, as a sentence."""
        return str(self.why)

    @property
    def size(self) -> float:
        return (self.last - self.first) / self.count


RUNS = np.dtype(
    [
        ("first", np.float64),
        ("last", np.float64),
        ("count", np.int64),
        ("reason", np.int32),
        ("block", np.int32),
        ("rejected", np.int64),
    ]
)
"""Runs of steps as the native core lays them out, with numbers for reasons and blocks."""


class StepRuns(NamedTuple):
    """Many runs at once (`RUNS`), no two neighbours of which are one; and the words behind their numbers."""

    runs: NDArray[np.void]
    reasons: Mapping[int, Why]
    blocks: Mapping[int, str]


_NO_RUN: tuple[float, float, Why, str] = (0.0, -1.0, "", "")
"""The size of the steps of the run that goes on, a narrow band around it, reason and block: as long as all
sizes lie within the band, so does their mean, without computing it."""


class StepLog:
    """Every accepted step, run-length encoded: a million steps of a grid are one entry.

    Iterating gives `StepRun`s, and `len` counts those; `count` is the number of steps. An entry
    costs 40 bytes, for an adaptive pace where nearly every step has its own size. Each reason is kept once:
    one with a time or an error of its own, such as an event that was seen coming, costs some 200 bytes more.
    """

    _NAMES = ("first", "last", "count", "reason", "block", "rejected")

    def __init__(self) -> None:
        self._first: packed_array[float] = packed_array("d")
        self._last: packed_array[float] = packed_array("d")
        self._count: packed_array[int] = packed_array("q")
        self._reason: packed_array[int] = packed_array("i")
        self._block: packed_array[int] = packed_array("i")
        self._rejected: packed_array[int] = packed_array("q")
        self._words: dict[Why, int] = {}
        self._usual = _NO_RUN

    def append(self, t0: float, t1: float, reason: Why, block: str = "step", rejected: int = 0) -> None:
        """One step from `t0` to `t1`, after `rejected` attempts that were taken back."""
        usual, band, why, what = self._usual
        if (
            abs(t1 - t0 - usual) <= band
            and reason is why
            and block is what
            and rejected == 0
            and self._last[-1] == t0
        ):
            self._last[-1] = t1
            self._count[-1] += 1
            return
        before = len(self._last)
        self.extend_grid(t0, t1, 1, reason, block, rejected)
        began = len(self._last) > before
        self._usual = (t1 - t0, 0.25e-9 * (t1 - t0), reason, block) if began else _NO_RUN

    def extend_grid(
        self, first: float, last: float, count: int, reason: Why, block: str = "step", rejected: int = 0
    ) -> None:
        """`count` equal steps from `first` to `last`."""
        self._usual = _NO_RUN
        if count < 1:
            return
        why = self._number(reason)
        what = self._number(block)
        if (
            self._last
            and self._reason[-1] == why
            and self._block[-1] == what
            and self._last[-1] == first
            and self._agrees((last - first) / count, last)
        ):
            self._last[-1] = last
            self._count[-1] += count
            self._rejected[-1] += rejected
            return
        for column, value in zip(self._columns, (first, last, count, why, what, rejected), strict=True):
            column.append(value)

    def extend(self, several: StepRuns) -> None:
        """All of these; only the first of them may be the rest of the run before."""
        runs = several.runs
        if not len(runs):
            return
        first, last, count, why, what, rejected = runs[0].item()
        self.extend_grid(first, last, count, several.reasons[why], several.blocks[what], rejected)
        rest = runs[1:]
        if not len(rest):
            return
        words = {"reason": several.reasons, "block": several.blocks}
        for name, column in zip(self._NAMES, self._columns, strict=True):
            values = self._numbered(rest[name], words[name]) if name in words else rest[name]
            column.frombytes(np.ascontiguousarray(values, column.typecode).tobytes())

    def _number(self, word: Why) -> int:
        """The number of a reason or a block; a reason that is a kind and nothing else counts as its text."""
        known = word.kind if isinstance(word, Reason) and word.plain else word
        return self._words.setdefault(known, len(self._words))

    def _numbered(
        self, theirs: NDArray[np.int32], words: Mapping[int, str] | Mapping[int, Why]
    ) -> NDArray[np.int32]:
        """Others' numbers for words as those of this log."""
        found, places = np.unique(theirs, return_inverse=True)
        ours = [self._number(words[number]) for number in found.tolist()]
        return np.array(ours, np.int32)[places]

    def _agrees(self, size: float, at: float) -> bool:
        # A grid point carries a rounding error of its own, which for tiny steps late in a run is
        # far more than a billionth of the step.
        mean = (self._last[-1] - self._first[-1]) / self._count[-1]
        return abs(size - mean) <= 1e-9 * abs(mean) + 4 * math.ulp(at)

    @property
    def _columns(self) -> tuple[packed_array[Any], ...]:
        return (self._first, self._last, self._count, self._reason, self._block, self._rejected)

    def __len__(self) -> int:
        return len(self._last)

    def __iter__(self) -> Iterator[StepRun]:
        return self.since(0)

    def since(self, place: int) -> Iterator[StepRun]:
        """The entries from this one on: of a log that grows, the last one before may have grown, too."""
        reasons, blocks = [as_reason(word) for word in self._words], [str(word) for word in self._words]
        columns = (column[place:] for column in self._columns)
        for first, last, count, why, what, rejected in zip(*columns, strict=True):
            yield StepRun(first, last, count, reasons[why], blocks[what], rejected)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StepLog) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # a log grows

    def __repr__(self) -> str:
        return f"StepLog({self.count} steps in {len(self)} runs)"

    @property
    def count(self) -> int:
        """How many steps were accepted."""
        return sum(self._count)

    @property
    def rejected(self) -> int:
        """How many attempts were taken back."""
        return sum(self._rejected)

    def reasons(self) -> dict[str, int]:
        """How many steps were taken for each reason, in order of appearance."""
        totals: dict[str, int] = {}
        words = [str(word) for word in self._words]
        for why, count in zip(self._reason, self._count, strict=True):
            totals[words[why]] = totals.get(words[why], 0) + count
        return totals

    def sizes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The start and the size of every step."""
        counts = np.array(self._count, dtype=np.int64)
        first, last = np.array(self._first), np.array(self._last)
        size = np.repeat((last - first) / np.maximum(counts, 1), counts)
        begins = np.cumsum(counts) - counts
        index = np.arange(len(size)) - np.repeat(begins, counts)
        return np.repeat(first, counts) + index * size, size

    def ends(self, kinds: Collection[str]) -> NDArray[np.float64]:
        """When the last step of each entry ended whose reason is of one of these kinds."""
        wanted = np.array([as_reason(word).kind in kinds for word in self._words], dtype=np.bool_)
        if not wanted.any():
            return np.zeros(0)
        return np.array(self._last)[wanted[np.array(self._reason, dtype=np.int64)]]

    def extremes(self) -> tuple[float, float] | None:
        """The sizes of the shortest and of the longest step; None if all are equal.

        The last one does not count: it goes to the stop time.
        """
        counts = np.array(self._count, dtype=np.int64)
        sizes = (np.array(self._last) - np.array(self._first)) / np.maximum(counts, 1)
        if len(counts) and counts[-1] == 1:
            sizes = sizes[:-1]
        sizes = sizes[sizes > 0.0]
        if not len(sizes) or sizes.max() <= sizes.min() * (1.0 + 1e-6):
            return None
        return float(sizes.min()), float(sizes.max())

    def to_data(self) -> dict[str, Any]:
        """Plain data for a file."""
        return {"words": self._written} | {
            name: column.tolist() for name, column in zip(self._NAMES, self._columns, strict=True)
        }

    @property
    def _written(self) -> list[Any]:
        """The words as plain data."""
        return [as_reason(word).to_data() for word in self._words]

    def _read(self, words: Any) -> None:
        self._words = {}
        for word in listed(words, "the words of the step log"):
            self._number(Reason.from_data(word))

    def packed(self) -> tuple[list[Any], bytes]:
        """The words, and all columns as bytes: for a file that is written again and again."""
        return self._written, b"".join(column.tobytes() for column in self._columns)

    @classmethod
    def unpacked(cls, words: Any, data: bytes) -> StepLog:
        """What `packed` gave; `ValueError` if these are other bytes."""
        log = cls()
        log._read(words)
        count, rest = divmod(len(data), sum(column.itemsize for column in log._columns))
        if rest:
            raise ValueError("the step log is incomplete")
        at = 0
        for column in log._columns:
            column.frombytes(data[at : at + count * column.itemsize])
            at += count * column.itemsize
        log._check()
        return log

    @classmethod
    def from_data(cls, data: Any) -> StepLog:
        """What `to_data` gave; `ValueError` if it is something else."""
        fields = Fields(data, "the step log")
        log = cls()
        log._read(fields.any("words"))
        for name, column in zip(cls._NAMES, log._columns, strict=True):
            column.frombytes(fields.array(name, column.typecode).tobytes())
        log._check()
        return log

    def _check(self) -> None:
        """`ValueError` unless the columns, which came from a file, fit together."""
        same_length("the step log", self._columns)
        if not len(self):
            return
        words = np.concatenate([np.array(self._reason), np.array(self._block)])
        if not 0 <= words.min() <= words.max() < len(self._words):
            raise ValueError(f"the step log has {len(self._words)} words, and none with number {words.max()}")
        if min(self._count) < 1 or min(self._rejected) < 0 or max(self._count) > WHOLE // 2 // len(self):
            raise ValueError("the step log counts steps that cannot be")


# ----------------------------------------------------------------------------------------------------
# How a run went: its outcome, and all that it leaves behind besides its signals.


class Outcome(enum.Enum):
    """How a run ended. Each value is the sentence that people read."""

    FINISHED = "the run reached its stop time"
    STOPPED_BY_EVENT = "the run stopped at an event, as it was asked to"
    STOPPED_BY_UNIT = "the run ended before its stop time, as a unit asked it to"
    INTERRUPTED = "the run was interrupted; the results so far are kept"
    STOPPED = "the run was ended before its stop time; the results so far are kept"
    TOO_LATE = (
        "the run fell behind real time and was stopped, as it was asked to; the results so far are kept"
    )
    FAILED = "the run failed; the results so far are kept"
    RUNNING = "the run is still going"
    CUT_OFF = "the run was killed or is still going; the results so far are kept"
    UNKNOWN = "the file does not say how the run ended"

    @property
    def ok(self) -> bool:
        """Whether the run did what it was asked to do."""
        return self in (Outcome.FINISHED, Outcome.STOPPED_BY_EVENT, Outcome.STOPPED_BY_UNIT)

    @classmethod
    def named(cls, name: str) -> Outcome:
        """The outcome that a file names; UNKNOWN for a name of another version."""
        return cls.__members__.get(name, cls.UNKNOWN)


@dataclass(slots=True)
class Ending:
    """What a run leaves behind besides its signals. Files keep the events apart: there may be millions."""

    outcome: Outcome = Outcome.UNKNOWN
    steps: StepLog = field(default_factory=StepLog)
    events: EventLog = field(default_factory=EventLog)
    info: dict[str, Any] = field(default_factory=dict)
    """Plain values: ``engine``, ``why`` (that engine), ``wall_seconds``, ``lateness`` in real time;
    ``provenance`` (what ran: see `upbeat.engine.resume.provenance`)."""
    notes: list[str] = field(default_factory=list)
    """Complete sentences that the user should read."""

    def to_data(self) -> dict[str, Any]:
        """Plain data for a file, without the events."""
        return {
            "outcome": self.outcome.name,
            "steps": self.steps.to_data(),
            "info": self.info,
            "notes": self.notes,
        }

    @classmethod
    def from_data(cls, data: Any) -> Ending:
        """What `to_data` gave; `ValueError` if it is something else."""
        fields = Fields(data, "the end of the run")
        info = fields.table("info")
        # Looked at here, so that it does no harm later.
        known = fields.fields("info")
        reads = {
            "wall_seconds": known.number,
            "engine": known.text,
            "why": known.text,
            "failure": known.text,
            "warnings": known.texts,
        }
        for name, read in reads.items():
            if name in info:
                read(name)
        if "undefined" in info:
            times = known.fields("undefined")
            for event in known.table("undefined"):
                times.number(event)
        if "lateness" in info:
            Lateness.from_data(info["lateness"])
        if "provenance" in info:
            known.table("provenance")
        steps = StepLog.from_data(fields.any("steps"))
        return cls(Outcome.named(fields.text("outcome")), steps, EventLog(), info, fields.texts("notes"))
