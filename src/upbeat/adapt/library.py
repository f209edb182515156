"""The library of adaptations: what is changed about a unit without touching it, in words.

    "gain 2 on y"                          a block between the unit and the port
    "saturation on u with low = -1, high = 1"
    "y = 2*y + offset", "u = -u"           formulas: over outputs for an output, over inputs for an input
    "every 0.001"                          how the unit is run
    "lazy_sa.sa"                           an adaptation in a file of its own

or the same as a table: ``{"kind": "saturation", "on": "u", "low": -1, "high": 1}``. The first that is
listed is the nearest to the unit. What stands between ports is a nested scenario of blocks (`Wired`), which
takes the place of the unit in the scenario around it, as if it had been typed there.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from fractions import Fraction
from math import isfinite
from typing import Any, TypeAlias

from upbeat.core.abilities import Model
from upbeat.core.errors import ExpressionError, ModelError, suggest
from upbeat.core.expr import Expr, Name, Number, Op, apply, evaluate, names, parse, substitute
from upbeat.core.measure import Measure
from upbeat.core.names import ADAPTED, cell_names, objection_to_port, split
from upbeat.core.ports import Causality, Kind, Port
from upbeat.core.records import dataclass
from upbeat.master.inputs.approximation import Approximation, Hold, Linear, Polynomial
from upbeat.scenario.scenario import Scenario
from upbeat.units import blocks
from upbeat.units.discrete import Edge, LastValue, Sampler, Threshold
from upbeat.units.equations.data import TIME
from upbeat.units.equations.ode import cell_of, equations_of
from upbeat.units.shorthand import plain

INSIDE = ADAPTED
"""What the adapted unit is called inside."""
Given: TypeAlias = str | Mapping[str, Any]
"""An adaptation as people write it."""
Cells = tuple[Expr, ...]
Kinds: TypeAlias = Mapping[str, Callable[..., Any]]
"""What makes adaptations, by name."""


# ----------------------------------------------------------------------------------------------------
# Texts and tables.


@dataclass(frozen=True)
class Asked:
    """One adaptation, read: its kind, the ports it is on, and its arguments. `text` is for messages."""

    kind: str
    on: tuple[str, ...]
    arguments: Mapping[str, Any]
    text: str


_FORMULA = re.compile(r"\s*(`[^`]+`|[A-Za-z_][\w.\[\]()]*)\s*=(?!=)\s*(.+)", re.DOTALL)
_WORDS = re.compile(
    r"\s*(?P<kind>\w+)(?:\s+(?!(?:on|with)\b)(?P<value>.+?))?(?:\s+on\s+(?P<on>.+?))?"
    r"(?:\s+with\s+(?P<with>.+?))?\s*\Z",
    re.DOTALL,
)


def read(given: object, kinds: Kinds) -> Asked:
    """One adaptation, of these kinds, from its text or table; says what is wrong with it, and near names."""
    if isinstance(given, str):
        return _read_text(given, kinds)
    if not isinstance(given, Mapping):
        raise ModelError(f'an adaptation is a text, "gain 2 on y", or a table, not {given!r}')
    table = dict(given)
    kind = table.pop("kind", None)
    if not isinstance(kind, str):
        raise ModelError(f'an adaptation has a kind: {{ kind = "gain", on = "y", k = 2.0 }}, not {given!r}')
    on = table.pop("on", ())
    on = (on,) if isinstance(on, str) else on
    if not isinstance(on, (list, tuple)) or not all(isinstance(port, str) for port in on):
        raise ModelError(f'"on" is a port or a list of ports, not {on!r}')
    return _checked(Asked(kind, tuple(on), table, f"{kind}{' on ' if on else ''}{', '.join(on)}"), kinds)


def _read_text(text: str, kinds: Kinds) -> Asked:
    if text.endswith(".sa"):
        return Asked("sa", (), {"file": text}, text)
    if found := _FORMULA.match(text):
        port, value = found.group(1).strip("`"), found.group(2).strip()
        return Asked("formula", (port,), {"value": value}, text)
    words = _WORDS.match(text)
    if words is None:
        raise ModelError(
            f'{text!r} is not an adaptation. Write "KIND VALUE on PORT with KEY = VALUE, …": "gain 2 on y"'
        )
    kind = words["kind"]
    arguments: dict[str, Any] = {}
    if words["with"]:
        arguments = _values(words["with"], text)
    if words["value"]:
        first = _first_argument(kind, text, kinds)
        if first in arguments:
            raise ModelError(
                f"{text!r} says {first} twice, {words['value']} and {arguments[first]!r}: leave out one"
            )
        arguments = {first: _value(words["value"]), **arguments}
    on = tuple(port.strip().strip("`") for port in re.split(r",|\band\b", words["on"] or "") if port.strip())
    return _checked(Asked(kind, on, arguments, text), kinds)


def _value(text: str) -> Any:
    """A value as files write it; a single word is a text."""
    text = text.strip()
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text.strip("\"'")


def _values(text: str, whole: str) -> dict[str, Any]:
    """``low = -1, high = 1`` as a table."""
    found: dict[str, Any] = {}
    for part in re.split(r",(?![^\[{]*[\]}])", text):
        key, equals, value = part.partition("=")
        if not equals or not key.strip().isidentifier():
            raise ModelError(
                f'{whole!r}: after "with" stand values, "low = -1, high = 1", not {part.strip()!r}'
            )
        if key.strip() in found:
            raise ModelError(f"{whole!r} says {key.strip()} twice: leave out one")
        found[key.strip()] = _value(value)
    return found


def _keys(kind: str, text: str, kinds: Kinds) -> dict[str, inspect.Parameter]:
    """The arguments of a kind besides the model, the wiring and the ports."""
    if kind not in kinds:
        raise ModelError(
            f"there is no adaptation {kind!r} (in {text!r}). {suggest(kind, kinds, 'adaptations')}"
        )
    found = dict(inspect.signature(kinds[kind]).parameters)
    return {key: parameter for key, parameter in found.items() if key not in ("work", "model", "on")}


def _first_argument(kind: str, text: str, kinds: Kinds) -> str:
    found = list(_keys(kind, text, kinds))
    if not found:
        raise ModelError(f"{text!r}: {kind} takes no value")
    return found[0]


def _checked(asked: Asked, kinds: Kinds) -> Asked:
    if twice := [port for n, port in enumerate(asked.on) if port in asked.on[:n]]:
        raise ModelError(f"{asked.text!r} names the port {twice[0]} twice: leave out one")
    keys = _keys(asked.kind, asked.text, kinds)
    for key in asked.arguments:
        if key not in keys:
            raise ModelError(
                f"{asked.text!r}: {asked.kind} has no {key!r}. {suggest(key, keys, 'arguments')}"
            )
    missing = [k for k, p in keys.items() if p.default is p.empty and k not in asked.arguments]
    if missing:
        raise ModelError(f"{asked.text!r}: {asked.kind} needs {', '.join(missing)}: with {missing[0]} = …")
    return asked


# ----------------------------------------------------------------------------------------------------
# A unit with something between it and its ports.


@dataclass
class Wired:
    """A unit and the blocks around it, while adaptations are added from the inside to the outside.

    `into` says what each input inside gets, over outer inputs and blocks; `out` what each outer output is.
    What is an event has the name of a port there instead of expressions.
    """

    model: Model
    units: dict[str, Model] = field(default_factory=dict)
    into: dict[str, Any] = field(default_factory=dict)
    out: dict[str, tuple[Port, Any]] = field(default_factory=dict)
    inputs: dict[str, Port] = field(default_factory=dict)
    approximations: dict[str, Approximation] = field(default_factory=dict)
    """What inputs inside do between communication points, by ``unit.port``."""
    chosen: Mapping[str, Any] = field(default_factory=dict)
    """Values that blocks have been given since, by ``unit.port``."""
    derived: bool = False
    """Whether blocks begin with what the unit shows at the start, and so depend on its values."""
    unconverted: set[str] = field(default_factory=set)
    """Inputs inside, and outer outputs, whose numbers are taken as they are: `unit` says what they are in."""

    def __post_init__(self) -> None:
        self.units = {INSIDE: self.model}
        for port in self.model.ports:
            if port.internal or port.extra or port.causality is Causality.PARAMETER:
                continue
            if port.causality is Causality.INPUT:
                self.inputs[port.name] = port
                self.into[f"{INSIDE}.{port.name}"] = port.name if port.event else _cells(port.name, port)
            else:
                inside = f"{INSIDE}.{port.name}"
                self.out[port.name] = (port, inside if port.event else _cells(inside, port))

    # -- ports

    def port(self, name: str) -> Port:
        """An outer port."""
        known = {**self.inputs, **{name: port for name, (port, _) in self.out.items()}}
        if name not in known:
            raise ModelError(f"there is no port '{name}'. {suggest(name, known, 'ports')}")
        return known[name]

    def signal(self, name: str) -> Port:
        """An outer port that is a real signal."""
        port = self.port(name)
        if port.event or port.kind is not Kind.REAL:
            what = "an event" if port.event else f"{port.kind.value}"
            raise ModelError(f"'{name}' is {what}, and this is for real signals")
        return port

    # -- changes

    def formula(self, name: str, change: Callable[[Expr], Expr]) -> None:
        """Every cell of an outer port through an expression."""
        if name in self.inputs:
            port = self.inputs[name]
            self._replace(name, tuple(change(cell) for cell in _cells(name, port)))
        else:
            port, cells = self.out[name]
            self.out[name] = (port, tuple(change(cell) for cell in cells))

    def block(
        self,
        name: str,
        kind: str,
        make: Callable[[dict[str, str] | None, float, Any], Model],
        seconds: int = 0,
    ) -> None:
        """A block with the input `u` and the output `y` for every cell of an outer port, made of the units
        of measure of the two and the port's start value. y is in the unit of u times a power of seconds."""
        inward = name in self.inputs
        port, starts = self.inputs[name] if inward else self.out[name][0], []
        if inward:
            starts = [float(value) for value in port.initial]
        else:
            starts = [self.start(cell) for cell in self.out[name][1]]
        units, outer = None, port
        if port.unit is not None:
            power = Fraction(-seconds if inward else seconds)
            other = str(Measure.of(port.unit).times(Measure.of("s"), power)) if seconds else port.unit
            units = {"u": other, "y": port.unit} if inward else {"u": port.unit, "y": other}
            outer = replace(port, unit=other)
        count = port.cells
        made = []
        for i in range(count):
            unit = self._free(f"{kind}_{name}" if count == 1 else f"{kind}_{name}_{i}")
            self.units[unit] = make(units, starts[i], self.chosen.get(f"{unit}.k"))
            if kind == "derivative":  # of a staircase it would be too large by half a step over tau
                self.approximations[f"{unit}.u"] = Linear()
            made.append(unit)
        behind = tuple(Name(f"{unit}.y") for unit in made)
        if inward:
            self._replace(name, behind)
            for unit, cell in zip(made, _cells(name, port), strict=True):
                self.into[f"{unit}.u"] = (cell,)
            self.inputs[name] = outer
        else:
            _, cells = self.out[name]
            for unit, cell in zip(made, cells, strict=True):
                self.into[f"{unit}.u"] = (cell,)
            self._taken_as_it_was(name, [f"{unit}.u" for unit in made])
            self.out[name] = (outer, behind)

    def start(self, cell: Expr) -> float:
        """What an expression over ports inside and outer inputs is at the start, as far as equations and
        start values tell."""
        value = evaluate(cell, {name: self._start_of(name) for name in names(cell)})
        return value if isfinite(value) else 0.0

    def _start_of(self, name: str) -> float:
        outer = {c: v for p in self.inputs.values() for c, v in _started(p)}
        unit, port = split(name)
        if name in outer or unit not in self.units:
            return outer.get(name, 0.0)
        model = self.units[unit]
        equations = equations_of(model)
        known = {c: v for p in model.ports for c, v in _started(p)}
        if equations is None or equations.events:
            return self.start(self.into[f"{unit}.u"][0]) if unit != INSIDE else known.get(port, 0.0)
        self.derived = True
        known |= {c: v for state in equations.states for c, v in _started(state.port)}
        known |= {c: v for one in equations.variables for c, v in _started(one)}
        for one in equations.inputs:
            given = self.into.get(f"{unit}.{one.name}", ())
            if not isinstance(given, str):
                known |= dict(zip(_called(one.name, one), map(self.start, given), strict=False))
        return evaluate(cell_of(equations, port), {**known, TIME: 0.0})

    def _taken_as_it_was(self, name: str, ends: Iterable[str]) -> None:
        """What an outer output was goes into blocks now: if it was not converted, it is not converted there,
        and what comes out of them is in the unit that they say."""
        if name in self.unconverted:
            self.unconverted.remove(name)
            self.unconverted.update(ends)

    def measured(self, name: str) -> None:
        """Make sure that an expression over an outer port sees it in its unit of measure, also where that is
        another one than the model says."""
        ends = {name} if name in self.out else {e for e, cells in self.into.items() if _reads(cells, name)}
        if not ends.isdisjoint(self.unconverted):
            self.block(name, "unit", lambda units, start, k: blocks.gain(1.0, units=units))

    def converter(self, name: str, kind: str, made: Model, into: str, out: str, port: Port) -> None:
        """A converter between a signal and an event; the outer port becomes `port`."""
        unit = self._free(f"{kind}_{name}")
        self.units[unit] = made
        shown = f"{unit}.{out}" if port.event or name in self.inputs else _cells(f"{unit}.{out}", port)
        if name in self.inputs:
            old = self.inputs[name]
            inner = f"{unit}.{out}"
            self._replace(name, inner if old.event else _cells(inner, old))
            self.into[f"{unit}.{into}"] = name if port.event else _cells(name, port)
            self.inputs[name] = port
        else:
            old, before = self.out[name]
            self.into[f"{unit}.{into}"] = before
            self._taken_as_it_was(name, [f"{unit}.{into}"])
            self.out[name] = (port, shown)

    def _replace(self, name: str, by: Any) -> None:
        """What stood for an outer input stands for something else from now on."""
        port = self.inputs[name]
        for end, given in self.into.items():
            if isinstance(given, str):
                self.into[end] = by if given == name else given
            elif not isinstance(by, str):
                changed = dict(zip(_called(name, port), by, strict=True))
                self.into[end] = tuple(substitute(cell, changed) for cell in given)

    def rename(self, old: str, new: str) -> None:
        """Call an outer port something else."""
        if old in self.inputs:
            port = replace(self.inputs.pop(old), name=new)
            for end, given in self.into.items():
                if isinstance(given, str):
                    self.into[end] = new if given == old else given
                else:
                    changed = dict(zip(_called(old, port), _cells(new, port), strict=True))
                    self.into[end] = tuple(substitute(cell, changed) for cell in given)
            self.inputs[new] = port
        else:
            port, cells = self.out.pop(old)
            self.out[new] = (replace(port, name=new), cells)

    def _free(self, wanted: str) -> str:
        plain_name = re.sub(r"[\W_]+", "_", wanted, flags=re.ASCII).strip("_")
        made, count = plain_name, 1
        while made in self.units:
            count += 1
            made = f"{plain_name}_{count}"
        return made

    # -- the result

    def scenario(self) -> Scenario:
        """The unit and the blocks, with the ports of the adapted unit."""
        connections = {end: _given(cells) for end, cells in self.into.items()}
        for end in self.unconverted & connections.keys():
            connections[end] = {"value": connections[end], "convert": False}
        outputs: dict[str, Any] = {}
        for name, (port, cells) in self.out.items():
            if port.event:
                outputs[name] = cells
                continue
            entry: dict[str, Any] = {"value": _given(cells), "kind": port.kind.value}
            if port.items:
                entry = {"value": _given(cells), "items": port.items}
            if port.unit is not None:
                entry["unit"] = port.unit
            if name in self.unconverted:
                entry["convert"] = False
            outputs[name] = entry
        return Scenario(self.units, connections, inputs=list(self.inputs.values()), outputs=outputs)


