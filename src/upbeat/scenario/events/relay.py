"""The unit that drives event inputs: it sends on what it is told at once, or what a list says at its times.

A relay is due as soon as it has been told of an event, and sends it in the very jump that takes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from upbeat.core.expr import Apply, Expr, Lookup, Name, Number, Op, Table1
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port
from upbeat.scenario.directory import by_hand
from upbeat.scenario.signals import Happenings
from upbeat.units.discrete.model import Discrete, Emission, Mode, Variable
from upbeat.units.equations.ode import Function

_TIME = Name("time")
_NEVER = Number(float("inf"))


def relay(signals: Function | None, events: Mapping[Port, Happenings | None]) -> Discrete:
    """A unit with all outputs of `signals`, and an event output for each of `events`.

    One with a list of happenings plays it, from the start of the run on. Any other has an event input
    ``set_<name>``, and hands on what comes in there.
    """
    told = [port for port, happens in events.items() if happens is None]
    played = [
        _Played(port, happens) for port, happens in events.items() if happens is not None and happens.at
    ]
    due: Expr = _NEVER
    for one in played:
        due = one.next if due is _NEVER else Apply(Op.MIN, (due, one.next))
    for port in told:
        due = Apply(Op.WHERE, (_is_set(port), _TIME, due))
    steps = tuple((one.variable, one.then) for one in played)
    mode = Mode(
        due=due,
        emissions=(*(_handed_on(port) for port in told), *(one.emission for one in played)),
        internal=steps,
        external=steps,  # what is sent in the same jump has been sent
    )
    inputs = signals.equations.inputs if signals is not None else ()
    outputs = signals.equations.outputs if signals is not None else ()
    return Discrete(
        ports=(
            *inputs,
            *(replace(port, name=by_hand(port.name), causality=Causality.INPUT) for port in told),
            *(replace(output.port, depends=frozenset()) for output in outputs),
            *(replace(port, causality=Causality.OUTPUT) for port in events),
        ),
        variables=tuple(Variable(one.variable, Kind.INTEGER, 0) for one in played),
        modes=(mode,),
        outputs=tuple((output.port.name, output.definition.cells) for output in outputs),
        initial=tuple((one.variable, one.first) for one in played),
    )


class _Played:
    """An event that happens at given times: a counter says which is next."""

    def __init__(self, port: Port, happens: Happenings) -> None:
        self._port = port
        self._happens = happens
        self.variable = f"next_{port.name}"
        self._count = Name(self.variable)
        self._at = self._entry(happens.at, "at")

    def _entry(self, values: Sequence[float], what: str) -> Expr:
        """The value at the counter."""
        if len(values) == 1:
            return Number(float(values[0]))
        places = tuple(float(i) for i in range(len(values)))
        table = Table1(places, tuple(map(float, values)), mode="hold", name=f"{what}_{self._port.name}")
        return Lookup(table, (self._count,))

    @property
    def next(self) -> Expr:
        """When the next one happens."""
        left = Apply(Op.LT, (self._count, Number(float(len(self._happens.at)))))
        return Apply(Op.WHERE, (left, self._at, _NEVER))

    @property
    def _now(self) -> Expr:
        return Apply(Op.LE, (self.next, _TIME))

    @property
    def then(self) -> Expr:
        """The counter after a jump."""
        return Apply(Op.WHERE, (self._now, Apply(Op.ADD, (self._count, Number(1.0))), self._count))

    @property
    def first(self) -> Expr:
        """The counter at the start: the first that does not lie before it."""
        at = self._happens.at
        if len(at) == 1:
            return Apply(Op.LT, (Number(at[0]), _TIME))
        numbers = tuple(float(i) for i in range(len(at)))
        place = Lookup(Table1(at, numbers, mode="hold", name=f"place_{self._port.name}"), (_TIME,))
        last = Lookup(Table1(at, at, mode="hold", name=f"last_{self._port.name}"), (_TIME,))
        return Apply(Op.ADD, (place, Apply(Op.LT, (last, _TIME))))

    @property
    def emission(self) -> Emission:
        cells = zip(*self._happens.values, strict=True)
        return Emission(
            self._port.name,
            self._now,
            tuple(self._entry([float(v) for v in cell], f"value_{i}") for i, cell in enumerate(cells)),
        )


def _is_set(port: Port) -> Expr:
    return Name(f"{by_hand(port.name)}?")


def _handed_on(port: Port) -> Emission:
    cells = cell_names(by_hand(port.name), port.size)
    return Emission(port.name, _is_set(port), tuple(Name(cell) for cell in cells))
