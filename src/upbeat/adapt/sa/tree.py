"""What a `.sa` file says, as frozen data: files, adaptations, rules, statements and expressions.

Every node knows its place in the text (`at`), which does not count when two are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, TypeVar

Self = TypeVar("Self")


class Place(NamedTuple):
    """Line and column, both counted from one."""

    line: int = 0
    column: int = 0


NOWHERE = Place()


@dataclass(frozen=True, slots=True)
class Placed:
    """Something that stands in the text."""

    at: Place = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


# ------------------------------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class Literal(Placed):
    """A number, a truth value, a text, or None for ``null``."""

    value: float | bool | str | None


@dataclass(frozen=True, slots=True)
class Ref(Placed):
    """A variable, parameter or port: ``x``, ``window.height``, ``speed[prev]``."""

    name: str
    owner: str = ""
    index: int = 0
    """How many steps ago: 0 is now, -1 is ``prev``."""

    @property
    def text(self) -> str:
        return f"{self.owner}.{self.name}" if self.owner else self.name


@dataclass(frozen=True, slots=True)
class Unary(Placed):
    """``-x`` or ``not x``."""

    op: str
    arg: Expr


@dataclass(frozen=True, slots=True)
class Binary(Placed):
    """Two operands: ``or and < <= > >= == != >! <! + - * /``."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Call(Placed):
    """A built-in function: ``do_step(window, t, H)``."""

    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Otherwise(Placed):
    """The condition that holds where those of the rules before it do not."""


Expr = Literal | Ref | Unary | Binary | Call | Otherwise

# -------------------------------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True)
class Declared(Placed):
    """A parameter or a variable, with its initial value; ``Real`` and so on is its type, if one is said."""

    name: str
    value: Expr | None = None
    type: str = ""


@dataclass(frozen=True, slots=True)
class Var(Placed):
    """Local variables of a block."""

    declared: tuple[Declared, ...]


@dataclass(frozen=True, slots=True)
class Assign(Placed):
    """``target := value;``"""

    target: Ref
    value: Expr


