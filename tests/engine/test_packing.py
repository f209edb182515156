"""States as bytes: a run that goes on elsewhere goes exactly where it would have gone, on either engine."""

from __future__ import annotations

import contextlib
import math
import pickle
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import upbeat as up
from strategies import experiments
from upbeat.core.plain import pack_values, unpack_values
from upbeat.core.ports import Causality, Kind, Port
from upbeat.engine.interpret import Interpreter
from upbeat.engine.loop import Loop
from upbeat.engine.native import machine as native
from upbeat.engine.native.loop import NativeLoop
from upbeat.engine.packing import fingerprint
from upbeat.engine.selection import Selection
from upbeat.master.dataflow import held_slots
from upbeat.master.program import Layout, Program, Register, Restore, Save

TESTS = str(Path(__file__).parent.parent)
ENGINES = ["interpret", "native"] if native.available() else ["interpret"]
PAIRS = [(a, b) for a in ENGINES for b in ENGINES]
needs_native = pytest.mark.skipif(not native.available(), reason="the native engine is not built")
thorough = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

MASSES = up.Scenario(
    units={
        "left": up.Ode(states={"x": "v", "v": "F - x"}, start={"x": 1.0}, inputs=["F"], outputs=["x", "v"]),
        "right": up.Ode(
            states={"x": "v", "v": "-4*x - 0.1*v + u"}, inputs=["u"], outputs=["x"], solver=up.DormandPrince()
        ),
    },
    connections={"left.F": "right.x", "right.u": "left.x"},
)
CONTROLLED = up.experiment(MASSES, pace=up.ErrorControl(1e-2), until=2.0)
GRID = up.experiment(MASSES, pace=0.1, until=2.0, inputs=up.Linear())


class Drive:
    """A machine and its loop, as a run has them, and everything that can be seen of both."""

    def __init__(self, experiment: up.Experiment, engine: str) -> None:
        arranged = experiment.master.arranged(experiment.closed)
        self.program, _ = experiment.master.written(arranged)
        units, span = arranged.units, experiment.span
        nothing = Selection((), (), ())
        self.machine: Any
        self.loop: Loop
        if engine == "interpret":
            self.machine = Interpreter(self.program, units, span.start)
            self.loop = Loop(self.machine, self.program, span, nothing, None)
        else:
            self.machine = native.machine(self.program, units, span.start)
            self.loop = NativeLoop(self.machine, self.program, span, nothing, None)

    def pack(self) -> tuple[bytes, Any]:
        return self.machine.to_bytes(self.machine.save()), self.loop.time

    def unpack(self, data: bytes, standing: Any) -> None:
        self.machine.restore(self.machine.from_bytes(data))
        self.loop.set_time(standing)

    def seen(self) -> list[object]:
        cells = [self.machine.read(cell) for cell in range(self.program.layout.cells)]
        return [value.hex() if isinstance(value, float) else value for value in (self.loop.time, *cells)]

    def on(self) -> list[list[object]]:
        """To the end, step by step; the last entry may be the error that ends the run."""
        path = [self.seen()]
        try:
            while not self.loop.finished:
                self.loop.step()
                path.append(self.seen())
        except up.RunError as error:
            path.append([str(error)])
        return path


@thorough
@given(engines=st.sampled_from(PAIRS), experiment=experiments(), before=st.integers(0, 3))
def test_going_on_from_bytes_is_as_if_it_had_never_stopped(
    engines: tuple[str, str], experiment: up.Experiment, before: int
) -> None:
    try:
        first, second = (Drive(experiment, engine) for engine in engines)
    except up.RunError:
        return  # a scenario inside another one could not even begin
    try:
        try:
            first.loop.begin()
            for _ in range(before):
                if not first.loop.finished:
                    first.loop.step()
        except up.RunError:
            return  # a formula left the finite numbers before there was anything to keep
        data, standing = first.pack()
        second.unpack(data, standing)
        assert second.pack() == (data, standing)
        assert first.on() == second.on()
    finally:
        first.machine.close()
        second.machine.close()


