"""How much work something is, without a clock: on shared machines clocks make tests fail by chance."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def effort(task: Callable[[], Any]) -> int:
    """How many functions are called, in Python or from Python in C."""
    count = 0

    def seen(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        task()
    finally:
        sys.setprofile(before)
    return count