@dataclass(frozen=True, slots=True)
class If(Placed):
    """``if (condition) { … } else { … }``"""

    condition: Expr
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True)
class For(Placed):
    """``for (var i in first .. last) { … }``: i is first, first + 1, … and always less than last."""

    variable: str
    first: Expr
    last: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Return(Placed):
    """``return value;``: how far the step went."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Break(Placed):
    """Leaves the loop around it."""


@dataclass(frozen=True, slots=True)
class Do(Placed):
    """A call whose value is not needed."""

    call: Call


Statement = Var | Assign | If | For | Return | Break | Do

# ------------------------------------------------------------------------------------------- rules


@dataclass(frozen=True, slots=True)
class Tolerance(Placed):
    """``absolute tolerance = 1e-8``"""

    kind: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Crossing(Placed):
    """``with crossing absolute tolerance = …``: how closely ``>!`` and ``<!`` are located."""

    tolerances: tuple[Tolerance, ...] = ()


@dataclass(frozen=True, slots=True)
class Hold(Placed):
    """What an output does between two executions: order -1 nothing, 0 stays, 1 goes on linearly."""

    order: int


@dataclass(frozen=True, slots=True)
class Rule(Placed):
    """``condition -> { first } --> { second };`` of a block of in rules or out rules.

    In and MapIn are the two parts of an input rule, MapOut and Out those of an output rule.
    """

    condition: Expr
    first: tuple[Statement, ...] = ()
    second: tuple[Statement, ...] = ()
    hold: Hold | None = None


@dataclass(frozen=True, slots=True)
class Quantize(Placed):
    """``quantize speed every 0.5 with offset 0.1``, or ``quantize(speed, "low", 3, "high")``."""

    signal: Ref
    every: Expr | None = None
    offset: Expr | None = None
    zones: tuple[str, ...] = ()
    bounds: tuple[Expr, ...] = ()
    formula: Expr | None = None


@dataclass(frozen=True, slots=True)
class Substitution(Placed):
    """``successive substitution starts at … with absolute tolerance = … and relative tolerance = …``"""

    signals: tuple[Ref, ...]
    tolerances: tuple[Tolerance, ...] = ()


@dataclass(frozen=True, slots=True)
class Delay(Placed):
    """``delay at …``: the value of one step ago."""

    signals: tuple[Ref, ...]


@dataclass(frozen=True, slots=True)
class MultiRate(Placed):
    """``multiply rate 10 times with first order interpolation``"""

    times: int
    order: int = 1


@dataclass(frozen=True, slots=True)
class Triggered(Placed):
    """``triggered by condition``: executed only when it holds."""

    condition: Expr


@dataclass(frozen=True, slots=True)
class Periodic(Placed):
    """``periodic at 0.5 every 0.1``: executed at these times only."""

    every: Expr
    first: Expr | None = None


General = Substitution | Delay | MultiRate | Triggered | Periodic
"""What a declarative description says of the adaptation as a whole; each is a layer of its own."""


@dataclass(frozen=True, slots=True)
class Rules(Placed):
    """The in rules or the out rules."""

    rules: tuple[Rule | Quantize | Delay | Substitution, ...] = ()
    settings: tuple[Crossing | Hold, ...] = ()


# ------------------------------------------------------------------------------------------- units


@dataclass(frozen=True, slots=True)
class Port(Placed):
    """A port: its unit of measure, what it is bound to, and `alias`, what the FMU calls it."""

    name: str
    unit: str = ""
    type: str = ""
    initial: Expr | None = None
    alias: str = ""
    bound: Ref | None = None
    """``ip -> fmu.ip`` of an input, ``op <- fmu.op`` of an output."""


@dataclass(frozen=True, slots=True)
class Inner(Placed):
    """A unit inside: its type, its name, and where it is. Ports may be left out if they can be looked up."""

    type: str
    name: str
    path: str = ""
    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()
    reactive: bool | None = None
    mealy: bool | None = None
    parts: tuple[str, ...] = ()
    """The names of the units that it is composed of."""

    def port(self, name: str) -> Port | None:
        return next((port for port in (*self.inputs, *self.outputs) if port.name == name), None)


@dataclass(frozen=True, slots=True)
class Wire(Placed):
    """A connection inside: ``window.height -> obstacle.disp``."""

    source: Ref
    target: Ref


@dataclass(frozen=True, slots=True)
class Adapted(Placed):
    """One semantic adaptation. What is None was left out and follows from the conventions of 7.5.3.1."""

    type: str
    name: str
    path: str = ""
    reactive: bool | None = None
    mealy: bool | None = None
    inner: tuple[Inner, ...] = ()
    wires: tuple[Wire, ...] = ()
    inputs: tuple[Port, ...] | None = None
    outputs: tuple[Port, ...] | None = None
    params: tuple[Declared, ...] = ()
    general: tuple[General, ...] = ()
    control_vars: tuple[Declared, ...] = ()
    control: tuple[Statement, ...] | None = None
    in_vars: tuple[Declared, ...] = ()
    in_rules: Rules | None = None
    out_vars: tuple[Declared, ...] = ()
    out_rules: Rules | None = None
    source: str = field(default="", compare=False, repr=False)
    """The file that it stands in."""

    def unit(self, name: str) -> Inner | None:
        return next((unit for unit in self.inner if unit.name == name), None)


@dataclass(frozen=True, slots=True)
class File:
    """All that stands in one file."""

    module: str = ""
    imports: tuple[Ref, ...] = ()
    fmus: tuple[Inner, ...] = ()
    wires: tuple[Wire, ...] = ()
    adaptations: tuple[Adapted, ...] = ()
    source: str = field(default="", compare=False)


# --------------------------------------------------------------------------------------- traversals


def expressions(node: Any) -> Iterator[Expr]:
    """Every expression in a statement, a rule or an expression, arguments before what uses them."""
    if isinstance(node, tuple):
        for part in node:
            yield from expressions(part)
    elif isinstance(node, _NODES):
        for part in fields(node):
            if part.name != "at":
                yield from expressions(getattr(node, part.name))
        if isinstance(node, Expr):
            yield node


def statements(node: Any) -> Iterator[Statement]:
    """Every statement, in the order of the text; those inside others behind them."""
    for statement in node:
        yield statement
        if isinstance(statement, If):
            yield from statements(statement.then)
            yield from statements(statement.otherwise)
        elif isinstance(statement, For):
            yield from statements(statement.body)


def mapped(node: Self, change: Any) -> Self:
    """The same with every expression `e` in it replaced by `change(e)`, from the leaves up.

    Targets of assignments are references, and are replaced as well; their new form has to be one.
    """
    if isinstance(node, tuple):
        return tuple(mapped(part, change) for part in node)  # type: ignore[return-value]
    if not isinstance(node, _NODES):
        return node
    new = {
        part.name: mapped(getattr(node, part.name), change)
        for part in fields(node)
        if part.name != "at" and isinstance(getattr(node, part.name), (tuple, *_NODES))
    }
    made = replace(node, **new) if any(new[k] is not getattr(node, k) for k in new) else node
    return change(made) if isinstance(made, Expr) else made


_NODES = (
    *(Literal, Ref, Unary, Binary, Call, Otherwise, Declared, Var, Assign, If, For, Return, Break, Do),
    *(Tolerance, Crossing, Hold, Rule, Quantize, Substitution, Delay, MultiRate, Triggered, Periodic, Rules),
)
