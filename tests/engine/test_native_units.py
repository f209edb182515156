"""Units given by equations: the core against its Python twin, bit for bit, and against closed forms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upbeat.core.abilities import Model
from upbeat.core.ports import Causality, Kind
from upbeat.engine.interpret import Interpreter
from upbeat.engine.native import machine as native
from upbeat.master.program import Advance, Get, Layout, Program, Register, Set
from upbeat.units import RK4, DormandPrince, Euler, Function, Midpoint, Ode

pytestmark = pytest.mark.skipif(not native.available(), reason="the native engine is not built")

DEGREE = 2
SOLVERS = [
    Euler(),
    Euler(steps=7),
    Midpoint(steps=3),
    RK4(),
    RK4(step=0.03),
    DormandPrince(),
    DormandPrince(rtol=1e-10, atol=1e-12, first=1e-3, longest=0.05),
]


def program_for(model: Model) -> tuple[Program, dict[str, list[int]]]:
    """Set every input (reals by polynomials), advance, get every output."""
    registers = [Register("now", 0, Kind.REAL, 1, (0.0,)), Register("next", 1, Kind.REAL, 1, (0.0,))]
    places: dict[str, list[int]] = {}
    sets, gets = [], []

    def new(name: str, kind: Kind, size: int) -> int:
        first = registers[-1].first + registers[-1].size
        registers.append(Register(name, first, kind, size, (kind.zero,) * size))
        return first

    for port in model.ports:
        if port.causality is Causality.INPUT:
            rows = DEGREE + 1 if port.kind is Kind.REAL else 1
            places[port.name] = [new(f"{port.name}{k}", port.kind, port.cells) for k in range(rows)]
            sets.append(Set("m", port.name, tuple(places[port.name])))
        elif port.causality is Causality.OUTPUT:
            places[port.name] = [new(port.name, port.kind, port.cells)]
            gets.append(Get("m", port.name, places[port.name][0]))
    reached = new("reached", Kind.REAL, 1)
    block = (*sets, Advance("m", 0, 1, reached), *gets)
    made = Program(
        layout=Layout(tuple(registers)), start=tuple(gets), steps={"step": block}, exchange=(), instant=(),
        now=0, next=1, columns={},
    )  # fmt: skip
    return made, places


def drive(
    machine: Any, program: Program, times: Sequence[float], inputs: Mapping[int, Sequence[Any]]
) -> list[Any]:
    """All registers after the start and after each step, reals as exact text."""
    seen = []

    def note() -> None:
        values = [machine.read(i) for i in range(program.layout.cells)]
        seen.append([v.hex() if isinstance(v, float) else v for v in values])

    machine.execute("start")
    note()
    for k, (t, to) in enumerate(pairwise(times)):
        machine.write(0, t)
        machine.write(1, to)
        for cell, trajectory in inputs.items():
            machine.write(cell, trajectory[k])
        machine.execute("step")
        note()
    machine.close()
    return seen


def both(
    model: Model, times: Sequence[float], inputs: Mapping[int, Sequence[Any]], jit: bool = False
) -> list[Any]:
    program, _ = program_for(model)
    here = drive(Interpreter(program, {"m": model}, times[0]), program, times, inputs)
    there = drive(native.machine(program, {"m": model}, times[0], jit=jit), program, times, inputs)
    assert there == here
    return here


def pendulum(solver: Any) -> Ode:
    return Ode(
        states={"phi": "w", "w": "-g/l*sin(phi) - d*w + M*time"},
        start={"phi": 1.0},
        inputs={"M": 0.0, "brake": {"kind": "boolean"}},
        parameters={"g": 9.81, "l": 0.7, "d": 0.1},
        locals={"energy": "w**2/2 + g/l*(1 - cos(phi))"},
        outputs={
            "phi": "phi",
            "energy": "energy",
            "torque": "M - (1.5 if brake else 0.0)",
            "turns": {"value": "round(phi/(2*pi)*10)", "kind": "integer"},
            "fast": {"value": "w > 1", "kind": "boolean"},
        },
        solver=solver,
    )


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.floats(0.001, 0.3), min_size=1, max_size=5),
    st.lists(st.tuples(*[st.floats(-3, 3)] * 3, st.booleans()), min_size=5, max_size=5),
)
def test_the_core_integrates_like_its_python_twin(
    solver: Any, lengths: list[float], inputs: list[tuple[float, float, float, bool]]
) -> None:
    times = [1.0]
    for length in lengths:
        times.append(times[-1] + length)
    model = pendulum(solver)
    _, places = program_for(model)
    cells = [*places["M"], *places["brake"]]
    both(model, times, {cell: [row[i] for row in inputs] for i, cell in enumerate(cells)})


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_machine_code_gives_the_same_bits(solver: Any) -> None:
    pytest.importorskip("llvmlite")
    times = [0.1 * k for k in range(20)]
    both(pendulum(solver), times, {}, jit=True)


def test_an_oscillator_against_its_closed_form() -> None:
    model = Ode(
        states={"x": "v", "v": "-4*x"}, start={"x": 1.0}, solver=DormandPrince(rtol=1e-10, atol=1e-12)
    )
    program, places = program_for(model)
    machine = native.machine(program, {"m": model}, 0.0)
    machine.execute("start")
    for k in range(50):
        machine.write(0, 0.1 * k)
        machine.write(1, 0.1 * (k + 1))
        machine.execute("step")
        assert machine.read(places["x"][0]) == pytest.approx(math.cos(2 * 0.1 * (k + 1)), abs=1e-8)


def test_arrays_and_tables() -> None:
    model = Ode(
        states={"x": ["u[0] - x[0]", "u[1]*f(x[1])"]},
        inputs={"u": {"size": 2, "start": [1.0, 2.0]}},
        outputs={"x": "x", "both": ["x[0] + u[1]", "g(x[0], x[1])"]},
        tables={
            "f": {"x": [0.0, 1.0, 2.0], "y": [1.0, 0.5, -1.0]},
            "g": {"x": [0.0, 1.0], "y": [0.0, 1.0], "z": [[0.0, 1.0], [2.0, 5.0]]},
        },
    )
    _, places = program_for(model)
    first = places["u"][0]
    both(model, [0.0, 0.5, 1.0, 1.5], {first: [1.0, 2.0, 0.0], first + 1: [0.5, 0.5, -1.0]})


def test_functions_follow_their_inputs_in_time() -> None:
    model = Function(inputs=["u"], outputs={"y": "2*u + time", "n": {"value": "round(u)", "kind": "integer"}})
    _, places = program_for(model)
    u = places["u"]
    seen = both(model, [0.0, 0.5, 1.0], {u[0]: [1.0, 2.0], u[1]: [3.0, 0.0], u[2]: [4.0, 0.0]})
    assert float.fromhex(seen[1][places["y"][0]]) == 2 * (1 + 3 * 0.5 + 4 * 0.25) + 0.5
    assert seen[1][places["n"][0]] == 4  # 3.5, halves to even


@pytest.mark.parametrize(
    "model",
    [
        Ode(states={"x": "x**2"}, start={"x": 1.0}, solver=DormandPrince()),
        Ode(states={"x": "-x"}, start={"x": 1.0}, solver=DormandPrince(max_steps=3, longest=0.01)),
        Ode(states={"x": "1/(x - x)"}, solver=RK4()),
        Ode(states={"x": "1"}, solver=Euler(step=1e-12)),
        *(
            Function(outputs={"y": {"value": f"round({text})", "kind": "integer"}})
            for text in ("1/(time - time)", "-sqrt(0 - 1 - time)", "1e300", "-2**63*1.1", "2**63")
        ),
    ],
    ids=["blow-up", "too many steps", "not finite", "too many solver steps", *"12345"],
)
def test_failures_read_the_same(model: Model) -> None:
    program, _ = program_for(model)
    texts = []
    for machine in (Interpreter(program, {"m": model}, 0.0), native.machine(program, {"m": model}, 0.0)):
        with pytest.raises(native.UnitError) as caught:
            drive(machine, program, [0.0, 2.0], {})
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