def _called(name: str, port: Port) -> tuple[str, ...]:
    return cell_names(name, port.size)


def _started(port: Port) -> Iterable[tuple[str, float]]:
    """The start values of the cells of a port that holds numbers."""
    if port.kind is not Kind.STRING:
        yield from zip(_called(port.name, port), map(float, port.initial), strict=True)


def _cells(name: str, port: Port) -> Cells:
    """The cells of a port, as expressions."""
    return tuple(Name(cell) for cell in _called(name, port))


def _given(cells: Any) -> Any:
    """Cells as a connection takes them."""
    if isinstance(cells, str):
        return cells
    return cells[0] if len(cells) == 1 else list(cells)


# ----------------------------------------------------------------------------------------------------
# Formulas and blocks.


def formula(work: Wired, on: tuple[str, ...], value: str) -> None:
    """A port by a formula: of an input, over outer inputs (names that are new become inputs); of an output,
    over the outputs, and one that is new is added."""
    if len(on) != 1 or not isinstance(value, str):
        raise ModelError('a formula is for one port, and a text: "y = 2*y"')
    (name,) = on
    text = f"{name} = {value}"
    try:
        tree = parse(value)
    except ExpressionError as error:
        raise ModelError(f"{text!r}: {error}") from None
    if name in work.inputs:
        port = work.signal(name)
        if port.size is not None:
            raise ModelError(f"{text!r}: '{name}' is an array; a formula is for one value")
        for new in sorted(names(tree)):
            if new in {n for n, (p, _) in work.out.items()}:
                raise ModelError(f"{text!r}: '{new}' is an output, and an input can follow inputs only")
            if new not in work.inputs and (objection := objection_to_port(new)):
                raise ModelError(f"{text!r}: '{new}' is no name of an input: {objection}")
        if names(tree) != {name}:
            work.measured(name)
        old = work.inputs[name]
        work._replace(name, (tree,))
        if name not in names(tree):
            del work.inputs[name]
        for new in sorted(names(tree) - work.inputs.keys()):
            work.inputs[new] = Port(new, Causality.INPUT)
        if name in names(tree):
            work.inputs[name] = old
        return
    cells: dict[str, Expr] = {}
    for other in sorted(names(tree)):
        if other not in work.out:
            raise ModelError(f"{text!r}: there is no output '{other}'. {suggest(other, work.out, 'outputs')}")
        port, _ = work.out[other]
        if port.event or port.size is not None:
            raise ModelError(f"{text!r}: '{other}' is {'an event' if port.event else 'an array'}")
        if names(tree) != {name}:
            work.measured(other)
        cells[other] = work.out[other][1][0]
    made = substitute(tree, cells)
    port = work.out[name][0] if name in work.out else Port(name, Causality.OUTPUT)
    if objection := objection_to_port(name):
        raise ModelError(f"{text!r}: '{name}' is no name of an output: {objection}")
    work.out[name] = (port, (made,))


