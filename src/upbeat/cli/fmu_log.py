"""What FMUs say, on standard error: complaints always, everything with --fmu-log; and remarks about runs."""

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


class _Remarks(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        complain(f"upbeat: {record.getMessage()}")


def prepare(*, all_messages: bool) -> None:
    """Route the messages of FMUs, and remarks about SSPs and runs, to standard error."""
    _route("upbeat.fmu", _Handler(), logging.DEBUG if all_messages else logging.WARNING)
    for name in ("upbeat.ssp", "upbeat.run"):
        _route(name, _Remarks(), logging.WARNING)


def _route(name: str, handler: logging.Handler, level: int) -> None:
    logger = logging.getLogger(name)
    logger.setLevel(level)
    logger.propagate = False
    for other in list(logger.handlers):
        if type(other) is type(handler):
            logger.removeHandler(other)
    logger.addHandler(handler)
