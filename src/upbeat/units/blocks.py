"""Blocks: common units of control engineering.

    units={"plant": plant, "control": up.blocks.pid(2.0, 1.0, low=-10, high=10)}
    connections={"control.measured": "plant.y", "plant.u": "control.y"}

In files each is a kind of its own, and the arguments are its keys: ``kind = "pid"``, ``kp = 2.0``. A block
has the input `u` and the output `y` unless it says otherwise. What runs is an `Ode`, a `Function` or a
`Discrete` unit like one that was typed by hand, so blocks run in the native core, are linearised, merged and
written to files.

A block with time constants has a solver whose steps are a quarter of the shortest of them, so that it is
right under any communication step; `solver` says otherwise. `units` gives ports units of measure:
``{"u": "m"}``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from upbeat.core import measure
from upbeat.core.errors import ModelError, suggest
from upbeat.core.expr import Name, Number
from upbeat.core.ports import Causality, Kind, Port
from upbeat.core.records import dataclass
from upbeat.units.discrete.converters import Converter, first_tick, formula
from upbeat.units.discrete.model import Assignments, Discrete, Mode, Variable
from upbeat.units.equations.data import TIME
from upbeat.units.equations.ode import Function, Ode
from upbeat.units.shorthand import Complaints, unwrapped
from upbeat.units.solving.solvers import Solver

Units = Mapping[str, str] | None
"""Units of measure, by port."""
AnySolver = Solver | str | Mapping[str, Any] | None
MAX_POINTS = 1000
"""Of a delay: each is a variable of its own."""
_PER_TIME_CONSTANT = 4
"""Steps of the solver: the classical Runge-Kutta method is then right to about 5e-5."""


# ----------------------------------------------------------------------------------------------------
# What they share.


class _Block:
    """The arguments of a block while it is made: each is checked, and all complaints are raised together."""

    def __init__(self, units: Units, ports: Sequence[str]) -> None:
        self.complaints = Complaints()
        self._units: dict[str, str] = {}
        given = {} if units is None else units
        if not isinstance(given, Mapping):
            self.complaints.add("units", f'units is a table of ports, {{"u": "m"}}, not {units!r}')
            given = {}
        for port, unit in given.items():
            if port not in ports:
                self.complaints.add(
                    "units", f"there is no port '{port}'. {suggest(str(port), ports, 'ports')}"
                )
            elif not isinstance(unit, str):
                self.complaints.add("units", f"the unit of '{port}' must be a text, not {unit!r}")
            else:
                with self.complaints.at("units"):
                    measure.check(unit)
                    self._units[port] = unit

    def number(self, name: str, value: Any) -> float:
        """A finite number."""
        value = unwrapped(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
            self.complaints.add(name, f"{name} must be a finite number, not {value!r}")
            return 1.0
        return float(value)

    def positive(self, name: str, value: Any) -> float:
        """A finite number above 0."""
        found = self.number(name, value)
        if not found > 0.0:
            self.complaints.add(name, f"{name} must be more than 0, not {value!r}")
            return 1.0
        return found

    def not_negative(self, name: str, value: Any) -> float:
        """A finite number, 0 or more."""
        found = self.number(name, value)
        if found < 0.0:
            self.complaints.add(name, f"{name} must be 0 or more, not {value!r}")
            return 1.0
        return found

    def whole(self, name: str, value: Any, maximum: int) -> int:
        """A whole number from 1 to `maximum`."""
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= maximum:
            self.complaints.add(name, f"{name} must be a whole number from 1 to {maximum}, not {value!r}")
            return 1
        return value

    def numbers(self, name: str, value: Any) -> list[float]:
        """A list of finite numbers, at least one."""
        value = unwrapped(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = [value]
        if not isinstance(value, (list, tuple)) or not value:
            self.complaints.add(name, f"{name} must be a list of numbers, not {value!r}")
            return [1.0]
        return [self.number(f"{name}[{i}]", item) for i, item in enumerate(value)]

    def matrix(
        self, name: str, value: Any, rows: int | None = None, columns: int | None = None
    ) -> list[list[float]]:
        """Rows of finite numbers; a single number is a matrix of one cell."""
        value = unwrapped(value)
        if isinstance(value, (int, float)):
            value = [[value]]
        if not isinstance(value, (list, tuple)) or not all(isinstance(row, (list, tuple)) for row in value):
            self.complaints.add(name, f"{name} must be a list of rows, [[1, 0], [0, 1]], not {value!r}")
            return [[0.0] * (columns or 1) for _ in range(rows or 1)]
        found = [
            [self.number(f"{name}[{i}][{j}]", cell) for j, cell in enumerate(row)]
            for i, row in enumerate(value)
        ]
        wide = len(found[0]) if found else 0
        if not wide or any(len(row) != wide for row in found):
            self.complaints.add(name, f"{name} must be a list of rows of one length, not {value!r}")
        elif rows not in (None, len(found)) or columns not in (None, wide):
            need = f"{'any number of' if rows is None else rows} × {'any' if columns is None else columns}"
            self.complaints.add(name, f"{name} is {len(found)} × {wide}, but must be {need}")
        else:
            return found
        return [[0.0] * (columns or 1) for _ in range(rows or 1)]

    def limits(self, low: Any, high: Any) -> dict[str, float]:
        """The limits that are given, as parameters."""
        found = {name: self.number(name, v) for name, v in (("low", low), ("high", high)) if v is not None}
        if len(found) == 2 and not found["low"] < found["high"]:
            self.complaints.add("low", f"low must be less than high, not {low!r} and {high!r}")
        return found

    def inputs(self, **starts: Any) -> dict[str, Any]:
        """Inputs with their start values and units."""
        return {name: {"start": start, **self._unit(name)} for name, start in starts.items()}

    def outputs(self, **values: Any) -> dict[str, Any]:
        """Outputs with their expressions and units."""
        return {name: {"value": value, **self._unit(name)} for name, value in values.items()}

    def _unit(self, port: str) -> dict[str, str]:
        return {"unit": self._units[port]} if port in self._units else {}

    def port(self, name: str, causality: Causality, kind: Kind = Kind.REAL, *, event: bool = False) -> Port:
        """A port of a discrete block."""
        return Port(name, causality, kind, unit=self._units.get(name), event=event)

    def done(self) -> None:
        """Raise what was wrong."""
        self.complaints.raise_if_any()


def _limited(expression: str, limits: Mapping[str, float]) -> str:
    """The expression between the limits that there are."""
    low, high = "low" in limits, "high" in limits
    if low and high:
        return f"clip({expression}, low, high)"
    return f"max({expression}, low)" if low else f"min({expression}, high)" if high else expression


def _solver(given: AnySolver, shortest: str | float) -> AnySolver:
    """The solver that was asked for, or one whose steps are short enough for the shortest time constant: an
    expression over parameters, so that it follows them, or a number if it follows from none."""
    if given is not None or shortest in ("", 0.0):
        return given
    step = f"{shortest}/{_PER_TIME_CONSTANT}" if isinstance(shortest, str) else shortest / _PER_TIME_CONSTANT
    return {"kind": "rk4", "step": step}


@dataclass(frozen=True, init=False)
class DiscreteBlock(Converter):
    """A block that changes at instants only. `kind` is its name, and the rest are its keys."""

    def __init__(self, kind: str, **given: Any) -> None:
        model = BLOCKS[kind](**given)
        assert isinstance(model, DiscreteBlock)
        super().__init__(model.discrete, {"kind": kind, **given})


def _discrete(kind: str, given: Mapping[str, Any], discrete: Discrete) -> DiscreteBlock:
    """The block, with what it was made from: its arguments."""
    made = object.__new__(DiscreteBlock)
    Converter.__init__(made, discrete, {"kind": kind, **given})
    return made


_IN, _OUT = Causality.INPUT, Causality.OUTPUT


def _parameters(values: Mapping[str, float]) -> tuple[Port, ...]:
    return tuple(Port(name, Causality.PARAMETER, start=(value,)) for name, value in values.items())


def _clocked(
    ports: Sequence[Port],
    parameters: Mapping[str, float],
    variables: Mapping[str, float],
    changes: Assignments,
    outputs: Mapping[str, str],
    *,
    every: str = "every",
    offset: str = "offset",
) -> Discrete:
    """A unit whose variables change at the times offset + k·every, but not before the start of the run."""
    reals = tuple(Variable(name, Kind.REAL, start) for name, start in variables.items())
    due = formula("offset + k*every", every=formula(every), offset=formula(offset))
    return Discrete(
        ports=(*ports, *_parameters(parameters)),
        variables=(Variable("k", Kind.INTEGER, 0), *reals),
        modes=(Mode(due=due, internal=(("k", formula("k + 1")), *changes)),),
        outputs=tuple((name, (formula(text),)) for name, text in outputs.items()),
        initial=(("k", first_tick(every, offset)),),
    )


# ----------------------------------------------------------------------------------------------------
# Without memory.


def gain(k: float = 1.0, *, units: Units = None) -> Function:
    """y = k·u."""
    block = _Block(units, ("u", "y"))
    parameters = {"k": block.number("k", k)}
    block.done()
    return Function(block.inputs(u=0.0), block.outputs(y="k*u"), parameters=parameters)


def sum(of: str | Sequence[float] | Mapping[str, float] = "++", *, units: Units = None) -> Function:
    """The sum of several inputs: ``"+-"`` is u1 - u2, ``[1, -0.5]`` is u1 - 0.5·u2, and ``{"a": 1, "b": -1}``
    names the inputs."""
    wrong = 'say which inputs there are: "+-", [1, -0.5] or {"a": 1, "b": -1}'
    weights: dict[str, Any] = {}
    if isinstance(of, str):
        if not of or set(of) - set("+-"):
            raise ModelError(f"{wrong}, not {of!r}", [("of", f"{wrong}, not {of!r}")])
        weights = {f"u{i}": 1.0 if sign == "+" else -1.0 for i, sign in enumerate(of, 1)}
    elif isinstance(of, Mapping):
        weights = {str(name): weight for name, weight in of.items()}
    elif isinstance(unwrapped(of), (list, tuple)):
        weights = {f"u{i}": weight for i, weight in enumerate(unwrapped(of), 1)}
    block = _Block(units, (*weights, "y"))
    if not weights:
        block.complaints.add("of", f"{wrong}, not {of!r}")
    if "y" in weights:
        block.complaints.add("of", "'y' is the output; call the input something else")
    parameters = {f"k_{name}": block.number(f"of.{name}", weight) for name, weight in weights.items()}
    block.done()
    total = " + ".join(f"k_{name}*{name}" for name in weights)
    inputs = block.inputs(**dict.fromkeys(weights, 0.0))
    return Function(inputs, block.outputs(y=total), parameters=parameters)


def saturation(low: float | None = None, high: float | None = None, *, units: Units = None) -> Function:
    """y = u, between `low` and `high`."""
    block = _Block(units, ("u", "y"))
    limits = block.limits(low, high)
    if not limits:
        block.complaints.add("low", "give low, high or both")
    block.done()
    return Function(block.inputs(u=0.0), block.outputs(y=_limited("u", limits)), parameters=limits)


def dead_band(low: float, high: float, *, units: Units = None) -> Function:
    """0 while u is between `low` and `high`; beyond, how far it is beyond."""
    block = _Block(units, ("u", "y"))
    limits = block.limits(low, high)
    block.done()
    return Function(block.inputs(u=0.0), block.outputs(y="u - clip(u, low, high)"), parameters=limits)


def lookup(
    x: Sequence[float],
    y: Sequence[float],
    z: Sequence[Sequence[float]] | None = None,
    *,
    mode: str = "linear",
    extrapolate: str = "constant",
    units: Units = None,
) -> Function:
    """A table of points. Of two variables: the inputs are `u` and `v`, and `z` has a row for each x with a
    value for each y."""
    two = z is not None
    block = _Block(units, ("u", "v", "y") if two else ("u", "y"))
    for name, word in (("mode", mode), ("extrapolate", extrapolate)):
        if not isinstance(word, str):
            block.complaints.add(name, f"{name} must be a text, not {word!r}")
    block.done()
    table = {"x": x, "y": y, "mode": mode, "extrapolate": extrapolate, **({"z": z} if two else {})}
    inputs = block.inputs(**({"u": 0.0, "v": 0.0} if two else {"u": 0.0}))
    return Function(inputs, block.outputs(y="points(u, v)" if two else "points(u)"), tables={"points": table})


# ----------------------------------------------------------------------------------------------------
# Linear, with states.


def integrator(
    k: float = 1.0,
    *,
    start: float = 0.0,
    low: float | None = None,
    high: float | None = None,
    units: Units = None,
    solver: AnySolver = None,
) -> Ode:
    """y' = k·u, from `start`. At a limit it stops, and it leaves the limit when k·u turns."""
    block = _Block(units, ("u", "y"))
    parameters = {"k": block.number("k", k)}
    limits = block.limits(low, high)
    first = block.number("start", start)
    if first < limits.get("low", first) or first > limits.get("high", first):
        block.complaints.add("start", f"start must be between the limits, not {start!r}")
    block.done()
    if not limits:
        return Ode(
            {"x": {"der": "k*u", "start": first}}, inputs=block.inputs(u=0.0), outputs=block.outputs(y="x"),
            parameters=parameters, solver=solver,
        )  # fmt: skip
    events: dict[str, Any] = {}
    if "high" in limits:
        events["full"] = {"when": "side == 0 and x >= high and k*u > 0", "then": {"side": "1", "x": "high"}}
        events["from_full"] = {"when": "side == 1 and k*u < 0", "then": {"side": "0"}}
    if "low" in limits:
        events["empty"] = {"when": "side == 0 and x <= low and k*u < 0", "then": {"side": "2", "x": "low"}}
        events["from_empty"] = {"when": "side == 2 and k*u > 0", "then": {"side": "0"}}
    return Ode(
        {"x": {"der": "k*u if side == 0 else 0", "start": first}}, inputs=block.inputs(u=0.0),
        outputs=block.outputs(y="x"), parameters={**parameters, **limits},
        variables={"side": {"start": 0, "kind": "integer"}}, events=events, solver=solver,
    )  # fmt: skip