def _each(work: Wired, on: tuple[str, ...], kind: str) -> Iterable[str]:
    if not on:
        raise ModelError(f'{kind} is on a port: write "{kind} … on y"')
    for name in on:
        work.signal(name)
    return on


def _finite(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
        raise ModelError(f"{name} must be a finite number, not {value!r}")
    return float(value)


def gain(work: Wired, on: tuple[str, ...], k: float) -> None:
    """k times the signal."""
    factor = Number(_finite("k", k))
    for name in _each(work, on, "gain"):
        work.formula(name, lambda cell: apply(Op.MUL, factor, cell))


def offset(work: Wired, on: tuple[str, ...], by: float) -> None:
    """The signal and a number."""
    number = Number(_finite("by", by))
    for name in _each(work, on, "offset"):
        work.formula(name, lambda cell: apply(Op.ADD, cell, number))


def negate(work: Wired, on: tuple[str, ...]) -> None:
    """The signal with the other sign."""
    gain(work, on, -1.0)


def rotate(work: Wired, on: tuple[str, ...], angle: float) -> None:
    """Two ports, x and y of a vector, in a frame that is turned by `angle` in degrees; of two arrays, the
    first cells are a vector, the second ones, and so on."""
    from math import cos, radians, sin

    if len(on) != 2:
        raise ModelError(f"rotate is on two ports, x and y, not on {', '.join(on) or 'none'}")
    turn = radians(_finite("angle", angle))
    c, s = Number(cos(turn)), Number(sin(turn))
    x, y = (work.signal(name).name for name in on)
    if (x in work.inputs) != (y in work.inputs):
        raise ModelError("rotate is on two inputs or on two outputs")
    if x == y or work.port(x).size != work.port(y).size:
        raise ModelError(f"rotate is on two ports of one size, and '{x}' and '{y}' are not")

    for name in (x, y):
        work.measured(name)

    def turned(one: Expr, other: Expr) -> tuple[Expr, Expr]:
        return (
            apply(Op.ADD, apply(Op.MUL, c, one), apply(Op.MUL, s, other)),
            apply(Op.SUB, apply(Op.MUL, c, other), apply(Op.MUL, s, one)),
        )

    if x in work.inputs:
        changed: dict[str, Expr] = {}
        for one, other in zip(*(_called(name, work.inputs[name]) for name in (x, y)), strict=True):
            changed[one], changed[other] = turned(Name(one), Name(other))
        for end, cells in work.into.items():
            if not isinstance(cells, str):
                work.into[end] = tuple(substitute(cell, changed) for cell in cells)
        return
    (px, cx), (py, cy) = work.out[x], work.out[y]
    new = [turned(one, other) for one, other in zip(cx, cy, strict=True)]
    work.out[x], work.out[y] = (px, tuple(one for one, _ in new)), (py, tuple(other for _, other in new))


def unit(work: Wired, on: tuple[str, ...], unit: str) -> None:
    """What the numbers of a port are in: another unit of measure than its model says. Nothing is converted
    here; connections convert."""
    from upbeat.core import measure

    if not isinstance(unit, str):
        raise ModelError(f"a unit of measure is a text, not {unit!r}")
    measure.check(unit)
    for name in _each(work, on, "unit"):
        if name in work.inputs:
            old = work.inputs[name]
            work.inputs[name] = replace(old, unit=unit)
            inner = {n for n, m in work.units.items()}
            for end in [
                e for e, cells in work.into.items() if _reads(cells, name) and e.partition(".")[0] in inner
            ]:
                work.unconverted.add(end)
        else:
            port, cells = work.out[name]
            work.out[name] = (replace(port, unit=unit), cells)
            work.unconverted.add(name)


def _reads(cells: Any, name: str) -> bool:
    """Whether a connection reads an outer port, which may be an array."""
    if isinstance(cells, str):
        return cells == name
    return any(found.partition("[")[0] == name or found == name for cell in cells for found in names(cell))


def saturation(work: Wired, on: tuple[str, ...], low: float | None = None, high: float | None = None) -> None:
    """The signal between `low` and `high`."""
    blocks.saturation(low, high)  # says what is wrong
    for name in _each(work, on, "saturation"):
        if low is not None:
            work.formula(name, lambda cell: apply(Op.MAX, cell, Number(float(low))))
        if high is not None:
            work.formula(name, lambda cell: apply(Op.MIN, cell, Number(float(high))))


def dead_band(work: Wired, on: tuple[str, ...], low: float, high: float) -> None:
    """0 while the signal is between `low` and `high`; beyond, how far it is beyond."""
    blocks.dead_band(low, high)
    ends = Number(float(low)), Number(float(high))

    def beyond(cell: Expr) -> Expr:
        return apply(Op.SUB, cell, apply(Op.MIN, apply(Op.MAX, cell, ends[0]), ends[1]))

    for name in _each(work, on, "dead_band"):
        work.formula(name, beyond)


_SECONDS = {"derivative": -1, "integrator": 1}
"""Blocks whose output is in another unit of measure than their input: times so many seconds."""
_BEGIN_AS_THE_PORT = {
    "first_order", "second_order", "transfer_function", "derivative", "rate_limiter", "transport_delay",
    "pade_delay", "sample_hold", "quantizer",
}  # fmt: skip
"""Blocks that begin with what the port that they are on is at the start, as if it had been that before."""


def _of_block(kind: str, called: str | None = None) -> Callable[..., None]:
    """The adaptation that puts a block between."""
    make = blocks.BLOCKS[kind]
    signature = inspect.signature(make)

    def adapt(work: Wired, on: tuple[str, ...], **arguments: Any) -> None:
        def made(units: dict[str, str] | None, start: float, k: Any) -> Model:
            own = dict(arguments)
            if (
                kind in _BEGIN_AS_THE_PORT
                and start
                and "start" not in own
                and not (kind == "transfer_function" and not blocks.rests(own["den"]))
            ):
                k = own.get("k", 1.0) if k is None else k
                own["start"] = start * k if isinstance(k, (int, float)) else start
            return make(**own, units=units)

        for name in _each(work, on, called or kind):
            work.block(name, called or kind, made, _SECONDS.get(kind, 0))

    kept = [p for p in signature.parameters.values() if p.name != "units"]
    first = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in ("work", "on")]
    ordered = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in kept]
    adapt.__signature__ = signature.replace(parameters=[*first, *ordered], return_annotation=None)  # type: ignore[attr-defined]
    adapt.__doc__ = make.__doc__
    adapt.__name__ = called or kind
    return adapt


