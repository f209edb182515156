"""A unit in another process, as the interpreter calls it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from upbeat.core.errors import ModelError, suggest
from upbeat.core.plain import Place, Places
from upbeat.core.ports import Causality, Kind, Port, Signal
from upbeat.units.process.child import Child
from upbeat.units.process.piped import Piped

if TYPE_CHECKING:
    from upbeat import _native

_KINDS = {kind: number for number, kind in enumerate(Kind)}


class Remote(Protocol):
    """The calls of unit.h, with ports and slots by number: through shared memory, or through pipes."""

    def get(self, port: int, /) -> Any: ...
    def set(self, port: int, coefficients: Sequence[Any], /) -> None: ...
    def advance(self, t: float, to: float, early: bool) -> float: ...
    def jump(self) -> bool: ...
    def due(self) -> float: ...
    def slope(self, output: int, input: int, /) -> list[float]: ...
    def save(self, slot: int, /) -> None: ...
    def restore(self, slot: int, /) -> None: ...
    def pack(self, slot: int, /) -> bytes: ...
    def unpack(self, slot: int, data: bytes, /) -> None: ...
    def close(self) -> None: ...


def rows(ports: Sequence[Port]) -> list[tuple[int, int, bool]]:
    """Ports as the core takes them: kind, size (-1 for a scalar), and whether they are events."""
    return [(_KINDS[port.kind], -1 if port.size is None else port.size, port.event) for port in ports]


def connect(ports: Sequence[Port], child: Child, restarts: int, keep_every: int) -> _native.Remote:
    """The client's end of the shared memory, for Python or for a machine of the core."""
    from upbeat import _native

    try:
        return _native.Remote(
            child, child.link, child.calls, rows(ports), child.deadline, restarts, keep_every
        )
    except BaseException:
        child.ended(patience=0.0)
        raise


class IsolatedUnit:
    """One unit in another process. It can save, serialise and so on if the unit there can."""

    def __init__(self, ports: Sequence[Port], child: Child, remote: Remote) -> None:
        self._remote = remote
        self._ports = ports
        self._inputs = _numbers(ports, Causality.INPUT) | _numbers(ports, Causality.PARAMETER)
        self._outputs = _numbers(ports, Causality.OUTPUT)
        self._places = Places()
        self.advance = remote.advance
        self.jump = remote.jump
        self.close = remote.close
        rollback, pack, due, slope = child.calls
        if rollback:
            self.save, self.restore = self._save, self._restore
        if pack:
            self.to_bytes, self.from_bytes = self._to_bytes, self._from_bytes
        if due:
            self.due = remote.due
        if slope:
            self.slope = self._slope

    def __reduce__(self) -> Any:
        raise ModelError(
            "a unit in a process of its own cannot be pickled: pickle its model, or what it saves"
        )

    def get(self, port: str) -> Signal | None:
        """The value of an output now; None for an event that is absent."""
        value: Signal | None = self._remote.get(_number(port, self._outputs, "outputs"))
        return value

    def set(self, port: str, coefficients: Sequence[Signal]) -> None:
        """From now on the input is Σ coefficients[k]·(t - now)**k."""
        self._remote.set(_number(port, self._inputs, "inputs"), coefficients)

    def _slope(self, output: str, input: str) -> Sequence[float]:
        return self._remote.slope(self._outputs[output], self._inputs[input])

    def _save(self) -> Place:
        slot = self._places.take()
        self._remote.save(slot.number)
        return slot

    def _restore(self, token: Place) -> None:
        self._remote.restore(token.number)

    def _to_bytes(self, token: Place) -> bytes:
        return self._remote.pack(token.number)

    def _from_bytes(self, data: bytes) -> Place:
        slot = self._places.take()
        self._remote.unpack(slot.number, data)
        return slot


def _numbers(ports: Sequence[Port], causality: Causality) -> dict[str, int]:
    return {port.name: number for number, port in enumerate(ports) if port.causality is causality}


def _number(name: str, known: dict[str, int], noun: str) -> int:
    if name not in known:
        raise ModelError(f"there is no {noun.removesuffix('s')} '{name}'. {suggest(name, known, noun)}")
    return known[name]


def started(ports: Sequence[Port], child: Child, restarts: int, keep_every: int) -> IsolatedUnit:
    """The unit of a process that has been started, for the interpreter."""
    if child.core:
        return IsolatedUnit(ports, child, connect(ports, child, restarts, keep_every))
    return IsolatedUnit(ports, child, Piped(child, ports))
