"""A pace that lets another one choose among steps that are proven to be stable one after the other, only."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import isnan
from typing import NamedTuple

from upbeat.core.errors import MasterError
from upbeat.core.reasons import LEFT, REPLACED, ROUNDED, STOOD, Reason, Why
from upbeat.core.time import Span
from upbeat.master import checks
from upbeat.master.blocks import Blocks
from upbeat.master.paces.named_blocks import USUAL, block_places, check_places, checked_blocks
from upbeat.master.paces.pace import SLACK, Pace, Proposal, Read, State, Twin, prepared, usual_step
from upbeat.master.paces.wrapping import Wrapping
from upbeat.master.wiring import Wiring

MOST = 1000
"""Steps to choose from."""


class _Head(NamedTuple):
    """What the monitor remembers before what the pace inside does."""

    node: float  # where it stands in the table
    taken: float  # which of the policies is under way; -1: none of them
    until: float  # where that one ends
    stood: float  # 1: the step before should have been shorter, and no shorter one was proven


@dataclass(frozen=True)
class Monitored(Wrapping):
    """Steps as `pace` wants them, as far as they are among `steps` and proven to be stable in this sequence.

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
    places: tuple[int, ...] = field(default=(), repr=False)
    """Where the blocks are in the program: filled in by `prepare`."""

    def __post_init__(self) -> None:
        checks.has(self.pace, "propose", "the pace of Monitored", "up.certified(…).monitor(up.Fixed(0.1))")
        try:
            object.__setattr__(self, "steps", tuple(self.steps))
            object.__setattr__(self, "leads", tuple(map(tuple, self.leads)))
        except TypeError:
            raise MasterError("steps and leads of Monitored are lists; up.certified(…) makes them") from None
        object.__setattr__(self, "blocks", checked_blocks(self.blocks, self.steps, "Monitored"))
        check_places(self.places, "Monitored")
        if not 0 < len(self.steps) <= MOST or any(a > b for a, b in pairwise(self.steps)):
            raise MasterError(
                f"Monitored chooses among 1 to {MOST} steps, in ascending order: {self.steps!r}"
            )
        if len(set(zip(self.named, self.steps, strict=True))) != len(self.steps):
            raise MasterError(f"Monitored has a step twice: {', '.join(self.labels)}")
        _check_table(self.leads, len(self.steps), self.start)

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
    def own(self) -> int:
        return len(_Head._fields)

    @property
    def usual(self) -> float:
        """The step that stands for the usual one of the pace inside."""
        usual = usual_step(self.pace)
        return self.steps[self._meant(usual, USUAL)] if usual else 0.0

    # ---------------------------------------------------------------- before the run

    def prepare(self, blocks: Blocks, wiring: Wiring) -> tuple[Blocks, Pace]:
        ready, pace = prepared(self.pace, blocks, wiring)
        places = block_places(self.named, ready, "Monitored")
        which = f"steps are one of {', '.join(self.labels)}"
        note = f"{which}, in sequences that are proven to be stable ({len(self.leads)} nodes)"
        return replace(ready, notes=(*ready.notes, note)), replace(self, pace=pace, places=places)

    def native(self) -> Twin | None:
        if type(self) is not Monitored or not self.places:
            return None
        counts = (len(self.steps), len(self.leads), self.start)
        numbers = (*counts, *self.steps, *self.places, *self.ranks)
        table = (lead for row in self.leads for lead in row)
        grants = (grant for row in self.grants for grant in row)
        return self.twin("monitored", (*numbers, *table, *grants), self.labels)

    # ---------------------------------------------------------------- while it runs

    def begin(self, span: Span) -> State:
        return (*_Head(float(self.start), -1.0, span.start, 0.0), *self.pace.begin(span))

    def propose(self, state: State, t: float, limit: float, read: Read) -> tuple[Proposal, State]:
        head, inner = self._parts(state)
        wanted, inner = self.pace.propose(inner, t, limit, read)
        if isnan(wanted.until):  # it gives up
            return wanted, state
        row = int(head.node)
        fits = self._count(limit - t)
        asked = self._meant(wanted.until - t, wanted.block)
        taken = self.grants[row][asked]
        if taken >= fits:
            taken = self._nearest(self.leads[row], asked, fits)
        if taken < 0:
            step = wanted._replace(until=limit, reason=LEFT)
        else:
            step = self._step(wanted, t, limit, asked, taken)
        if head.stood != 0.0:
            step = step._replace(reason=STOOD)
        return step, (head.node, float(taken), step.until, 0.0, *inner)

    def review(self, state: State, t: float, reached: float, read: Read) -> tuple[Proposal | None, State]:
        head, inner = self._parts(state)
        again, inner = self.review_inside(inner, t, reached, read)
        if again is None or isnan(again.until):
            return again, (*head, *inner)
        below = self._count((head.until - t) * (1.0 - 2.0 * SLACK))
        asked = self._meant(again.until - t, again.block)
        taken = self._nearest(self.leads[int(head.node)], asked, below)
        if taken < 0:
            return None, (*head._replace(stood=1.0), *inner)
        step = self._step(again, t, head.until, asked, taken)
        return step, (head.node, float(taken), step.until, head.stood, *inner)

    def note(self, state: State, t: float, fired: Sequence[str], read: Read) -> State:
        """The step under way has led somewhere, if it was made as a whole."""
        head, inner = self._parts(state)
        taken = int(head.taken)
        if taken >= 0 and t >= head.until - SLACK * self.steps[taken]:
            head = head._replace(node=float(self.leads[int(head.node)][taken]))
        inner = self.note_inside(inner, t, fired, read)
        return (head.node, -1.0, t, head.stood, *inner)

    def _parts(self, state: State) -> tuple[_Head, State]:
        own, inner = self.apart(state)
        return _Head(*own), inner

    def _step(self, wanted: Proposal, t: float, limit: float, asked: int, taken: int) -> Proposal:
        """The policy `taken`, on the pace's own grid where it asked for just that one."""
        size, block = self.steps[taken], self.named[taken]
        until = t + size
        exact = abs(wanted.until - until) <= SLACK * size and wanted.block == block
        if exact:
            until = wanted.until
        if until > limit - SLACK * size:
            until = limit
        if taken != asked:
            both = f"{self.labels[taken]} instead of {self.labels[asked]}"
            reason: Why = Reason(REPLACED, both, of=(size, self.steps[asked]))
        else:
            reason = wanted.reason if exact else Reason(ROUNDED, self.labels[taken], of=(size,))
        return Proposal(until, reason, block)

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

    def _count(self, length: float) -> int:
        """How many of the policies are not longer than this."""
        return bisect_right(self.steps, length * (1.0 + SLACK))

    def _nearest(self, row: Sequence[int], asked: int, below: int) -> int:
        """The allowed one of the first `below` policies that is nearest to the one asked for; -1: none."""
        found, away = -1, (0.0, 0)
        for k in range(below):
            distance = abs(self.steps[k] - self.steps[asked]), abs(self.ranks[k] - self.ranks[asked])
            if row[k] >= 0 and (found < 0 or distance < away):
                found, away = k, distance
        return found


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
