"""Event connections: who sends an event to an input (or an output of the scenario), and what it says.

An event has a value only at instants; in between it is absent. Its connection is a list of senders, of
which the first one that is present counts. At one micro-step only one unit sends, so this matters where
one unit sends several events at once, or where the condition of a sender does not hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from upbeat.core.expr import Apply, Expr, Name, Op, show
from upbeat.core.names import cell_names
from upbeat.core.ports import Port
from upbeat.scenario.connection import closed
from upbeat.scenario.directory import INPUTS, End

EventText = str | Mapping[str, Any] | tuple[Any, ...]
"""An event connection as it was written: an expression, a table, or a list of them."""


@dataclass(frozen=True, slots=True)
class Sender:
    """An event output that is passed on: only `when` this holds (None: always), with `cells` as its payload.

    `source` is the event output, or ``("inputs", name)`` for an event input of the scenario. The names in
    `when` and `cells` are those of a `Connection`; the ordinary ports that it `reads` are sampled at the
    instant, and the payload of the source goes by its own name.
    """

    source: End
    when: Expr | None
    cells: tuple[Expr, ...]
    reads: tuple[End, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class EventConnection:
    """What an event input of a unit is given: the first of the `senders` that is present."""

    unit: str
    port: str
    senders: tuple[Sender, ...]
    text: EventText = field(compare=False)

    @property
    def target(self) -> str:
        """The input's name, ``unit.port``."""
        return f"{self.unit}.{self.port}"


@dataclass(frozen=True, slots=True)
class EventOutput:
    """An event output of the scenario itself; its `senders` are as in an `EventConnection`."""

    port: Port
    senders: tuple[Sender, ...]
    text: EventText = field(compare=False)


def closed_senders(senders: Sequence[Sender], inputs: Sequence[Port]) -> tuple[Sender, ...]:
    """The senders with scenario inputs replaced by outputs of the unit that drives them."""
    return tuple(
        replace(
            sender,
            when=None if sender.when is None else closed((sender.when,), inputs)[0],
            cells=closed(sender.cells, inputs),
        )
        for sender in senders
    )


def both(one: Expr | None, two: Expr | None) -> Expr | None:
    """The condition that both hold; None is one that always does."""
    if one is None or two is None:
        return two if one is None else one
    return Apply(Op.AND, (one, two))


def text_of(senders: Sequence[Sender]) -> EventText:
    """Senders as they could be written."""
    texts = tuple(_sender_text(sender) for sender in senders)
    return texts[0] if len(texts) == 1 else texts


def _sender_text(sender: Sender) -> str | dict[str, Any]:
    unit, port = sender.source
    path = port if unit == INPUTS else f"{unit}.{port}"
    count = len(sender.cells)
    plain = sender.cells == tuple(map(Name, cell_names(path, None if count == 1 else count)))
    event = show(Name(path))
    if plain and sender.when is None:
        return event
    cells = [show(cell) for cell in sender.cells]
    value = {} if plain else {"value": cells[0] if len(cells) == 1 else cells}
    when = {} if sender.when is None else {"when": show(sender.when)}
    return {"event": event, **value, **when}
