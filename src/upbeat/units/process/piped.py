"""Both ends of a pipe between an engine and a unit in another process, where there is no compiled core.

A question is a tuple of a call and its arguments, with ports and slots by number; an answer is a pair of
whether it went well (None where the unit asks to end the run), and what came of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from upbeat.core.abilities import Model
from upbeat.core.errors import EndRequest
from upbeat.core.ports import Port
from upbeat.units.process.child import Child
from upbeat.units.process.wire import Frames, RemoteEnd, RemoteError, write_reply

END = "end"


class Piped:
    """The client's end."""

    def __init__(self, child: Child, ports: Sequence[Port]) -> None:
        self._child: Child | None = child
        self._ports = ports

    def _ask(self, *question: Any, as_: Callable[[Any], Any] = lambda said: said) -> Any:
        """`as_` makes of an answer what it should be; what it raises says that it is something else."""
        child = self._child
        if child is None:
            raise RemoteError("this unit is closed")
        child.ask(question)
        try:
            answer = child.answer(child.deadline)
        except KeyboardInterrupt:
            child.lost(True)  # the answer would be taken for that to the next question
            raise
        finally:
            child.records()
        match answer:
            case [None, str(why)]:
                raise RemoteEnd(why)
            case [False, str(why)]:
                raise RemoteError(why)
            case [True, said]:
                with contextlib.suppress(TypeError, ValueError, OverflowError):
                    return as_(said)
        raise RemoteError(child.spoiled())

    def get(self, port: int) -> Any:
        return self._ask("get", port, as_=lambda said: self._value(self._ports[port], said))

    @staticmethod
    def _value(port: Port, said: Any) -> Any:
        if port.event and said is None:
            return None
        cells = port.accept(said)
        return cells[0] if port.size is None else tuple(cells)

    def set(self, port: int, coefficients: Sequence[Any]) -> None:
        self._ask("set", port, [tuple(c) if _is_array(c) else c for c in coefficients])

    def advance(self, t: float, to: float, early: bool = False) -> float:
        return float(self._ask("advance", t, to, early, as_=float))

    def jump(self) -> bool:
        return bool(self._ask("jump"))

    def due(self) -> float:
        return float(self._ask("due", as_=float))

    def slope(self, output: int, input: int) -> list[float]:
        found: list[float] = self._ask("slope", output, input, as_=lambda said: [float(s) for s in said])
        return found

    def save(self, slot: int) -> None:
        self._ask("save", slot)

    def restore(self, slot: int) -> None:
        self._ask("restore", slot)

    def pack(self, slot: int) -> bytes:
        return bytes(self._ask("pack", slot, as_=_bytes))

    def unpack(self, slot: int, data: bytes) -> None:
        self._ask("unpack", slot, data)

    def close(self) -> None:
        """The unit is no longer needed; a second call does nothing."""
        child, self._child = self._child, None
        if child is not None:
            child.ask((END,))
            child.ended()

    def __del__(self) -> None:
        if getattr(self, "_child", None) is not None:
            self.close()


def _bytes(said: Any) -> bytes:
    if not isinstance(said, bytes):
        raise TypeError
    return said


def _is_array(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str)


class Answering:
    """The other end: carries out what is asked of one unit."""

    def __init__(self, model: Model, unit: Any, words: Callable[[BaseException], str]) -> None:
        self._ports = model.ports
        self._unit = unit
        self._words = words
        self._tokens: dict[int, Any] = {}

    @property
    def calls(self) -> tuple[bool, bool, bool, bool]:
        """Which calls the unit has (see `Child.calls`)."""
        names = (("save", "restore"), ("to_bytes", "from_bytes"), ("due",), ("slope",))
        rollback, pack, due, slope = (all(hasattr(self._unit, name) for name in each) for each in names)
        return rollback, pack and rollback, due, slope

    def run(self, frames: Frames, replies: int) -> None:
        """Until the end is asked for, or the other side is gone."""
        while (frame := frames.wait()) is not None:
            call, *arguments = frame[0]
            if call == END:
                return
            answer: tuple[bool | None, Any]
            try:
                answer = True, getattr(self, f"_{call}")(*arguments)
            except EndRequest as request:
                answer = None, self._words(request)
            except BaseException as error:  # noqa: BLE001  # all that a unit raises is for the other side to hear
                answer = False, self._words(error)
            write_reply(replies, answer)

    def _get(self, number: int) -> Any:
        port = self._ports[number]
        given = self._unit.get(port.name)
        if port.event and given is None:
            return None
        try:
            cells = port.accept(given)
        except (TypeError, ValueError) as cause:
            size = "" if port.size is None else f"[{port.size}]"
            what = f"output '{port.name}' is {port.kind.value}{size}, but the unit gave {given!r}"
            raise RemoteError(what) from cause
        return cells[0] if port.size is None else tuple(cells)

    def _set(self, number: int, coefficients: list[Any]) -> None:
        self._unit.set(self._ports[number].name, coefficients)

    def _advance(self, t: float, to: float, early: bool) -> float:
        return float(self._unit.advance(t, to, early))

    def _jump(self) -> bool:
        return bool(self._unit.jump()) if hasattr(self._unit, "jump") else False

    def _due(self) -> float:
        return float(self._unit.due())

    def _slope(self, output: int, input: int) -> list[float]:
        return [float(s) for s in self._unit.slope(self._ports[output].name, self._ports[input].name)]

    def _save(self, slot: int) -> None:
        self._tokens[slot] = self._unit.save()

    def _restore(self, slot: int) -> None:
        self._unit.restore(self._tokens[slot])

    def _pack(self, slot: int) -> bytes:
        return bytes(self._unit.to_bytes(self._tokens[slot]))

    def _unpack(self, slot: int, data: bytes) -> None:
        self._tokens[slot] = self._unit.from_bytes(data)