def first_order(
    tau: float, k: float = 1.0, *, start: float = 0.0, units: Units = None, solver: AnySolver = None
) -> Ode:
    """tau·y' + y = k·u: a lag, or low-pass filter, of first order."""
    block = _Block(units, ("u", "y"))
    parameters = {"k": block.number("k", k), "tau": block.positive("tau", tau)}
    states = {"x": {"der": "(k*u - x)/tau", "start": block.number("start", start)}}
    block.done()
    return Ode(
        states, inputs=block.inputs(u=0.0), outputs=block.outputs(y="x"), parameters=parameters,
        solver=_solver(solver, "tau"),
    )  # fmt: skip


def second_order(
    frequency: float,
    damping: float,
    k: float = 1.0,
    *,
    start: float = 0.0,
    units: Units = None,
    solver: AnySolver = None,
) -> Ode:
    """y'' + 2·damping·w·y' + w²·y = k·w²·u, with w = `frequency` in rad/s. The output `dy` is the
    derivative of y."""
    block = _Block(units, ("u", "y", "dy"))
    parameters = {
        "k": block.number("k", k),
        "frequency": block.positive("frequency", frequency),
        "damping": block.not_negative("damping", damping),
    }
    first = block.number("start", start)
    block.done()
    outputs = block.outputs(y="x", dy="v")
    outputs["y"]["derivative"] = "dy"
    return Ode(
        {"x": {"der": "v", "start": first}, "v": "frequency**2*(k*u - x) - 2*damping*frequency*v"},
        inputs=block.inputs(u=0.0), outputs=outputs, parameters=parameters,
        solver=_solver(solver, "1/(frequency*max(1, 2*damping))"),
    )  # fmt: skip