@needs_native
@thorough
@given(experiment=experiments(), before=st.integers(0, 3))
def test_both_engines_write_the_same_bytes(experiment: up.Experiment, before: int) -> None:
    packed = []
    for engine in ENGINES:
        drive = None
        try:
            drive = Drive(experiment, engine)
            drive.loop.begin()
            for _ in range(before):
                if not drive.loop.finished:
                    drive.loop.step()
            packed.append(drive.pack())
        except up.RunError as error:
            packed.append((str(error).encode(), None))
        if drive is not None:
            drive.machine.close()
    assert packed[0] == packed[1]


@thorough
@given(experiments())
def test_no_coupling_keeps_anything_in_slots_between_steps(experiment: up.Experiment) -> None:
    assert held_slots(experiment.plan.program, experiment.plan.scenario.units) == ()  # what runs, as it runs


GO_ON = """
import pickle, sys
sys.path.insert(0, {tests!r})
from engine.test_packing import Drive
experiment, engine, data, standing = pickle.load(sys.stdin.buffer)
drive = Drive(experiment, engine)
drive.unpack(data, standing)
sys.stdout.buffer.write(pickle.dumps((drive.on(), drive.pack())))
"""


@pytest.mark.parametrize(
    ("experiment", "engines"),
    [(CONTROLLED, PAIRS[0]), (CONTROLLED, PAIRS[-1]), (GRID, (ENGINES[-1], ENGINES[0]))],
)
def test_another_process_goes_on(engines: tuple[str, str], experiment: up.Experiment) -> None:
    drive = Drive(experiment, engines[0])
    drive.loop.begin()
    for _ in range(5):
        drive.loop.step()
    given = pickle.dumps((experiment, engines[1], *drive.pack()))

    program = GO_ON.format(tests=TESTS)
    other = subprocess.run([sys.executable, "-c", program], input=given, capture_output=True, check=True)
    path, packed = pickle.loads(other.stdout)
    assert path == drive.on()
    assert packed == drive.pack()


@pytest.mark.parametrize("engines", PAIRS)
def test_error_control_stands_from_the_start_on(engines: tuple[str, str]) -> None:
    """Its state is the same before the first step, too, when nothing has been tried yet."""
    first, second = (Drive(CONTROLLED, engine) for engine in engines)
    first.loop.begin()
    second.unpack(*first.pack())
    assert first.seen() == second.seen()
    assert first.on() == second.on()


# ------------------------------------------------------------------------------------ exact values

PORTS = (
    Port("r", Causality.OUTPUT),
    Port("n", Causality.OUTPUT, Kind.INTEGER),
    Port("b", Causality.OUTPUT, Kind.BOOLEAN),
    Port("s", Causality.OUTPUT, Kind.STRING),
    Port("t", Causality.OUTPUT, Kind.STRING),
)


class Blank:
    """A unit whose state is nothing but the bytes it is given."""

    state = b""

    def __init__(self, *given: object) -> None: ...

    def get(self, port: str) -> Any: ...

    def set(self, port: str, coefficients: Any) -> None: ...

    def advance(self, t: float, to: float, early: bool) -> float:
        return to

    def save(self) -> bytes:
        return self.state

    def restore(self, token: bytes) -> None:
        self.state = token

    def to_bytes(self, token: bytes) -> bytes:
        return token

    def from_bytes(self, data: bytes) -> bytes:
        if data == b"no":
            raise KeyError("no such thing")
        return data


BOTH = {up.Ability.ROLLBACK, up.Ability.SERIALISE}
BLANK = up.PythonUnit(Blank, PORTS, BOTH)


def registers(*kinds: Kind) -> Program:
    names = ("now", "next", *(f"r{i}" for i in range(len(kinds))))
    listed = [
        Register(n, i, k, 1, (k.zero,))
        for i, (n, k) in enumerate(zip(names, (Kind.REAL,) * 2 + kinds, strict=True))
    ]
    return Program(
        layout=Layout(tuple(listed)), start=(), steps={"step": ()}, exchange=(), instant=(),
        now=0, next=1, columns={},
    )  # fmt: skip


EVERY_KIND = registers(Kind.REAL, Kind.INTEGER, Kind.BOOLEAN, Kind.STRING, Kind.STRING)


def machine(engine: str, program: Program = EVERY_KIND, **models: Any) -> Any:
    build: Any = Interpreter if engine == "interpret" else native.machine
    return build(program, models or {"u": BLANK}, 0.5)


ANY_DOUBLE = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("<d", bits.to_bytes(8, "little"))[0])


