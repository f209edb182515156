"""A pace whose steps follow each other in an order that repeats."""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate

from upbeat.core.errors import MasterError
from upbeat.core.reasons import PATTERN
from upbeat.core.records import dataclass
from upbeat.master.computations import SLACK, Pick
from upbeat.master.paces.monitored import Monitored
from upbeat.master.paces.pace import Written
from upbeat.master.paces.wrapping import USUAL, block_places, checked_blocks
from upbeat.master.program import Blocks
from upbeat.master.registers import Steps, Writer, absolute, where
from upbeat.master.wiring import Wiring


@dataclass(frozen=True)
class Pattern:
    """Steps of these sizes in an order that repeats, each by one of the program's step blocks.

        Pattern([0.1] * 10, ["fine"] * 7 + ["step"] * 3)

    `blocks` are those of the coupling (see `Variants`); without any it is the usual one, "step". Points are
    computed from the number of the round, never summed. A step that the stop time or a known event cuts short
    counts like any other, and the next one begins where it ended.
    """

    steps: tuple[float, ...]
    blocks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.steps, (list, tuple)) or not self.steps:
            raise MasterError(f"steps of Pattern lists sizes, such as (0.1, 0.2), not {self.steps!r}")
        object.__setattr__(self, "steps", tuple(self.steps))
        object.__setattr__(self, "blocks", checked_blocks(self.blocks, self.steps, "Pattern"))

    def scaled(self, factor: float) -> Pattern:
        return Pattern(tuple(step * factor for step in self.steps), self.blocks)

    @cached_property
    def named(self) -> tuple[str, ...]:
        """The block of each step."""
        return self.blocks or (USUAL,) * len(self.steps)

    @cached_property
    def sums(self) -> tuple[float, ...]:
        """How far into a round each step begins, and how long a round is."""
        return tuple(accumulate(self.steps, initial=0.0))

    def table(self) -> Monitored:
        """The pattern as a table that lets nothing else through."""
        made = tuple(zip(self.named, self.steps, strict=True))
        chosen = sorted(dict.fromkeys(made), key=lambda policy: policy[1])
        count = len(made)
        leads = tuple(tuple((k + 1) % count if p == made[k] else -1 for p in chosen) for k in range(count))
        return Monitored(self, tuple(s for _, s in chosen), leads, 0, tuple(b for b, _ in chosen))

    def write(self, steps: Steps, blocks: Blocks, wiring: Wiring) -> tuple[Blocks, Written]:
        count, whole, t, limit = len(self.steps), self.sums[-1], steps.now, steps.limit
        sizes, sums = steps.table("pattern′steps", self.steps), steps.table("pattern′sums", self.sums)
        which = steps.table("pattern′blocks", block_places(self.named, blocks, "Pattern"))
        place, origin, turn = (steps.new(f"pattern′{name}") for name in ("place", "origin", "round"))
        size, begun, ended = (steps.new(f"pattern′{name}") for name in ("step", "from", "to"))
        begin, w = Writer(), Writer()
        begin.let(origin, t)
        w.add(
            Pick(sizes.index, count, place.index, size.index),
            Pick(sums.index, count, place.index, begun.index),
            Pick(sums.index + 1, count, place.index, ended.index),
            Pick(which.index, count, place.index, steps.block.index),
        )
        with w.when(~(absolute(t - (origin + turn * whole + begun)) <= SLACK * size)):
            w.let(origin, t - begun)
            w.let(turn, 0.0)
        last = place + 1.0 >= float(count)
        end = steps.until
        w.let(end, where(last, origin + (turn + 1.0) * whole, origin + turn * whole + ended))
        w.let(end, where(end > limit - SLACK * size, limit, end))
        w.let(turn, where(last, turn + 1.0, turn))
        w.let(place, where(last, 0.0, place + 1.0))
        steps.because(w, steps.number(PATTERN))
        return blocks, Written(self, begin.block, w.block)
