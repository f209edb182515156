"""Paces that name the step blocks of a program: whether these exist, and where."""

from __future__ import annotations

from collections.abc import Sequence

from upbeat.core.errors import MasterError, suggest
from upbeat.master import checks
from upbeat.master.blocks import Blocks

USUAL = "step"
"""The block of whoever does not choose."""


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
