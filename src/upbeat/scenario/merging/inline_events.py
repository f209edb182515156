"""The events of a unit that is a scenario itself, once the units inside stand in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from upbeat.core.errors import UpbeatError
from upbeat.core.expr import Expr, Name, substitute
from upbeat.core.names import cell_names as cells_called
from upbeat.core.ports import Port
from upbeat.scenario.directory import INPUTS, End
from upbeat.scenario.events.connection import EventConnection, Sender, both, text_of

if TYPE_CHECKING:
    from upbeat.scenario.scenario import Scenario


class CannotInline(UpbeatError):
    """The units inside cannot stand in the place of the whole; says why."""


@dataclass(frozen=True)
class Cells:
    """What a port comes from: an expression per cell, and the ports in them."""

    cells: tuple[Expr, ...]
    sources: tuple[End, ...]


Moved = Callable[[Cells], Cells]
"""Expressions over signals, from one of the two scenarios into the flat one."""


class EventInlining:
    """Senders over the border of a unit: what goes in and what comes out is put together to one."""

    def __init__(
        self,
        unit: str,
        inner: Scenario,
        given: Mapping[str, Sequence[Sender]],
        names: Mapping[str, str],
        holder: str,
        outside: Moved,
        inside: Moved,
    ) -> None:
        self._unit = unit
        self._inner = inner
        self._names = names
        self._holder = holder
        self._signals_outside = outside
        self._signals_inside = inside
        self._given = given
        self._sent = {o.port.name: o.senders for o in inner.event_outputs}
        self._under_way: list[str] = []

    def connections(self) -> Iterator[EventConnection]:
        """The event connections inside, as those of the flat scenario."""
        for connection in self._inner.event_connections:
            senders = self._all(self._inside, connection.senders)
            unit = self._names[connection.unit]
            yield replace(connection, unit=unit, senders=senders, text=text_of(senders))

    def outside_parts(self, senders: Sequence[Sender]) -> dict[str, Any]:
        """Senders of the outer scenario in the flat one, and their text; nothing if they stay the same."""
        made = self._all(self._outside, senders)
        return {} if made == tuple(senders) else {"senders": made, "text": text_of(made)}

    def outputs(self) -> Iterator[tuple[Port, tuple[Sender, ...]]]:
        """The event outputs of the unit, and where their events come from."""
        for output in self._inner.event_outputs:
            yield output.port, self._all(self._inside, output.senders)

    # ---------------------------------------------------------------- one sender

    @staticmethod
    def _all(move: Callable[[Sender], Sequence[Sender]], senders: Sequence[Sender]) -> tuple[Sender, ...]:
        return tuple(made for sender in senders for made in move(sender))

    def _outside(self, sender: Sender) -> Sequence[Sender]:
        """A sender of the outer scenario, with the unit's events as they come from inside."""
        moved = _with_signals(sender, self._signals_outside)
        unit, port = sender.source
        if unit != self._unit:
            return [moved]
        return self._through(moved, f"{unit}.{port}", lambda: self._all(self._inside, self._sent[port]))

    def _inside(self, sender: Sender) -> Sequence[Sender]:
        """A sender of the inner scenario, with its inputs as they are given outside."""
        moved = _with_signals(sender, self._signals_inside)
        unit, port = sender.source
        if unit == INPUTS and port in self._given:
            return self._through(moved, port, lambda: self._all(self._outside, self._given[port]))
        if unit == INPUTS:
            old, source, size = port, (self._holder, port), self._inner.ports[port].cells
        else:
            old, source = f"{unit}.{port}", (self._names[unit], port)
            size = self._inner.ports[old].cells
        renamed = cell_names(old, named_cells(".".join(source), size))
        return [_substituted(replace(moved, source=source), renamed)]

    def _through(self, then: Sender, name: str, before: Callable[[], Sequence[Sender]]) -> Sequence[Sender]:
        """`then` receives, by `name`, what the senders `before` it send."""
        if name in self._under_way:
            raise CannotInline(f"its event '{name}' comes back to itself through no unit inside")
        self._under_way.append(name)
        firsts = before()
        self._under_way.pop()
        units = [first.source[0] for first in firsts]
        if then.when is not None and len(set(units)) < len(units):
            # If the first one is present and the condition does not hold, none of the others counts; a flat
            # list of senders would go on to the next.
            raise CannotInline(f"'{name}' has several senders in one unit, and a condition behind them")
        made = []
        for first in firsts:
            later = _substituted(replace(then, source=first.source), cell_names(name, first.cells))
            reads = tuple(end for end in dict.fromkeys((*later.reads, *first.reads)) if end != first.source)
            made.append(replace(later, when=both(first.when, later.when), reads=reads))
        return made


def _with_signals(sender: Sender, move: Moved) -> Sender:
    conditions = () if sender.when is None else (sender.when,)
    moved = move(Cells((*conditions, *sender.cells), sender.reads))
    when, cells = moved.cells[0] if conditions else None, moved.cells[len(conditions) :]
    return replace(sender, when=when, cells=cells, reads=moved.sources)


def _substituted(sender: Sender, names: Mapping[str, Expr]) -> Sender:
    when = None if sender.when is None else substitute(sender.when, names)
    return replace(sender, when=when, cells=tuple(substitute(cell, names) for cell in sender.cells))


def cell_names(name: str, cells: Sequence[Expr]) -> dict[str, Expr]:
    """What the names of a port's cells stand for."""
    return dict(zip(cell_paths(name, len(cells)), cells, strict=True))


def named_cells(name: str, size: int) -> list[Expr]:
    """The cells of a port, as an expression reads them."""
    return [Name(cell) for cell in cell_paths(name, size)]


def cell_paths(name: str, size: int) -> tuple[str, ...]:
    """The names in the expressions of a scenario, where an array of one cell is like a single value."""
    return cells_called(name, None if size == 1 else size)