# ----------------------------------------------------------------------------------------------------
# Events and signals.


def _event(work: Wired, on: tuple[str, ...], kind: str) -> Iterable[Port]:
    if not on:
        raise ModelError(f'{kind} is on a port: write "{kind} … on y"')
    return [work.port(name) for name in on]


def _turned(port: Port) -> Port:
    """An event that was a signal, or the reverse: with nothing of what only the other can have."""
    return replace(
        port, event=not port.event, start=None, depends=frozenset(), derivative=None, reactive=None
    )


def hold(work: Wired, on: tuple[str, ...], start: Any = None) -> None:
    """An event output becomes a signal: what the last event said. A signal input becomes an event input."""
    for port in _event(work, on, "hold"):
        outward = port.name in work.out
        if outward is not port.event:
            what = "an event output or an input that is a signal"
            raise ModelError(f"hold is on {what}, and '{port.name}' is not")
        first = start if start is not None else plain(port, port.initial)
        made = LastValue(
            first, of=None if port.items else port.kind.value, items=port.items or None, unit=port.unit,
            size=port.size,
        )  # fmt: skip
        work.converter(port.name, "hold", made, "event", "value", _turned(port))


def sample(work: Wired, on: tuple[str, ...], every: float, offset: float = 0.0) -> None:
    """A signal output becomes an event that says its value at offset + k·every; an event input gets such
    events of a signal."""
    for port in _event(work, on, "sample"):
        outward = port.name in work.out
        if outward is port.event:
            what = "an output that is a signal, or an event input"
            raise ModelError(f"sample is on {what}, and '{port.name}' is not")
        made = Sampler(
            every, offset=offset, of=None if port.items else port.kind.value, items=port.items or None,
            unit=port.unit, size=port.size,
        )  # fmt: skip
        work.converter(port.name, "sample", made, "signal", "event", _turned(port))