def rests(den: object) -> bool:
    """Whether a transfer function with this denominator can be at rest with an input that is not 0."""
    return isinstance(den, (list, tuple)) and bool(den) and den[-1] != 0


def transfer_function(
    num: Sequence[float],
    den: Sequence[float],
    *,
    start: float = 0.0,
    units: Units = None,
    solver: AnySolver = None,
) -> Ode | Function:
    """y = num(s)/den(s)·u, coefficients from the highest power down, at rest with u = `start` at the start.

    It must be proper: the degree of `num` at most that of `den`.
    """
    block = _Block(units, ("u", "y"))
    first = block.number("start", start)
    if first and not rests(den):
        block.complaints.add("start", "it integrates, and so is at rest with u = 0 alone: leave out start")
    above, below = _stripped(block.numbers("num", num)), _stripped(block.numbers("den", den))
    if below == [0.0]:
        block.complaints.add("den", "the denominator is 0")
    elif len(above) > len(below):
        block.complaints.add(
            "num",
            f"the transfer function is improper: the numerator is of degree {len(above) - 1}, the "
            f"denominator of degree {len(below) - 1} only. Add poles that are fast enough to "
            "the denominator, such as those of a filter 1/(tau*s + 1); the block derivative has one",
        )
    block.done()
    order = len(below) - 1
    parameters: dict[str, Any] = {"num": above, "den": below}
    inputs = block.inputs(u=0.0)
    if order == 0:
        return Function(inputs, block.outputs(y="num[0]/den[0]*u"), parameters=parameters)
    # den(D) z = u and y = num(D) z, with x[i] the i-th derivative of z.
    known = [f"den[{order - i}]*x[{i}]" for i in range(order)]
    powers = [f"x[{i}]" for i in range(order)] + ["highest"]
    rest = [0.0] * (order - 1)
    terms = [f"num[{i}]*{powers[len(above) - 1 - i]}" for i in range(len(above))]
    return Ode(
        {"x": {"der": [*powers[1:order], "highest"], "start": [first / below[-1] if first else 0.0, *rest]}},
        inputs=inputs, outputs=block.outputs(y=" + ".join(terms)), parameters=parameters,
        locals={"highest": f"(u - ({' + '.join(known)}))/den[0]"},
        solver=_solver(solver, _shortest(below)),
    )  # fmt: skip


