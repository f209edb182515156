"""What FMUs say, on standard error: complaints always, everything with --fmu-log."""

from __future__ import annotations

import logging
import math

from upbeat.cli.console import complain


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        time = getattr(record, "time", math.nan)
        where = f" at t = {time:.9g}" if not math.isnan(time) else ""
        who = getattr(record, "unit", "") or "an FMU"
        kind = f" [{category}]" if (category := getattr(record, "category", "")) else ""
        complain(f"upbeat: {who}{where}{kind}: {record.getMessage()}")


def prepare(*, all_messages: bool) -> None:
    """Route the messages of FMUs to standard error."""
    logger = logging.getLogger("upbeat.fmu")
    logger.setLevel(logging.DEBUG if all_messages else logging.WARNING)
    logger.propagate = False
    for handler in list(logger.handlers):
        if isinstance(handler, _Handler):
            logger.removeHandler(handler)
    logger.addHandler(_Handler())