def edge(work: Wired, on: tuple[str, ...], falling: bool = False) -> None:
    """A boolean output becomes an event when it becomes true (`falling`: false); an event input that only
    happens becomes a boolean signal."""
    for port in _event(work, on, "edge"):
        outward = port.name in work.out
        if port.kind is not Kind.BOOLEAN or outward is port.event:
            what = "a boolean output, or an event input that carries nothing"
            raise ModelError(f"edge is on {what}, and '{port.name}' is not")
        out = "fall" if falling else "rise"
        work.converter(port.name, "edge", Edge(), "signal", out, _turned(port))


def threshold(
    work: Wired, on: tuple[str, ...], level: float, hysteresis: float = 0.0, below: bool = False
) -> None:
    """A real output becomes an event when it goes above `level` (`below`: below it); an event input that only
    happens becomes a real signal."""
    for port in _event(work, on, "threshold"):
        outward = port.name in work.out
        if (port.kind is not Kind.REAL) is outward or outward is port.event or port.size is not None:
            what = "a real output, or an event input that carries nothing"
            raise ModelError(f"threshold is on {what}, and '{port.name}' is not")
        made = Threshold(level, hysteresis=hysteresis, unit=port.unit)
        new = Port(port.name, port.causality, Kind.BOOLEAN if outward else Kind.REAL, event=outward)
        work.converter(port.name, "threshold", made, "signal", "below" if below else "above", new)


