"""Calls of an FMU's functions: what their status means, in one place.

Prepared calls are closures over everything they need, because a run makes millions of them: before the call
one look at a flag, afterwards one at the status.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import c_void_p
from ctypes.util import find_library
from typing import Any, NoReturn

from upbeat.units.fmi.binding.library import Library
from upbeat.units.fmi.binding.logging import Journal
from upbeat.units.fmi.instance import FmuError

OK, WARNING, DISCARD, ERROR, FATAL, PENDING = range(6)
_WORDS = {
    DISCARD: "was discarded",
    ERROR: "failed",
    FATAL: "failed for good (fatal)",
    PENDING: "is still pending, and asynchronous steps are not supported",
}
_MOST_SHOWN = 2000


CHANGED = (
    "changed how the processor computes (rounding, tiny numbers, or which faults end the process). It was "
    "set back, so that the results of others stay what they are (only the first time is reported)"
)


def _watching() -> tuple[Callable[[], int], Callable[[int], object]]:
    """How the processor computes, as a number, and how to set it; without the core only how it rounds."""
    try:
        from upbeat import _native

        return _native.arithmetic, _native.set_arithmetic
    except (ImportError, AttributeError):
        try:
            mathematics = ctypes.CDLL(find_library("m"))
            return mathematics.fegetround, mathematics.fesetround
        except (OSError, AttributeError):
            return (lambda: 0), (lambda wanted: None)


arithmetic, set_arithmetic = _watching()


class Calls:
    """The functions of one instance. `pointer` is the argument that stands for it in all of them."""

    def __init__(
        self, library: Library, journal: Journal, declared: dict[str, str], usual: int | None = None
    ) -> None:
        self.library = library
        self.journal = journal
        self.component = 0
        self.pointer: Any = None
        self.gone = ""
        self._declared = declared
        self._warned: set[str] = set()
        self._usual = arithmetic() if usual is None else usual
        """How the processor computes, which no call may change."""
        self._settled = False

    def begin(self, component: int) -> None:
        """From now on there is an instance."""
        self.component = component
        # A parameter object is converted once here instead of in every call.
        self.pointer = c_void_p.from_param(component)

    def end(self, why: str) -> None:
        """No function may be called any more."""
        self.gone = why
        self.component = 0
        self.journal.close()

    def raw(self, name: str, restype: Any = ctypes.c_int) -> Any:
        """The function itself. If it is missing: one that says so when it is called."""
        found = self.library.find(name)
        if found is None:
            return lambda *_: self._missing(name)
        found.restype = restype
        usual, undo = self._usual, self.undo

        def look(result: Any, function: Any, arguments: Any) -> Any:
            if arithmetic() != usual:
                undo(name)
            return result

        found.errcheck = look
        return found

    def undo(self, name: str) -> None:
        """If the FMU has changed how the processor computes, set it back and say so once."""
        if arithmetic() == self._usual:
            return
        set_arithmetic(self._usual)
        if not self._settled:
            self._settled = True
            self.journal.note(f"{name} {CHANGED}")

    def prepare(self, name: str, *types: Any) -> Callable[..., None]:
        """A function of the instance and arguments of these types that raises what its status says."""
        function = self.raw(name)
        if types:
            function.argtypes = (c_void_p, *types)
        journal, doom, settle, judge = self.journal, self.library.doom, self.settle, self.judge
        pointer = self.pointer

        def call(*arguments: Any) -> None:
            if journal.news or doom:
                settle(name)
            if status := function(pointer, *arguments):
                judge(name, status)

        return call

    def fixed(self, name: str, *arguments: Any) -> Callable[[], None]:
        """The same with arguments that never change: pointers to places, whose values may."""
        function, given = self.raw(name), (self.pointer, *arguments)
        journal, doom, settle, judge = self.journal, self.library.doom, self.settle, self.judge

        def call() -> None:
            if journal.news or doom:
                settle(name)
            if status := function(*given):
                judge(name, status)

        return call

    def settle(self, name: str) -> None:
        """Before a call, when there is something new: is it allowed at all? Old messages are forgotten."""
        if reason := self.gone or self.library.given_up:
            raise FmuError(f"{name} cannot be called: {reason}", name, fatal=True)
        self.journal.settle()

    def judge(self, name: str, status: int) -> None:
        """After a call that did not just go well."""
        if status != WARNING:
            self.fail(name, status)
        if name not in self._warned:
            self._warned.add(name)
            self.journal.note(f"{name} gave a warning (only the first one is reported)")

    def fail(self, name: str, status: int, hint: str = "") -> NoReturn:
        """Raise what a status other than ok and warning means, with what the FMU said about it."""
        word = _WORDS.get(status, f"gave the status {status}, which FMI does not know")
        reason = why(self.journal.complaints(), advise=not hint)
        if status == FATAL:
            self.library.give_up(name)
            self.end(self.library.given_up)
        message = f"{name} {word}{reason}" + (f". {hint}" if hint else "")
        raise FmuError(message, name, fatal=status == FATAL, discarded=status == DISCARD)

    def said(self) -> str:
        """What the FMU complained of last, as one text."""
        return _joined(self.journal.complaints())

    def _missing(self, name: str) -> NoReturn:
        declared = self._declared.get(name[4:])
        though = f", though it declares {declared}" if declared else ""
        raise FmuError(f"the FMU has no {name}{though}", name)


def why(complaints: Sequence[str], *, advise: bool = True) -> str:
    """What an FMU said about a call that failed, to go on with after the name of the call."""
    if said := _joined(complaints):
        return f": {said}"
    return ", and the FMU does not say why" + (" (its full log may: logging = true)" if advise else "")


def _joined(complaints: Sequence[str]) -> str:
    text = "; ".join(complaints)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}… (the rest is in the log)"