@pytest.mark.parametrize("engines", PAIRS)
@thorough
@given(
    real=ANY_DOUBLE | st.sampled_from([math.nan, -math.nan, math.inf, -math.inf, -0.0, 5e-324]),
    whole=st.integers(-(2**63), 2**63 - 1),
    truth=st.booleans(),
    texts=st.tuples(*[st.text(st.characters(exclude_categories=["Cs"]))] * 2),
)
def test_every_value_survives_to_the_bit(
    engines: tuple[str, str], real: float, whole: int, truth: bool, texts: tuple[str, str]
) -> None:
    first, second = (machine(engine) for engine in engines)
    second.write(5, "somebody else's text")  # so that the numbers of strings differ
    for cell, value in enumerate((real, whole, truth, *texts), start=2):
        first.write(cell, value)
    data = first.to_bytes(first.save())
    second.restore(second.from_bytes(data))
    found = [second.read(cell) for cell in range(2, 7)]
    assert struct.pack("<d", found[0]) == struct.pack("<d", real)
    assert [(type(v), v) for v in found[1:]] == [(type(v), v) for v in (whole, truth, *texts)]
    assert second.to_bytes(second.save()) == data


@thorough
@given(st.lists(ANY_DOUBLE | st.integers() | st.booleans() | st.text()))
def test_values_of_units_in_python_survive_to_the_bit(values: list[Any]) -> None:
    found = unpack_values(pack_values(values))
    assert [type(v) for v in found] == [type(v) for v in values]
    assert pack_values(found) == pack_values(values)
    assert [v for v in found if v == v] == [v for v in values if v == v]


@thorough
@given(st.binary())
def test_anything_else_is_no_list_of_values(data: bytes) -> None:
    try:
        values = unpack_values(data)
    except ValueError:
        return
    assert unpack_values(pack_values(values)) == values or any(v != v for v in values)


# ----------------------------------------------------------------------------------- refused bytes


@pytest.mark.parametrize("engine", ENGINES)
def test_damage_is_noticed_and_does_no_harm(engine: str) -> None:
    drive = Drive(GRID, engine)
    drive.loop.begin()
    drive.loop.step()
    data, standing = drive.pack()
    for at in range(len(data)):
        for bad in (data[:at], data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]):
            with pytest.raises(up.ModelError, match="not a state of this scenario"):
                drive.machine.from_bytes(bad)
    for bad in (data + b"x", data + data, b"", "text", None):
        with pytest.raises(up.ModelError, match=r"not a state of this scenario|a state is bytes"):
            drive.machine.from_bytes(bad)
    other = Drive(GRID, engine)
    other.unpack(data, standing)
    assert drive.on() == other.on()


@pytest.mark.parametrize("engine", ENGINES)
def test_states_of_another_scenario_are_refused_with_the_reason(engine: str) -> None:
    def decay(**more: Any) -> up.Ode:
        return up.Ode(**{"states": {"x": "-x", "z": "-z"}, "outputs": ["x"], **more})

    def packed(unit: str, model: Any, until: float = 1.0) -> tuple[Any, bytes]:
        drive = Drive(up.experiment(up.Scenario(units={unit: model}), pace=0.1, until=until), engine)
        drive.loop.begin()
        return drive.machine, drive.pack()[0]

    here, own = packed("a", decay())
    here.from_bytes(own)
    here.from_bytes(packed("a", decay(start={"x": 3.0}))[1])  # other values are no other scenario
    here.from_bytes(packed("a", decay(solver=up.Euler()))[1])  # and this solver remembers nothing, either
    with pytest.raises(up.ModelError, match="of the units b; here there are a"):
        here.from_bytes(packed("b", decay())[1])
    for model in (
        decay(outputs={"y": "x"}),
        decay(states={"x": "-x", "w": "-w"}),
        decay(states={"x": "-x"}, solver=up.DormandPrince()),  # a state of the same size
        up.PythonOde(lambda t, x, u, p: (-x.x, -x.z), states={"x": 0.0, "z": 0.0}, outputs=["x"]),
    ):
        with pytest.raises(up.ModelError, match="the same names, but other ports, other states"):
            here.from_bytes(packed("a", model)[1])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_newer_format_is_named(engine: str) -> None:
    from upbeat.core.plain import with_checksum
    from upbeat.engine.packing import MARK

    there = machine(engine)
    data = there.to_bytes(there.save())
    newer = MARK + b"\x03\0\0\0" + data[len(MARK) + 4 : -4]
    with pytest.raises(up.ModelError, match="version 3 of the format, and this Upbeat reads 2"):
        there.from_bytes(with_checksum(newer))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_unit_may_refuse(engine: str) -> None:
    first, second = machine(engine), machine(engine)
    token = first.save()
    state = {"u": (b"no", 0.5)}
    data = machine("interpret").to_bytes((state, list(EVERY_KIND.layout.start)))
    with pytest.raises(up.ModelError, match="unit 'u' does not take these bytes: KeyError: 'no such thing'"):
        second.from_bytes(data)
    second.restore(second.from_bytes(first.to_bytes(token)))  # no harm done