def _stripped(coefficients: list[float]) -> list[float]:
    """Without zeros in front, which are no part of a polynomial."""
    first = next((i for i, c in enumerate(coefficients) if c != 0.0), len(coefficients) - 1)
    return coefficients[first:]


def _shortest(den: list[float]) -> str:
    """One over the largest root of a polynomial, by its size, over its coefficients.

    From the third degree on that is exact for these coefficients, and a lower bound (Knuth's) for others.
    """
    import numpy as np

    order = len(den) - 1
    if order == 1:
        return "1/abs(den[1]/den[0])"
    if order == 2:
        square = "((den[1]/den[0])**2 - 4*den[2]/den[0])"
        pair = f"(abs(den[1]/den[0]) + sqrt(max({square}, 0)))/2"
        return f"1/({pair} if {square} >= 0 else sqrt(max(den[2]/den[0], 0)))"
    bound = "0"
    for i in range(1, order + 1):
        bound = f"max({bound}, abs(den[{i}]/den[0])**(1/{i}))"
    same = " and ".join(f"den[{i}] == {value!r}" for i, value in enumerate(den))
    return f"1/({float(max(map(abs, np.roots(den)), default=0.0))!r} if {same} else 2*{bound})"


def state_space(
    A: Sequence[Sequence[float]],
    B: Sequence[Sequence[float]],
    C: Sequence[Sequence[float]],
    D: Sequence[Sequence[float]] | None = None,
    *,
    start: Sequence[float] | None = None,
    units: Units = None,
    solver: AnySolver = None,
) -> Ode:
    """x' = A·x + B·u, y = C·x + D·u. With several inputs or outputs `u` and `y` are arrays."""
    import numpy as np

    block = _Block(units, ("u", "y"))
    a = block.matrix("A", A)
    n = len(a)
    if len(a[0]) != n:
        block.complaints.add("A", f"A is {n} × {len(a[0])}, but must be square")
    b, c = block.matrix("B", B, rows=n), block.matrix("C", C, columns=n)
    wide, high = len(b[0]), len(c)
    d = [[0.0] * wide for _ in range(high)] if D is None else block.matrix("D", D, high, wide)
    first = [0.0] * n if start is None else block.numbers("start", start)
    if len(first) != n:
        block.complaints.add("start", f"start has {len(first)} numbers for {n} states")
    block.done()
    x = [f"x[{i}]" for i in range(n)]
    u = ["u"] if wide == 1 else [f"u[{i}]" for i in range(wide)]
    rates = [_dot([*a[i], *b[i]], [*x, *u]) for i in range(n)]
    values = [_dot([*c[i], *d[i]], [*x, *u]) for i in range(high)]
    largest = max(map(abs, np.linalg.eigvals(np.array(a))))
    return Ode(
        {"x": {"der": rates, "start": first}}, inputs=block.inputs(u=0.0 if wide == 1 else [0.0] * wide),
        outputs=block.outputs(y=values[0] if high == 1 else values),
        solver=_solver(solver, 1.0 / float(largest) if largest > 0.0 else 0.0),
    )  # fmt: skip


