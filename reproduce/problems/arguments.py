"""What scripts accept on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def above_zero(kind: type[float] | type[int]) -> Callable[[str], float]:
    """For argparse: a finite number above zero."""

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = 0
        if not 0 < value < float("inf"):
            what = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(f"{text!r} is not a {what} above zero")
        return value

    return read
