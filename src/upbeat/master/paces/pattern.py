"""A pace whose steps follow each other in an order that repeats."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate

from upbeat.core.errors import MasterError
from upbeat.core.reasons import PATTERN
from upbeat.core.time import Span
from upbeat.master.blocks import Blocks
from upbeat.master.paces.named_blocks import USUAL, block_places, check_places, checked_blocks
from upbeat.master.paces.pace import SLACK, Pace, Proposal, Read, State, Twin
from upbeat.master.wiring import Wiring


@dataclass(frozen=True)
class Pattern:
    """Steps of these sizes one after the other, again and again, each by one of the program's step blocks.

        Pattern([0.1] * 10, ["fine"] * 7 + ["step"] * 3)

    `blocks` are those of the coupling (see `Variants`); without any it is the usual one, "step". Points are
    computed from the number of the round, never summed. A step that the stop time or a known event cuts short
    counts like any other, and the next one begins where it ended.
    """

    steps: tuple[float, ...]
    blocks: tuple[str, ...] = ()
    places: tuple[int, ...] = field(default=(), repr=False)
    """Where the blocks are in the program: filled in by `prepare`."""

    def __post_init__(self) -> None:
        if not isinstance(self.steps, (list, tuple)) or not self.steps:
            raise MasterError(f"steps of Pattern lists sizes, such as (0.1, 0.2), not {self.steps!r}")
        object.__setattr__(self, "steps", tuple(self.steps))
        object.__setattr__(self, "blocks", checked_blocks(self.blocks, self.steps, "Pattern"))
        check_places(self.places, "Pattern")

    @cached_property
    def named(self) -> tuple[str, ...]:
        """The block of each step."""
        return self.blocks or (USUAL,) * len(self.steps)

    def prepare(self, blocks: Blocks, wiring: Wiring) -> tuple[Blocks, Pace]:
        return blocks, replace(self, places=block_places(self.named, blocks, "Pattern"))

    def native(self) -> Twin | None:
        if type(self) is not Pattern or not self.places:
            return None
        return Twin("pattern", (*self.steps, *map(float, self.places)))

    def begin(self, span: Span) -> State:
        return (0.0, span.start, 0.0)

    @cached_property
    def sums(self) -> tuple[float, ...]:
        """How far into a round each step begins, and how long a round is."""
        return tuple(accumulate(self.steps, initial=0.0))

    def propose(self, state: State, t: float, limit: float, read: Read) -> tuple[Proposal, State]:
        place, origin, round_ = int(state[0]), state[1], state[2]
        size, begun, whole = self.steps[place], self.sums[place], self.sums[-1]
        if not abs(t - (origin + round_ * whole + begun)) <= SLACK * size:
            origin, round_ = t - begun, 0.0
        last = place + 1 == len(self.steps)
        until = origin + (round_ + 1.0) * whole if last else origin + round_ * whole + self.sums[place + 1]
        after = (0.0, origin, round_ + 1.0) if last else (float(place + 1), origin, round_)
        return Proposal(limit if until > limit - SLACK * size else until, PATTERN, self.named[place]), after