def _dot(weights: Sequence[float], names: Sequence[str]) -> str:
    """A weighted sum; what has the weight 0 is no part of it, and so no direct feedthrough either."""
    return " + ".join(f"({w!r})*{name}" for w, name in zip(weights, names, strict=True) if w != 0.0) or "0.0"


def derivative(tau: float, *, start: float = 0.0, units: Units = None, solver: AnySolver = None) -> Ode:
    """The derivative of u, filtered: y = s/(tau·s + 1)·u. `start` is the value of u at the start."""
    block = _Block(units, ("u", "y"))
    parameters = {"tau": block.positive("tau", tau)}
    states = {"x": {"der": "(u - x)/tau", "start": block.number("start", start)}}
    block.done()
    return Ode(
        states, inputs=block.inputs(u=start), outputs=block.outputs(y="(u - x)/tau"), parameters=parameters,
        solver=_solver(solver, "tau"),
    )  # fmt: skip


def rate_limiter(
    rise: float,
    fall: float | None = None,
    *,
    tau: float | None = None,
    every: float | None = None,
    offset: float = 0.0,
    start: float = 0.0,
    units: Units = None,
    solver: AnySolver = None,
) -> Ode | DiscreteBlock:
    """y follows u, but rises by at most `rise` per second and falls by at most `fall` (if not given, as
    `rise`).

    Give `tau`, the time constant with which it follows where it is not limited, or `every` for one that is
    sampled.
    """
    block = _Block(units, ("u", "y"))
    parameters = {"rise": block.positive("rise", rise)}
    parameters["fall"] = parameters["rise"] if fall is None else block.positive("fall", fall)
    first = block.number("start", start)
    if (tau is None) == (every is None):
        block.complaints.add(
            "tau", "give tau (a lag where it is not limited) or every (sampled), and not both"
        )
    if every is not None:
        parameters |= {"every": block.positive("every", every), "offset": block.number("offset", offset)}
        block.done()
        step = formula("y + clip(u - y, -fall*every, rise*every)", y=Name("held"))
        given = {**parameters, "start": start, "units": units}
        ports = (block.port("u", _IN), block.port("y", _OUT))
        found = _clocked(ports, parameters, {"held": first}, (("held", step),), {"y": "held"})
        return _discrete("rate_limiter", given, found)
    parameters["tau"] = block.positive("tau", tau) if tau is not None else 1.0
    block.done()
    return Ode(
        {"x": {"der": "clip((u - x)/tau, -fall, rise)", "start": first}}, inputs=block.inputs(u=0.0),
        outputs=block.outputs(y="x"), parameters=parameters, solver=_solver(solver, "tau"),
    )  # fmt: skip


