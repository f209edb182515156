"""A pace that lets another one choose among steps that are proven to be stable one after the other, only."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

from upbeat.core.errors import MasterError
from upbeat.core.expr import Cell, Expr
from upbeat.core.reasons import LEFT, REPLACED, ROUNDED, STOOD
from upbeat.core.records import dataclass
from upbeat.master import checks
from upbeat.master.computations import SLACK, Pick, Rank
from upbeat.master.paces.pace import Pace, Written, nominal_step, written
from upbeat.master.paces.wrapping import USUAL, Wrapping, block_places, checked_blocks
from upbeat.master.program import Block, Blocks
from upbeat.master.registers import Steps, Writer, absolute, at, equal, isnan, where
from upbeat.master.wiring import Wiring

MAX_STEPS = 1000
"""Steps to choose from."""


@dataclass(frozen=True)
class Monitored(Wrapping):
    """Steps of `pace`, as far as they are among `steps` and proven stable in their sequence.

    Policy k is a step of the size ``steps[k]``, made by the step block ``blocks[k]`` of the program (see
    `Variants`; "step", the usual one, unless given). `leads` is the table of an automaton: ``leads[node][k]``
    is the node to which policy k leads from `node`, or -1 where it is not allowed. A request is rounded down
    to a policy of its block, and one below all of them is made larger: it becomes the smallest. Where that
    policy is not allowed, the nearest that is takes its place: nearest in size, then in the order in which
    blocks are listed. The log says so. Only where less than the shortest step is left before the stop time
    or a known event is a step made that no proof covers. Where the pace inside rejects a step and no shorter
    one is allowed, the step stands.

    Make one with `up.certified(…).monitor(pace)`.
    """

    pace: Pace
    steps: tuple[float, ...]
    leads: tuple[tuple[int, ...], ...]
    start: int = 0
    blocks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        checks.pace(self.pace, "the pace of Monitored", "up.certified(…).monitor(up.Fixed(0.1))")
        try:
            object.__setattr__(self, "steps", tuple(self.steps))
            object.__setattr__(self, "leads", tuple(map(tuple, self.leads)))
        except TypeError:
            raise MasterError("steps and leads of Monitored are lists; up.certified(…) makes them") from None
        object.__setattr__(self, "blocks", checked_blocks(self.blocks, self.steps, "Monitored"))
        if not 0 < len(self.steps) <= MAX_STEPS or any(a > b for a, b in pairwise(self.steps)):
            raise MasterError(
                f"Monitored chooses among 1 to {MAX_STEPS} steps, in ascending order: {self.steps!r}"
            )
        if len(set(zip(self.named, self.steps, strict=True))) != len(self.steps):
            raise MasterError(f"Monitored has a step twice: {', '.join(self.labels)}")
        _check_table(self.leads, len(self.steps), self.start)

    def scaled(self, factor: float) -> None:
        """None: its steps are those of a proof."""
        return

    @property
    def late(self) -> float:
        return self.steps[-1]  # the usual step may be replaced by a longer one

    def table(self) -> Monitored:
        """Itself."""
        return self

    @cached_property
    def grants(self) -> tuple[tuple[int, ...], ...]:
        """By node and step asked for, the step that is made."""
        count = range(len(self.steps))
        return tuple(tuple(self._nearest(row, asked, len(count)) for asked in count) for row in self.leads)

    @cached_property
    def named(self) -> tuple[str, ...]:
        """The block of each policy."""
        return self.blocks or (USUAL,) * len(self.steps)

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Of the blocks, in the order in which they are listed."""
        order = list(dict.fromkeys(self.named))
        return tuple(map(order.index, self.named))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The policies in words: sizes alone, where there is one block only."""
        return tuple(
            f"{block} {step:g}" if self.blocks else f"{step:g}"
            for block, step in zip(self.named, self.steps, strict=True)
        )

    @property
    def nominal_step(self) -> float:
        """The step that stands for the usual one of the pace inside."""
        inner = nominal_step(self.pace)
        return self.steps[self._meant(inner, USUAL)] if inner else 0.0

    def write(self, steps: Steps, blocks: Blocks, wiring: Wiring) -> tuple[Blocks, Written]:
        steps.alone = False
        ready, inside = written(self.pace, steps, blocks, wiring)
        places = block_places(self.named, ready, "Monitored")
        which = f"steps are one of {', '.join(self.labels)}"
        note = f"{which}, in sequences that are proven to be stable ({len(self.leads)} nodes)"
        monitor = _Monitor(replace(self, pace=inside.pace), inside, steps, places)
        return replace(ready, notes=(*ready.notes, note)), monitor.written()

    def _meant(self, length: float, block: str) -> int:
        """The policy that a request stands for: the longest of its block that is not longer, else the
        shortest. A block that is not among them stands for any."""
        own = self._places_of.get(block, range(len(self.steps)))
        found = bisect_right(own, length * (1.0 + SLACK), key=self.steps.__getitem__)
        return own[max(found - 1, 0)]

    @cached_property
    def _places_of(self) -> dict[str, Sequence[int]]:
        """The policies of each block: there may be a thousand, and one is looked for at every step."""
        return {block: [k for k, name in enumerate(self.named) if name == block] for block in set(self.named)}

    def _nearest(self, row: Sequence[int], asked: int, below: int) -> int:
        """The allowed one of the first `below` policies that is nearest to the one asked for; -1: none."""
        found, away = -1, (0.0, 0)
        for k in range(below):
            distance = abs(self.steps[k] - self.steps[asked]), abs(self.ranks[k] - self.ranks[asked])
            if row[k] >= 0 and (found < 0 or distance < away):
                found, away = k, distance
        return found


class _Monitor:
    """The monitor as blocks: `propose`, `review`, `note`, around those of the pace inside."""

    def __init__(self, pace: Monitored, inside: Written, steps: Steps, places: Sequence[int]) -> None:
        self.pace, self.inside, self.steps, self.count = pace, inside, steps, len(pace.steps)
        new, table = steps.new, steps.table
        self.node = new("monitor′node", start=(float(pace.start),))  # where it stands in the table
        self.taken = new(
            "monitor′taken", start=(-1.0,)
        )  # which of the policies is under way; -1: none of them
        self.stood = new(
            "monitor′stood"
        )  # 1: the step before should have been shorter, and no shorter one was proven
        self.under_way = new("monitor′under way", 6)  # where that one ends, its block, and why
        self.sizes, self.places = table("monitor′steps", pace.steps), table("monitor′blocks", places)
        self.ranks = table("monitor′ranks", pace.ranks)
        self.leads = table("monitor′leads", [lead for row in pace.leads for lead in row])
        self.grants = table("monitor′grants", [grant for row in pace.grants for grant in row])
        self.own = {}  # the policies of each block, by its number: their steps and their places
        for number, name in enumerate(steps.blocks):
            own = pace._places_of.get(name, range(self.count))
            own_steps = table(f"monitor′steps of {name}", [pace.steps[k] for k in own])
            self.own[number] = own_steps, table(f"monitor′places of {name}", own), len(own)
        self.asked, self.choice, self.below, self.length, self.index = (
            new(f"monitor′{name}") for name in ("asked", "choice", "below", "length", "index")
        )
        self.size, self.block, self.target = (new(f"monitor′{name}") for name in ("size", "block", "target"))
        self.k, self.away, self.lead = new("monitor′k"), new("monitor′away", 2), new("monitor′lead")
        self.wanted, self.other, self.ranked = (
            new(f"monitor′{name}") for name in ("wanted", "other", "ranked")
        )
        self.rank, self.exact = new("monitor′rank"), new("monitor′exact")

    @property
    def until(self) -> Cell:
        """Where the step under way ends."""
        return self.under_way

    def written(self) -> Written:
        begin, inside = Writer(), self.inside
        begin.let(self.until, self.steps.now)
        return Written(
            self.pace,
            (*begin.block, *inside.begin),
            self._propose(),
            self._review() if inside.review else (),
            self._note(),
            inside.changed,
        )

    def _propose(self) -> Block:
        w, steps, t, limit = Writer(), self.steps, self.steps.now, self.steps.limit
        w.add(*self.inside.propose)
        with w.when(~isnan(steps.until)):  # else it gives up
            self._fitting(w, limit - t, self.below)
            self._meant(w)
            self._look_up(w, self.grants, self.asked, self.choice)
            with w.when(self.choice >= self.below):
                self._nearest(w)
            w.let(self.taken, self.choice)
            with w.when(self.taken < 0.0):
                w.let(steps.until, limit)
                steps.because(w, steps.number(LEFT))
            with w.otherwise():
                self._take(w, limit)
            with w.when(self.stood):
                steps.because(w, steps.number(STOOD))
            w.let(self.stood, 0.0)
            w.copy(self.under_way, steps.until, 6)
        return w.block

    def _review(self) -> Block:
        w, steps, t = Writer(), self.steps, self.steps.now
        w.add(*self.inside.review)
        with w.when(steps.again & ~isnan(steps.until)):
            self._fitting(w, (self.until - t) * (1.0 - 2.0 * SLACK), self.below)
            self._meant(w)
            self._nearest(w)
            with w.when(self.choice < 0.0):  # it stands
                w.let(steps.again, 0.0)
                w.let(self.stood, 1.0)
                w.copy(steps.until, self.under_way, 6)
            with w.otherwise():
                w.let(self.taken, self.choice)
                self._take(w, self.until)
                w.copy(self.under_way, steps.until, 6)
        return w.block

    def _note(self) -> Block:
        """The step under way has led somewhere, if it was made as a whole."""
        w, t = Writer(), self.steps.now
        with w.when(self.taken >= 0.0):
            w.add(Pick(self.sizes.index, self.count, self.taken.index, self.size.index))
            with w.when(t >= self.until - SLACK * self.size):
                self._look_up(w, self.leads, self.taken, self.node)
        w.let(self.taken, -1.0)
        w.let(self.until, t)
        w.add(*self.inside.note)
        return w.block

    def _look_up(self, w: Writer, table: Cell, policy: Cell, to: Cell) -> None:
        """What a table says for the node and a policy."""
        w.let(self.index, self.node * float(self.count) + policy)
        w.add(Pick(table.index, self.count * len(self.pace.leads), self.index.index, to.index))

    def _fitting(self, w: Writer, length: Expr, to: Cell) -> None:
        """How many of the policies are not longer than this."""
        w.let(self.length, length * (1.0 + SLACK))
        w.add(Rank(self.sizes.index, self.count, self.length.index, to.index))

    def _meant(self, w: Writer) -> None:
        """The policy that the request stands for: the longest of its block that is not longer, else the
        shortest. A block that is not among them stands for any."""
        w.let(self.length, (self.steps.until - self.steps.now) * (1.0 + SLACK))
        for number, (own_steps, own_places, count) in self.own.items():
            with w.when(equal(self.steps.block, float(number))):
                w.add(Rank(own_steps.index, count, self.length.index, self.index.index))
                w.let(self.index, self.index - 1.0)
                w.add(Pick(own_places.index, count, self.index.index, self.asked.index))

    def _nearest(self, w: Writer) -> None:
        """The allowed one of the first `below` policies that is nearest to the one asked for: nearest in
        size, then in the order of blocks; -1: there is none."""
        k, away, rank = self.k, self.away, at(self.away, 1)
        w.let(self.choice, -1.0)
        w.let(k, 0.0)
        w.add(Pick(self.sizes.index, self.count, self.asked.index, self.wanted.index))
        w.add(Pick(self.ranks.index, self.count, self.asked.index, self.ranked.index))
        with w.when(self.below > 0.0), w.repeat(self.count, k >= self.below):
            self._look_up(w, self.leads, k, self.lead)
            w.add(Pick(self.sizes.index, self.count, k.index, self.other.index))
            w.add(Pick(self.ranks.index, self.count, k.index, self.rank.index))
            w.let(self.other, absolute(self.other - self.wanted))
            w.let(self.rank, absolute(self.rank - self.ranked))
            nearer = (self.other < away) | (equal(self.other, away) & (self.rank < rank))
            with w.when((self.lead >= 0.0) & ((self.choice < 0.0) | nearer)):
                w.let(self.choice, k)
                w.let(away, self.other)
                w.let(rank, self.rank)
            w.let(k, k + 1.0)

    def _take(self, w: Writer, limit: Cell) -> None:
        """The policy `taken`, on the pace's own grid where it asked for just that one."""
        steps, t, size, until, target = self.steps, self.steps.now, self.size, self.steps.until, self.target
        w.add(Pick(self.sizes.index, self.count, self.taken.index, size.index))
        w.add(Pick(self.places.index, self.count, self.taken.index, self.block.index))
        w.add(Pick(self.ranks.index, self.count, self.taken.index, self.rank.index))
        w.add(Pick(self.sizes.index, self.count, self.asked.index, self.wanted.index))
        w.add(Pick(self.ranks.index, self.count, self.asked.index, self.ranked.index))
        w.let(target, t + size)
        w.let(self.exact, (absolute(until - target) <= SLACK * size) & equal(steps.block, self.block))
        w.let(target, where(self.exact, until, target))
        w.let(until, where(target > limit - SLACK * size, limit, target))
        w.let(steps.block, self.block)
        names = self.pace.blocks and list(dict.fromkeys(self.pace.named))
        if names:
            named = [name.replace("{", "{{").replace("}", "}}") for name in names]
            pairs = [f"{one} {{0:g}} instead of {other} {{1:g}}" for one in named for other in named]
            alone = [f"{one} {{0:g}}" for one in named]
        else:
            pairs, alone = ["{0:g} instead of {1:g}"], ["{0:g}"]
        with w.when(~equal(self.taken, self.asked)):
            pair = self.rank * float(len(alone)) + self.ranked
            steps.because(w, steps.numbers(REPLACED, pairs, of=2) + pair, t, size, self.wanted)
        with w.otherwise(), w.when(~self.exact):
            steps.because(w, steps.numbers(ROUNDED, alone, of=1) + self.rank, t, size)


def _check_table(leads: Sequence[Sequence[int]], count: int, start: int) -> None:
    nodes = len(leads)
    if not nodes or type(start) is not int or not 0 <= start < nodes:
        raise MasterError(
            f"start of Monitored must be one of its {nodes} nodes, counted from 0, not {start!r}"
        )
    for node, row in enumerate(leads):
        if len(row) != count:
            raise MasterError(
                f"node {node} of Monitored says where {len(row)} steps lead, but there are {count} steps"
            )
        if not all(type(lead) is int and -1 <= lead < nodes for lead in row):
            raise MasterError(
                f"node {node} of Monitored leads to {list(row)}: nodes are 0 to {nodes - 1}, or -1"
            )
        if max(row) < 0:
            raise MasterError(f"node {node} of Monitored allows no step at all")