# ----------------------------------------------------------------------------------------------------
# What inputs do between communication points.


def extrapolate(work: Wired, on: tuple[str, ...], order: int = 1) -> None:
    """An input goes on between communication points: 0, held; 1, along the straight line through its last two
    values; 2 to 4, along a polynomial through as many as that and one more."""
    if isinstance(order, bool) or not isinstance(order, int) or not 0 <= order <= 4:
        raise ModelError(f"order must be 0 (held), 1 (linear) or up to 4, not {order!r}")
    chosen = Hold() if order == 0 else Linear() if order == 1 else Polynomial(order)
    for name in _inputs(work, on, "extrapolate"):
        ends = [end for end, cells in work.into.items() if _reads(cells, name)]
        work.approximations |= dict.fromkeys(ends, chosen)


def interpolate(work: Wired, on: tuple[str, ...]) -> None:
    """An input expects the value at the end of the step: its sources go first, and it runs towards what
    they have reached (`GaussSeidel`, `Iterated`)."""
    for name in _inputs(work, on, "interpolate"):
        _with_reaction(work, name, True)


def delayed(work: Wired, on: tuple[str, ...]) -> None:
    """An input expects the value at the start of the step, in whatever order units go."""
    for name in _inputs(work, on, "delayed"):
        _with_reaction(work, name, False)