# ----------------------------------------------------------------------------------------------------
# Controllers.


def pid(
    kp: float,
    ki: float = 0.0,
    kd: float = 0.0,
    *,
    filter: float | None = None,
    low: float | None = None,
    high: float | None = None,
    tracking: float | None = None,
    b: float = 1.0,
    c: float = 0.0,
    start: float = 0.0,
    every: float | None = None,
    offset: float = 0.0,
    units: Units = None,
    solver: AnySolver = None,
) -> Ode | DiscreteBlock:
    """A controller of the inputs `setpoint` and `measured`: y = kp·(b·setpoint - measured) + I + D.

    I' = ki·(setpoint - measured), from `start`. D is kd times the derivative of c·setpoint - measured, with a
    `filter` of that time constant; it takes what it is the derivative of to have been 0 before the start,
    unless the state `seen` has another start value (``with_values({"seen": -20})``). `low` and `high`
    limit y; then I also follows the limited output with the time constant `tracking` (kp/ki if not given), so
    that it does not wind up. With `every` it is sampled: inputs are read, and y changes, at
    offset + k·every only.
    """
    block = _Block(units, ("setpoint", "measured", "y"))
    parameters = {
        name: block.number(name, v) for name, v in (("kp", kp), ("ki", ki), ("kd", kd), ("b", b), ("c", c))
    }
    limits = block.limits(low, high)
    first = block.number("start", start)
    derives, integrates = parameters["kd"] != 0.0, parameters["ki"] != 0.0
    if filter is not None:
        parameters["filter"] = block.positive("filter", filter)
    elif derives and every is None:
        block.complaints.add(
            "filter", "a derivative needs a filter: give its time constant, such as filter = 0.01"
        )
    if tracking is not None:
        parameters["tracking"] = block.positive("tracking", tracking)
    elif limits and integrates:
        ratio = parameters["kp"] / parameters["ki"]
        parameters["tracking"] = ratio if ratio > 0.0 else 1.0 / abs(parameters["ki"])
    winds = bool(limits) and integrates
    names = ["kp", "b", *(["ki"] if integrates else [])]
    names += ["kd", "c", *(["filter"] if "filter" in parameters else [])] if derives else []
    used = {name: parameters[name] for name in [*names, *(["tracking"] if winds else [])]} | limits
    if every is not None:
        used |= {"every": block.positive("every", every), "offset": block.number("offset", offset)}
        block.done()
        return _sampled_pid(block, used, first, start, units)
    block.done()
    free = "kp*(b*setpoint - measured)" + (" + integral" if integrates else "")
    if derives:
        free += " + kd*(c*setpoint - measured - seen)/filter"
    inputs, outputs = block.inputs(setpoint=0.0, measured=0.0), block.outputs(y="output")
    expressions = {"free": free, "output": _limited("free", limits)}
    states: dict[str, Any] = {}
    if integrates:
        back = " + (output - free)/tracking" if winds else ""
        states["integral"] = {"der": f"ki*(setpoint - measured){back}", "start": first}
    if derives:
        states["seen"] = {"der": "(c*setpoint - measured - seen)/filter"}
    if not states:  # a proportional controller; a state that stays keeps it what the others are
        states["integral"] = {"der": "0", "start": first}
        expressions["free"] += " + integral"
    times = [name for name in ("filter", "tracking") if name in used]
    quick = _solver(solver, f"min({', '.join(times)})" if len(times) == 2 else "".join(times))
    return Ode(states, inputs=inputs, outputs=outputs, parameters=used, locals=expressions, solver=quick)


def _sampled_pid(
    block: _Block, used: dict[str, float], first: float, start: float, units: Units
) -> DiscreteBlock:
    """Backward differences for the derivative, forward Euler for the integral: what is in every textbook."""
    slope = "slope*filter/(filter + every) + kd*(now - seen)/(filter + every)"
    if "filter" not in used:
        slope = "kd*(now - seen)/every"
    now = formula("c*setpoint - measured") if "kd" in used else Number(0.0)
    new_slope = formula(f"({slope}) if started else 0", now=now) if "kd" in used else Number(0.0)
    free = formula("kp*(b*setpoint - measured) + integral + slope", slope=new_slope)
    limits = {name: value for name, value in used.items() if name in ("low", "high")}
    output = formula(_limited("free", limits), free=free)
    grown = formula("integral + every*ki*(setpoint - measured)") if "ki" in used else Name("integral")
    if "tracking" in used:
        pulled = formula("every*(output - free)/tracking", output=output, free=free)
        grown = formula("grown + pulled", grown=grown, pulled=pulled)
    variables = {"integral": first, "held": 0.0}
    changes: Assignments = (("held", output), ("integral", grown))
    if "kd" in used:
        variables |= {"slope": 0.0, "seen": 0.0, "started": 0.0}
        changes = (*changes, ("slope", new_slope), ("seen", now), ("started", Number(1.0)))
    ports = (block.port("setpoint", _IN), block.port("measured", _IN), block.port("y", _OUT))
    found = _clocked(ports, used, variables, changes, {"y": "held"})
    return _discrete("pid", {**used, "start": start, "units": units}, found)