@pytest.mark.parametrize("engine", ENGINES)
def test_equations_refuse_what_is_no_state_of_theirs(engine: str) -> None:
    model = up.Ode(states={"x": "u - x"}, inputs=["u"])
    there = machine(engine, u=model)
    reference = machine("interpret", u=model)
    kept, cells = reference.save()
    token, time = kept["u"]
    for count in (0.0, 7.0, 1.5, math.nan, -1.0, 1e300):
        broken = (*token[:3], count, *token[4:])
        data = reference.to_bytes(({"u": (broken, time)}, cells))
        with pytest.raises(
            up.ModelError, match=r"unit 'u' does not take.*not a state of this unit: an input"
        ):
            there.from_bytes(data)
    short = reference.to_bytes(({"u": (token[:-1], time)}, cells))
    with pytest.raises(up.ModelError, match=f"expected {8 * len(token)} bytes, not {8 * len(token) - 8}"):
        there.from_bytes(short)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_unit_without_bytes_is_named(engine: str) -> None:
    there = machine(engine, u=up.PythonUnit(_mute, PORTS, {up.Ability.ROLLBACK}))
    with pytest.raises(up.UnitError, match=r"'u' failed in to_bytes\(\).*cannot be turned into bytes"):
        there.to_bytes(there.save())
    data = machine("interpret").to_bytes(machine("interpret").save())
    with pytest.raises(up.UnitError, match=r"'u' failed in from_bytes\(\).*cannot be turned into bytes"):
        there.from_bytes(data)


def _mute(*given: object) -> Any:
    class Silent:
        get, set, advance, save, restore = (
            Blank.get, Blank.set, Blank.advance, Blank.save, Blank.restore,
        )  # fmt: skip
        state = b""

    return Silent()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_program_that_keeps_a_slot_from_step_to_step_is_refused(engine: str) -> None:
    from dataclasses import replace

    held = replace(EVERY_KIND, start=(Save(("u",), (2,), 0),), steps={"step": (Restore(0),)})
    assert held_slots(held, {"u": BLANK}) == (0,)
    there = machine(engine, held)
    with pytest.raises(up.ModelError, match="restores slot 0 in a step that has not saved it"):
        there.to_bytes(there.save())


@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_pace_remembers_may_be_anything(engine: str) -> None:
    """Registers come from files, too: a pace that finds nonsense in its own makes other steps, or none."""
    for experiment in (GRID, CONTROLLED, up.experiment(MASSES, pace=up.Pattern([0.1, 0.3]), until=2.0)):
        for number in (-1.0, 1e9, math.nan, math.inf, 0.5):
            drive = Drive(experiment, engine)
            drive.loop.begin()
            assert drive.program.pace is not None
            layout = drive.program.layout
            for register in drive.program.pace.memory:
                for cell in range(register, register + layout.of(register).size):
                    drive.machine.write(cell, number)
            with contextlib.suppress(up.RunError):
                for _ in range(3):
                    drive.loop.step()


def test_the_fingerprint_is_the_same_in_every_process() -> None:
    """Files outlive the process that wrote them: no hash that Python seeds anew."""
    program, units = EVERY_KIND, {"u": BLANK}
    script = (
        f"import sys; sys.path.insert(0, {TESTS!r})\n"
        "from engine.test_packing import *\n"
        "print(fingerprint(EVERY_KIND, {'u': BLANK}).hex())"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == fingerprint(program, units).hex()
