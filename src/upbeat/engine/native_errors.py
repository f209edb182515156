"""What stopped the native core, in the words of the interpreter."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from math import isnan
from typing import NamedTuple

from upbeat.core.errors import RunError, StepError, UnitError
from upbeat.core.ports import Port, Value
from upbeat.engine.loop import MOST_RETRIES
from upbeat.engine.tables import Tables
from upbeat.engine.texts import exhausted_text, input_text, output_text, text_of
from upbeat.master.program import Advance, Get, Repeat, Set


class Fault(enum.IntEnum):
    """`Fault` of native/src/error.hpp, which says what the other numbers mean in each case."""

    REFUSED = 1
    NOT_FINITE = 2
    NOT_REACHED = 3
    UNABLE = 4
    EXHAUSTED = 5
    EMPTY_SLOT = 6
    NO_PROGRESS = 7
    BAD_STEP = 8
    REJECTED = 9


class CoreError(NamedTuple):
    """`Error` of native/src/error.hpp, and what Python raised, if it was that."""

    fault: int
    call: int
    row: int
    unit: int
    cell: int
    time: float
    start: float
    until: float
    value: float
    status: int
    message: str
    cause: BaseException | None


_CALLS = ("", "get", "set", "advance", "jump", "save", "restore")


def blame(
    error: CoreError,
    tables: Tables,
    ports: Mapping[tuple[str, str], Port],
    read: Callable[[int], Value],
    *,
    by_address: frozenset[str] = frozenset(),
    call: str = "",
    reason: Callable[[int], str] = str,
) -> RunError:
    """The error to raise. `call` names what was called outside any program, `reason` the pace's reasons.

    What is no error of a unit (Ctrl-C, a unit of a nested run) passes through: it is raised here.
    """
    time, until = error.time, error.until
    origin = tables.origins[error.row] if error.row >= 0 else None
    match error.fault:
        case Fault.EXHAUSTED:
            assert isinstance(origin, Repeat)
            return StepError(exhausted_text(origin, read))
        case Fault.EMPTY_SLOT:
            return StepError("nothing was saved")
        case Fault.NO_PROGRESS:
            return StepError(f"the step from t = {time:.9g} did not move on, and no event fired")
        case Fault.BAD_STEP if isnan(until):
            return StepError(reason(error.cell))
        case Fault.BAD_STEP:
            return StepError(
                f"the pace asked for a step from {time:.17g} to {until:.17g}, "
                f"which does not lie between now and the stop time {error.value:.17g}"
            )
        case Fault.REJECTED:
            last = reason(error.cell)
            return StepError(f"the step from t = {time:.9g} was rejected {MOST_RETRIES} times; last: {last}")
    name = tables.units[error.unit]
    match origin:
        case Get(port=port):
            call = f"get('{port}')"
        case Set(port=port):
            call = f"set('{port}')"
        case Advance():
            call = f"advance({error.start:.9g}, {until:.9g})"
        case _:
            call = call or f"{_CALLS[error.call]}()"
    match error.fault:
        case Fault.NOT_FINITE:
            assert isinstance(origin, (Get, Set))
            index = "" if ports[name, origin.port].size is None else f"[{error.cell}]"
            say = output_text if isinstance(origin, Get) else input_text
            text = say(f"{origin.port}{index}", error.value)
        case Fault.NOT_REACHED:
            text = f"it stopped at {error.value:.9g} instead of {until:.9g}"
        case Fault.UNABLE:
            text = "it cannot be set back to an earlier state"
        case _:
            text = _refusal(error, name in by_address)
    return UnitError(text, unit=name, call=call, time=time)


def _refusal(error: CoreError, by_address: bool) -> str:
    cause, message = error.cause, error.message
    if isinstance(cause, UnitError) or (cause is not None and not isinstance(cause, Exception)):
        raise cause
    if cause is not None:
        return message or text_of(cause)
    if by_address:
        return f"NativeFailure: {message or f'{_CALLS[error.call]} returned status {error.status}'}"
    return message
