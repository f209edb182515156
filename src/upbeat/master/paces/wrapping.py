"""A pace around another one: what it does not see to itself, the pace inside does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Self

from upbeat.core.errors import MasterError, suggest
from upbeat.master import checks
from upbeat.master.paces.pace import (
    Follows,
    LooksAtStates,
    Pace,
    Writes,
    nominal_step,
    open_ended,
    plain,
    retries,
    scaled,
)
from upbeat.master.program import Blocks


class Wrapping:
    """The part that all paces around another one have in common; they are dataclasses with a field `pace`.

    Their blocks are written around those of the pace inside (`written`).
    """

    __slots__ = ()
    pace: Pace
    locates: ClassVar[bool] = False
    """Whether it repeats steps up to events that they have gone past."""

    @property
    def retries(self) -> bool:
        return retries(self.pace)

    @property
    def nominal_step(self) -> float:
        return nominal_step(self.pace)

    @property
    def states(self) -> bool:
        return isinstance(self.pace, LooksAtStates) and self.pace.states

    def around(self, pace: Pace) -> Self:
        """The same around another pace."""
        return replace(self, pace=pace)  # type: ignore[type-var]

    def scaled(self, factor: float) -> Pace | None:
        """The same around steps of another size; None if the pace inside cannot tell what that would be."""
        inside = scaled(self.pace, factor)
        return None if inside is None else self.around(inside)  # type: ignore[return-value]

    def open_ended(self) -> Pace:
        """The same around the pace inside as it is in a nested scenario."""
        return self.around(open_ended(self.pace))  # type: ignore[return-value]

    def plain(self) -> Pace:
        """The same steps, without a look at events."""
        return self.around(plain(self.pace))  # type: ignore[return-value]


def follower(pace: Pace) -> Follows | None:
    """Who follows the conditions of events: this pace, or one inside it; None if there is none."""
    if isinstance(pace, Follows):
        return pace
    return follower(pace.pace) if isinstance(pace, Wrapping) else None


def sees_events(pace: Pace) -> bool:
    """Whether a pace does something about events, as far as one can tell: one in Python may."""
    if isinstance(pace, Wrapping):
        return pace.locates or isinstance(pace, Follows) or sees_events(pace.pace)
    return isinstance(pace, Follows) or not isinstance(pace, Writes)


def error_control(pace: Pace) -> LooksAtStates | None:
    """The pace, or the one that it wraps, if it makes steps as long as a tolerance allows."""
    while isinstance(pace, Wrapping):
        pace = pace.pace
    return pace if isinstance(pace, LooksAtStates) else None


# ----------------------------------------------------------------------------------------------------
# Paces that name the step blocks of a program: whether these exist, and where.

USUAL = "step"
"""The block of a pace that does not choose."""


def checked_blocks(blocks: object, steps: Sequence[float], who: str) -> tuple[str, ...]:
    """The block of each of the steps, which are checked as well; none, if it is the usual one for all."""
    for step in steps:
        checks.positive(step, f"each of the steps of {who}")
    if not isinstance(blocks, (list, tuple)) or not all(isinstance(block, str) for block in blocks):
        raise MasterError(f'blocks of {who} names step blocks, such as ("step", "fine"), not {blocks!r}')
    if blocks and len(blocks) != len(steps):
        raise MasterError(f"{who} has {len(steps)} steps, but blocks for {len(blocks)}: give one for each")
    return () if set(blocks) == {USUAL} else tuple(blocks)


def block_names(blocks: Blocks) -> list[str]:
    """The step blocks by their numbers, the usual one first."""
    return sorted(blocks.steps, key=lambda name: name != USUAL)


def block_places(wanted: Sequence[str], blocks: Blocks, who: str) -> tuple[int, ...]:
    """Where each block is among those of the program, the usual one first."""
    known = block_names(blocks)
    for name in wanted:
        if name not in known:
            raise MasterError(
                f"{who} asks for the step block '{name}', which the coupling does not have. "
                f"{suggest(name, known, 'step blocks')} The coupling Variants gives a program several."
            )
    return tuple(map(known.index, wanted))
