"""The clocks of an FMU in model exchange (FMI 3), and the variables that they guard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from upbeat.core.errors import ModelError
from upbeat.core.packed import pack_values, unpack_values
from upbeat.core.ports import Causality, Port, Signal, Value
from upbeat.units.fmi.clocks import Clocks
from upbeat.units.fmi.description import Type, Variable
from upbeat.units.fmi.instance import Instance, Reader
from upbeat.units.fmi.interfaces import own_clocks

Kept = tuple[tuple[float, ...], tuple[int, ...], frozenset[str], frozenset[str], dict[str, Signal]]
"""Next ticks, numbers of ticks, clocks that were set, clocks that tick, values by port."""


class Clockwork:
    """Ticks the FMU's own clocks and those that somebody sets, and tells which output clocks tick.

    A clocked input is handed over, and a clocked output looked at, when one of its clocks ticks.
    """

    def __init__(
        self, instance: Instance, ports: Sequence[Port], variables: Mapping[str, Variable], start: float
    ) -> None:
        by_name = instance.description.by_name
        self.any = any(variable.type is Type.CLOCK for variable in by_name.values())
        """Whether there are any."""
        self._instance = instance
        self._clocks = Clocks(instance, [by_name[name] for name in own_clocks(instance.description)], start)
        self._heard: frozenset[str] = frozenset()
        self._sending: frozenset[str] = frozenset()
        mine = {p.name: (p, variables[p.name]) for p in ports if p.event or variables[p.name].clocks}
        self._ports = {
            name: (p, v) for name, (p, v) in mine.items() if p.causality is not Causality.PARAMETER
        }
        self._values: dict[str, Signal] = {}
        self._senders = [v for p, v in self._ports.values() if p.event and p.causality is Causality.OUTPUT]
        self._clocked = [(p, v) for p, v in self._ports.values() if not p.event]
        for port, _ in self._clocked:
            if port.causality is Causality.OUTPUT:
                zeros = (port.kind.zero,) * port.cells
                self._values[port.name] = zeros[0] if port.size is None else zeros

    def owns(self, port: str) -> bool:
        """Whether a port is a clock, or guarded by one."""
        return port in self._ports

    @property
    def readers(self) -> dict[str, Reader]:
        """What `get` of each output gives: of a clock whether it ticks, or what was seen at the last tick."""
        return {n: self._reader(n) for n, (p, _) in self._ports.items() if p.causality is Causality.OUTPUT}

    def _reader(self, name: str) -> Reader:
        if self._ports[name][0].event:
            return lambda: True if name in self._sending else None  # type: ignore[return-value]
        return lambda: self._values[name]

    def set(self, name: str, coefficients: Sequence[Signal]) -> None:
        """An input clock ticks in the next round; a clocked input waits for its clock."""
        if self._ports[name][0].event:
            self._heard |= {name}
        else:
            self._values[name] = coefficients[0]

    @property
    def waiting(self) -> bool:
        """Whether a clock has been set, or its tick must be told."""
        return bool(self._heard or self._sending)

    @property
    def heard(self) -> bool:
        """Whether a clock has been set."""
        return bool(self._heard)

    @property
    def due(self) -> float:
        """The next tick of a clock that ticks by itself."""
        return self._clocks.due

    def begin(self) -> None:
        """Initialization is over."""
        self._clocks.begin()

    def sent(self) -> None:
        """Everybody has been told."""
        self._sending = frozenset()

    def tick(self, now: float) -> None:
        """In event mode, before the discrete states are renewed."""
        if not self.any:
            return
        places = self._clocks.ticking(now)
        ticking = [v for p, v in self._ports.values() if p.name in self._heard]
        ticking += [self._clocks.variables[place] for place in places]
        if ticking:
            self._instance.tick(ticking)
        self._exchange(frozenset(variable.name for variable in ticking))
        self._clocks.ticked(places, now)
        self._heard = frozenset()

    def _exchange(self, ticking: frozenset[str]) -> None:
        """Whether an output clock ticks may depend on what the input clocks bring: it is asked after that."""
        self._hand_over(ticking)
        if self._senders:
            ticks = self._instance.clocks(self._senders)
            sent = frozenset(v.name for v, tick in zip(self._senders, ticks, strict=True) if tick)
            self._sending |= sent
            self._hand_over(sent)
            ticking |= sent
        for port, variable in self._clocked:
            if port.causality is Causality.OUTPUT and ticking.intersection(variable.clocks):
                self._values[port.name] = self._instance.reader(variable, port.size)()

    def _hand_over(self, ticking: frozenset[str]) -> None:
        for port, variable in self._clocked:
            given = port.causality is Causality.INPUT and port.name in self._values
            if given and ticking.intersection(variable.clocks):
                self._instance.writer(variable, port.size)(self._values[port.name])

    def look(self, now: float) -> None:
        """After the discrete states have been renewed."""
        self._clocks.look(now)

    # -- state ---------------------------------------------------------------------------------

    def save(self) -> Kept:
        """What is to be kept of it."""
        clocks = self._clocks
        return tuple(clocks.next), tuple(clocks.count), self._heard, self._sending, dict(self._values)

    def restore(self, kept: Kept) -> None:
        """Set back to what `save` gave."""
        next, count, self._heard, self._sending, values = kept
        self._clocks.next, self._clocks.count = list(next), list(count)
        self._values = dict(values)

    def to_bytes(self, kept: Kept) -> bytes:
        """Values with their kinds, as `upbeat.core.packed` lays them out."""
        next, count, heard, sending, values = kept
        flat: list[Value] = [*next, *count]
        for name, (port, _) in self._ports.items():
            if port.event:
                flat += (name in heard, name in sending)
                continue
            value = values.get(name, ())
            cells: tuple[Value, ...] = (value,) if port.size is None and name in values else value  # type: ignore[assignment]
            flat += (name in values, *cells)
        return pack_values(flat)

    def from_bytes(self, data: bytes) -> Kept:
        """What `to_bytes` was given; `ModelError` for other bytes."""
        clocks = len(self._clocks.variables)
        heard, sending = set(), set()
        values: dict[str, Signal] = {}
        try:
            flat = list(unpack_values(data))
            next = tuple(float(v) for v in flat[:clocks])
            count = tuple(int(v) for v in flat[clocks : 2 * clocks])
            rest = iter(flat[2 * clocks :])
            for name, (port, _) in self._ports.items():
                if port.event:
                    heard |= {name} if _next(rest) else set()
                    sending |= {name} if _next(rest) else set()
                elif _next(rest):
                    cells = tuple(_next(rest) for _ in range(port.cells))
                    values[name] = cells[0] if port.size is None else cells
        except ValueError as error:
            raise ModelError(f"not a state of this unit: {error}") from None
        return next, count, frozenset(heard), frozenset(sending), values


def _next(values: Iterator[Value]) -> Value:
    for value in values:
        return value
    raise ValueError("they end too early")
