"""Which options of `upbeat stability` belong to which way of judging; all others are refused, not ignored."""

from __future__ import annotations

import argparse
import enum

from upbeat.core.errors import InvalidInput

SIZES = "say which sizes, such as --steps 0.05,0.1"


class Mode(enum.Enum):
    """What is judged, and what to type for options that do not belong to that."""

    SINGLE = "steps of one size", SIZES
    BLOCK = "one step block", "leave them out, or --block"
    SEVERAL = "steps of several sizes together", "leave out --steps, and give one size by --step 0.1"
    TABLE = (
        "the sequences of steps that the file's own pace makes",
        "say which size to judge, such as --step 0.1",
    )


ONE = frozenset({Mode.SINGLE, Mode.BLOCK})
BELONGS = {
    "ideal": ONE | {Mode.SEVERAL},
    "scan": ONE,
    "no_scan": ONE,
    "along": frozenset({Mode.SINGLE}),
    "compare": frozenset({Mode.SINGLE}),
    "map": frozenset({Mode.SINGLE}),
    "block": frozenset({Mode.BLOCK, Mode.SEVERAL}),
    "lift": frozenset({Mode.SEVERAL}),
    "step": ONE,
}
"""By option. Those that are not here (the point, how the answer is told or drawn) belong to all modes."""


def refuse_others(options: argparse.Namespace, mode: Mode) -> None:
    """Every option that would do nothing in this mode is an error."""
    given = [name for name in BELONGS if getattr(options, name) not in (None, False)]
    wrong = [name for name in given if mode not in BELONGS[name]]
    if wrong:
        what, advice = mode.value
        if all(BELONGS[name] == {Mode.SEVERAL} for name in wrong):
            advice = SIZES
        shown = ", ".join(f"--{name.replace('_', '-')}" for name in wrong)
        raise InvalidInput(f"{shown}: without effect, because this judges {what}; {advice}")