def _inputs(work: Wired, on: tuple[str, ...], kind: str) -> Iterable[str]:
    for name in _each(work, on, kind):
        if name not in work.inputs:
            raise ModelError(f"{kind} is on inputs, and '{name}' is an output")
    return on


def _with_reaction(work: Wired, name: str, reactive: bool) -> None:
    inner = work.units[INSIDE]
    if [end for end, cells in work.into.items() if _reads(cells, name)] != [f"{INSIDE}.{name}"]:
        raise ModelError(f"'{name}' has something between it and the unit; list this adaptation before that")
    if (reacting := getattr(inner, "reacting", None)) is not None:
        work.units[INSIDE] = reacting(name, reactive)
    else:
        raise ModelError(
            f"'{name}' belongs to a {type(inner).__name__}, which says itself when it takes its inputs. "
            "Choose a coupling that lets its sources go first (GaussSeidel), or not (Jacobi)"
        )


SIGNALS: dict[str, Callable[..., None]] = {
    "formula": formula,
    "gain": gain,
    "offset": offset,
    "negate": negate,
    "rotate": rotate,
    "unit": unit,
    "saturation": saturation,
    "dead_band": dead_band,
    **{
        kind: _of_block(kind)
        for kind in (
            "lookup", "first_order", "second_order", "transfer_function",
            "derivative", "rate_limiter", "transport_delay", "pade_delay", "sample_hold", "relay",
            "quantizer", "noise", "integrator",
        )
    },
    "low_pass": _of_block("first_order", "low_pass"),
    "hold": hold,
    "sample": sample,
    "edge": edge,
    "threshold": threshold,
    "extrapolate": extrapolate,
    "interpolate": interpolate,
    "delayed": delayed,
}  # fmt: skip
"""What stands between a unit and its ports."""
