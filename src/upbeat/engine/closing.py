"""Letting go of units: each exactly once, whatever the others do."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from upbeat.core.errors import FAULTS
from upbeat.engine.texts import text_of


def close_all(units: Mapping[str, object]) -> None:
    """Close every unit that has a `close`. One that fails is warned about: the results are there already."""
    for name, unit in units.items():
        close = getattr(unit, "close", None)
        if close is None:
            continue
        try:
            close()
        except FAULTS as error:  # whatever somebody's unit raises
            warnings.warn(f"unit '{name}' failed in close(): {text_of(error)}", RuntimeWarning, stacklevel=2)