def pi(
    kp: float,
    ki: float,
    *,
    low: float | None = None,
    high: float | None = None,
    tracking: float | None = None,
    b: float = 1.0,
    start: float = 0.0,
    every: float | None = None,
    offset: float = 0.0,
    units: Units = None,
    solver: AnySolver = None,
) -> Ode | DiscreteBlock:
    """A `pid` without the derivative: y = kp·(b·setpoint - measured) + I, limited and kept from winding
    up."""
    return pid(
        kp, ki, low=low, high=high, tracking=tracking, b=b, start=start, every=every, offset=offset,
        units=units, solver=solver,
    )  # fmt: skip


# ----------------------------------------------------------------------------------------------------
# Delays, switches and clocks.


def transport_delay(
    delay: float, *, points: int = 20, hold: bool = False, start: float = 0.0, units: Units = None
) -> DiscreteBlock:
    """y(t) = u(t - delay), and `start` before that.

    u is sampled `points` times in the delay, and y runs along straight lines between the samples (with `hold`
    it keeps each of them). Every sample is a communication point: choose `points` so that delay/points is the
    communication step, or a multiple of it; stability verdicts then follow the line of samples.
    """
    block = _Block(units, ("u", "y"))
    length = block.positive("delay", delay)
    n = block.whole("points", points, MAX_POINTS)
    first = block.number("start", start)
    if not isinstance(hold, bool):
        block.complaints.add("hold", f"hold must be true or false, not {hold!r}")
    block.done()
    cells = [f"h{i}" for i in range(n + 1)]
    changes: Assignments = (("h0", Name("u")), *((new, Name(old)) for old, new in pairwise(cells)))
    variables = dict.fromkeys(cells, first)
    if not hold:  # a time that is remembered, not computed from k: so verdicts see that only its age counts
        changes, variables = (*changes, ("since", Name(TIME))), {**variables, "since": 0.0}
    along = f"clip((time - since)/(delay/{n}), 0, 1)"
    shown = f"h{n}" if hold else f"h{n} + (h{n - 1} - h{n})*{along}"
    ports = (block.port("u", _IN), block.port("y", _OUT))
    found = _clocked(
        ports, {"delay": length}, variables, changes, {"y": shown},
        every=f"delay/{n}", offset="0",
    )  # fmt: skip
    given = {"delay": length, "points": points, "hold": hold or None, "start": start, "units": units}
    return _discrete("transport_delay", given, found)


def pade_delay(
    delay: float, order: int = 2, *, start: float = 0.0, units: Units = None, solver: AnySolver = None
) -> Ode | Function:
    """A delay as a transfer function (the Padé approximation of e^(-delay·s)): good for slow signals,
    smooth, and without communication points of its own."""
    block = _Block(units, ("u", "y"))
    length, n = block.positive("delay", delay), block.whole("order", order, 10)
    block.done()
    weights = [
        math.factorial(2 * n - j)
        * math.factorial(n)
        / math.factorial(2 * n)
        / math.factorial(j)
        / math.factorial(n - j)
        for j in range(n, -1, -1)
    ]
    below = [w * length ** (n - i) for i, w in enumerate(weights)]
    above = [w * (-1.0) ** (n - i) for i, w in enumerate(below)]
    return transfer_function(above, below, start=start, units=units, solver=solver)


def sample_hold(
    every: float | None = None, *, offset: float = 0.0, start: float = 0.0, units: Units = None
) -> DiscreteBlock:
    """y is what u was at the last time offset + k·every, or at the last event `clock` if `every` is not
    given."""
    block = _Block(units, ("u", "y"))
    first = block.number("start", start)
    ports = (block.port("u", _IN), block.port("y", _OUT))
    take: Assignments = (("held", Name("u")),)
    if every is None:
        block.done()
        found = Discrete(
            ports=(*ports, block.port("clock", _IN, Kind.BOOLEAN, event=True)),
            variables=(Variable("held", Kind.REAL, first),),
            modes=(Mode(due=formula("inf"), external=take),),
            outputs=(("y", (Name("held"),)),),
        )
        return _discrete("sample_hold", {"start": start, "units": units}, found)
    parameters = {"every": block.positive("every", every), "offset": block.number("offset", offset)}
    block.done()
    found = _clocked(ports, parameters, {"held": first}, take, {"y": "held"})
    return _discrete("sample_hold", {**parameters, "start": start, "units": units}, found)


