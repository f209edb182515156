"""Discrete units: the core against its Python twin, call by call and bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discrete_models import MOTION, model_of, systems
from upbeat.core.errors import UnitError
from upbeat.core.expr import Name, Number, parse
from upbeat.core.ports import Causality, Kind, Port, Signal
from upbeat.engine.native import machine as native
from upbeat.master.program import Advance, Due, Get, Instruction, Jump, Layout, Program, Register, Set
from upbeat.units.discrete import Discrete, Emission, Mode, Variable

pytestmark = pytest.mark.skipif(not native.available(), reason="the native engine is not built")

DEGREE = 2


class Core:
    """A unit of the core with the calls of a Python unit: a block of a program for each call."""

    def __init__(self, model: Discrete, start: float, jit: bool = False) -> None:
        registers = [Register("now", 0, Kind.REAL, 1, (0.0,)), Register("next", 1, Kind.REAL, 1, (0.0,))]

        def new(name: str, kind: Kind, size: int) -> int:
            first = registers[-1].first + registers[-1].size
            registers.append(Register(name, first, kind, size, (kind.zero,) * size))
            return first

        self.time = start
        self.ports = {port.name: port for port in model.ports}
        self.at: dict[str, list[int]] = {}
        steps: dict[str, tuple[Instruction, ...]] = {}
        for port in model.ports:
            if port.causality is Causality.INPUT:
                rows = DEGREE + 1 if port.kind is Kind.REAL and not port.event else 1
                places = [new(f"{port.name}{k}", port.kind, port.cells) for k in range(rows)]
                for count in range(1, rows + 1):
                    steps[f"{port.name}/{count}"] = (Set("m", port.name, tuple(places[:count])),)
                self.at[port.name] = places
            elif port.causality is Causality.OUTPUT:
                self.at[port.name] = [new(port.name, port.kind, port.cells)]
                if port.event:
                    new(f"{port.name}?", Kind.BOOLEAN, 1)
                steps[port.name] = (Get("m", port.name, self.at[port.name][0]),)
        self.reached, self.again = new("reached", Kind.REAL, 1), new("again", Kind.BOOLEAN, 1)
        self.next_event = new("due", Kind.REAL, 1)
        steps["due"] = (Due("m", self.next_event),)
        steps |= {"jump": (Jump("m", self.again),), "advance": (Advance("m", 0, 1, self.reached),)}
        program = Program(
            layout=Layout(tuple(registers)), start=(), steps=steps, exchange=(), instant=(), now=0, next=1,
            columns={},
        )  # fmt: skip
        self.machine = native.machine(program, {"m": model}, start, jit=jit)

    def get(self, name: str) -> Signal | None:
        port, (first,) = self.ports[name], self.at[name]
        self.machine.execute(name)
        if port.event and not self.machine.read(first + port.cells):
            assert not any(self.machine.read(first + i) for i in range(port.cells))
            return None
        cells = tuple(self.machine.read(first + i) for i in range(port.cells))
        return cells[0] if port.size is None else cells

    def set(self, name: str, coefficients: Sequence[Any]) -> None:
        for first, row in zip(self.at[name], coefficients, strict=False):
            for i, value in enumerate((row,) if self.ports[name].size is None else row):
                self.machine.write(first + i, value)
        self.machine.execute(f"{name}/{len(coefficients)}")

    def advance(self, t: float, to: float) -> None:
        self.machine.write(0, t)
        self.machine.write(1, to)
        self.machine.execute("advance")
        self.time = to

    def jump(self) -> bool:
        self.machine.execute("jump")
        return bool(self.machine.read(self.again))

    def due(self) -> float:
        self.machine.execute("due")
        return float(self.machine.read(self.next_event))

    def save(self) -> Any:
        return self.time, self.machine.save()

    def restore(self, token: Any) -> None:
        self.time, kept = token
        self.machine.restore(kept)

    def to_bytes(self, token: Any) -> bytes:
        return self.machine.to_bytes(token[1])

    def from_bytes(self, data: bytes) -> Any:
        return self.time, self.machine.from_bytes(data)


@st.composite
def scripts(draw: st.DrawFn, model: Discrete) -> list[tuple[Any, ...]]:
    """Calls to make: at every one, everything is read."""
    number = st.floats(-2, 2)
    inputs = [port for port in model.ports if port.causality is Causality.INPUT]
    script: list[tuple[Any, ...]] = []
    for _ in range(draw(st.integers(1, 25))):
        action = draw(st.sampled_from(["set", "set", "jump", "advance", "save", "restore"]))
        if action == "set":
            port = draw(st.sampled_from(inputs))
            value = {
                Kind.REAL: number,
                Kind.BOOLEAN: st.booleans() if not port.event else st.just(True),
                Kind.INTEGER: st.integers(0, 2),
            }[port.kind]
            row = value if port.size is None else st.tuples(*[value] * port.size)
            most = DEGREE + 1 if port.kind is Kind.REAL and not port.event else 1
            script.append(("set", port.name, draw(st.lists(row, min_size=1, max_size=most))))
        elif action == "advance":
            script.append(("advance", draw(st.floats(0, 1))))
        else:
            script.append((action,))
    return script


def play(unit: Any, model: Discrete, script: list[tuple[Any, ...]]) -> list[Any]:
    """What the unit says, reals as exact text."""
    seen: list[Any] = []
    outputs = [port.name for port in model.ports if port.causality is Causality.OUTPUT]
    kept = unit.save()
    for action, *arguments in script:
        match action:
            case "set":
                unit.set(*arguments)
            case "jump":
                seen.append(unit.jump())
            case "advance":
                unit.advance(unit.time, unit.time + arguments[0])
            case "save":
                kept = unit.save()
            case "restore":
                unit.restore(kept)
        seen += [exact(unit.due()), *(exact(unit.get(name)) for name in outputs)]
    return seen


def exact(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(exact, value))
    return value.hex() if isinstance(value, float) else value


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_unit_with_everything(data: st.DataObject) -> None:
    script = data.draw(scripts(MOTION))
    here = play(MOTION.instantiate("m", 0.5), MOTION, script)
    assert play(Core(MOTION, 0.5), MOTION, script) == here


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_states_are_the_same_bytes(data: st.DataObject) -> None:
    script = [call for call in data.draw(scripts(MOTION)) if call[0] != "restore"]
    here, there = MOTION.instantiate("m", 0.5), Core(MOTION, 0.5)
    for unit in (here, there):
        play(unit, MOTION, script)
    packed = there.to_bytes(there.save())
    assert here.to_bytes(here.save()) in packed
    other = Core(MOTION, 0.0)
    other.time = there.time
    other.restore(other.from_bytes(packed))
    rest = data.draw(scripts(MOTION))
    assert play(other, MOTION, rest) == play(there, MOTION, rest) == play(here, MOTION, rest)


@settings(deadline=None, max_examples=40)
@given(systems(), st.data())
def test_random_systems(system: Any, data: st.DataObject) -> None:
    model = model_of(system)
    script = data.draw(scripts(model))
    assert play(Core(model, 0.0), model, script) == play(model.instantiate("m", 0.0), model, script)


@settings(deadline=None, max_examples=5)
@given(st.data())
def test_machine_code_gives_the_same_bits(data: st.DataObject) -> None:
    pytest.importorskip("llvmlite")
    script = data.draw(scripts(MOTION))
    here = play(MOTION.instantiate("m", 0.0), MOTION, script)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("upbeat.engine.native.entry._WORTH_COMPILING", 1)
        compiled = Core(MOTION, 0.0, jit=True)
    assert compiled.machine._lowered.entry.compiled
    assert play(compiled, MOTION, script) == here


@pytest.mark.parametrize(
    ("mode", "call"),
    [
        (Mode(parse("x/x")), lambda unit: unit.jump()),
        (Mode(Name("time"), internal=(("m", Number(1.0)),)), lambda unit: unit.jump()),
        (Mode(Name("time"), internal=(("m", parse("1/x")),)), lambda unit: unit.jump()),
        (Mode(Name("time"), internal=(("b", parse("x/x")),)), lambda unit: unit.jump()),
        (Mode(Name("time"), (Emission("o", Number(1.0), (Number(1e300),)),)), lambda unit: unit.get("o")),
        (Mode(Name("time"), (Emission("o", parse("x/x"), (Number(1.0),)),)), lambda unit: unit.get("o")),
        (Mode(Name("time")), lambda unit: unit.get("z")),
    ],
)
def test_failures_read_the_same(mode: Mode, call: Any) -> None:
    model = Discrete(
        ports=(
            Port("o", Causality.OUTPUT, Kind.INTEGER, event=True),
            Port("z", Causality.OUTPUT, Kind.BOOLEAN),
        ),
        variables=(
            Variable("m", Kind.INTEGER, 0), Variable("x", Kind.REAL, 0.0), Variable("b", Kind.BOOLEAN, False),
        ),
        mode="m",
        modes=(mode,),
        outputs=(("z", (parse("x/x"),)),),
    )  # fmt: skip
    with pytest.raises(Exception) as here:  # noqa: PT011
        call(model.instantiate("m", 0.0))
    with pytest.raises(UnitError) as there:
        call(Core(model, 0.0))
    assert f"{type(here.value).__name__}: {here.value}" == there.value.reason


def test_a_start_that_fails_says_so_in_the_core_too() -> None:
    model = Discrete(
        ports=(), variables=(Variable("n", Kind.INTEGER, 0),), modes=(Mode(Number(0.0)),),
        initial=(("n", parse("1/time")),),
    )  # fmt: skip
    with pytest.raises(UnitError, match="inf is not an integer") as caught:
        Core(model, 0.0)
    assert caught.value.call == "instantiate"