def relay(
    above: float,
    below: float,
    *,
    high: float = 1.0,
    low: float = 0.0,
    start: bool = False,
    units: Units = None,
) -> DiscreteBlock:
    """y becomes `high` once u is above `above`, and `low` once it is below `below`. `start` says which it
    is at the start if u is between the two."""
    block = _Block(units, ("u", "y"))
    parameters = {
        name: block.number(name, v)
        for name, v in (("above", above), ("below", below), ("high", high), ("low", low))
    }
    if parameters["below"] > parameters["above"]:
        block.complaints.add("below", f"below must not be more than above, not {below!r} and {above!r}")
    if not isinstance(start, bool):
        block.complaints.add("start", f"start must be true or false, not {start!r}")
    block.done()
    up = formula("u >= below" if start else "u > above")

    def waiting(condition: str, to: int) -> Mode:
        return Mode(formula(f"time if {condition} else inf"), internal=(("side", Number(to)),))

    found = Discrete(
        ports=(block.port("u", _IN), block.port("y", _OUT), *_parameters(parameters)),
        variables=(Variable("side", Kind.INTEGER, 0, ("unknown", "off", "on")),),
        mode="side",
        modes=(
            Mode(due=Name("time"), internal=(("side", formula("2 if up else 1", up=up)),)),
            waiting("u > above", 2),
            waiting("u < below", 1),
        ),
        outputs=(("y", (formula("high if side == 2 else low"),)),),
    )
    return _discrete("relay", {**parameters, "start": start or None, "units": units}, found)


def quantizer(
    step: float, *, hysteresis: float = 0.0, start: float = 0.0, units: Units = None
) -> DiscreteBlock:
    """y is the multiple of `step` that is nearest to u. It changes when u is `hysteresis` (a part of
    `step`, 0 or more) beyond the middle between two multiples."""
    block = _Block(units, ("u", "y"))
    parameters = {
        "step": block.positive("step", step), "hysteresis": block.not_negative("hysteresis", hysteresis)
    }  # fmt: skip
    first = block.number("start", start)
    block.done()
    beyond = "u/step > n + 0.5 + hysteresis or u/step < n - 0.5 - hysteresis"
    found = Discrete(
        ports=(block.port("u", _IN), block.port("y", _OUT), *_parameters(parameters)),
        variables=(Variable("n", Kind.REAL, float(round(first / parameters["step"]))),),
        modes=(Mode(formula(f"time if {beyond} else inf"), internal=(("n", formula("round(u/step)")),)),),
        outputs=(("y", (formula("n*step"),)),),
    )
    return _discrete("quantizer", {**parameters, "start": start, "units": units}, found)


_PRIME, _FACTOR = 2147483647, 48271
"""The generator of Park and Miller: its numbers are exact in double precision, so that both engines draw
the same."""


def noise(
    amplitude: float, every: float, *, offset: float = 0.0, seed: int = 1, units: Units = None
) -> DiscreteBlock:
    """y = u + noise: normally distributed with the standard deviation `amplitude`, drawn again at offset +
    k·every. The same `seed` gives the same noise."""
    from random import Random

    block = _Block(units, ("u", "y"))
    parameters = {
        "amplitude": block.not_negative("amplitude", amplitude),
        "every": block.positive("every", every),
        "offset": block.number("offset", offset),
    }
    if isinstance(seed, bool) or not isinstance(seed, int):
        block.complaints.add("seed", f"seed must be a whole number, not {seed!r}")
        seed = 1
    block.done()
    following = formula(f"mod({_FACTOR}*seed, {_PRIME})")
    second = formula(f"mod({_FACTOR}*following, {_PRIME})", following=following)
    drawn = formula(f"sqrt(-2*log(one/{_PRIME}))*cos(2*pi*other/{_PRIME})", one=following, other=second)
    found = _clocked(
        (block.port("u", _IN), block.port("y", _OUT)), parameters,
        {"seed": float(Random(seed).randrange(1, _PRIME)), "drawn": 0.0},
        (("seed", second), ("drawn", drawn)), {"y": "u + amplitude*drawn"},
    )  # fmt: skip
    return _discrete("noise", {**parameters, "seed": seed, "units": units}, found)


BLOCKS: dict[str, Callable[..., Ode | Function | DiscreteBlock]] = {
    made.__name__: made
    for made in (
        gain, sum, saturation, dead_band, lookup, integrator, first_order, second_order, transfer_function,
        state_space, derivative, rate_limiter, pi, pid, transport_delay, pade_delay, sample_hold, relay,
        quantizer, noise,
    )
}  # fmt: skip
"""The blocks by the names that files call them: `kind`."""
