"""What paces are written with: expressions, instructions on both engines, and paces in Python."""

from __future__ import annotations

import math
import random
from typing import Any, NamedTuple

import pytest

import upbeat as up
from paced import paced
from upbeat.core.expr import Cell, Kernel, Number
from upbeat.core.ports import Kind
from upbeat.core.time import Span
from upbeat.engine.interpret import Interpreter
from upbeat.engine.native import machine as native
from upbeat.extend import Fall, Fit, Pick, Proposal, Rank, Reason, Writer
from upbeat.master.program import Block, Layout, Program, Register
from upbeat.master.registers import maximum, minimum, ulp

needs_native = pytest.mark.skipif(not native.available(), reason="the native engine is not built")
ENGINES = ["interpret", pytest.param("native", marks=needs_native)]


def test_the_distance_to_the_next_number_is_exact() -> None:
    distance = Kernel.over_cells((ulp(Cell(0)),)).python()
    draw = random.Random(1)
    times = [draw.uniform(-1, 1) * 2.0 ** draw.randint(-300, 300) for _ in range(2000)]
    times += [sign * 2.0**k for k in range(-300, 300) for sign in (1.0, -1.0)]
    times += [math.nextafter(2.0**k, 0.0) for k in range(-300, 300)]
    for t in times:
        assert distance([t])[0] == math.ulp(t)


def test_the_smaller_and_the_larger_are_those_of_python() -> None:
    numbers = [0.0, -0.0, 1.0, -math.inf, math.inf, math.nan]
    for a in numbers:
        for b in numbers:
            for made, meant in ((minimum, min), (maximum, max)):
                (found,) = Kernel.over_cells((made(Cell(0), Cell(1)),)).python()([a, b])
                assert str(found) == str(meant(a, b))


def program(cells: list[float], block: Block) -> Program:
    registers = [Register(f"c{i}", i, Kind.REAL, 1, (value,)) for i, value in enumerate(cells)]
    return Program(Layout(tuple(registers)), (), {"step": block}, (), (), 0, 1, {})


@needs_native
def test_both_engines_compute_the_same() -> None:
    """Polynomials through any samples, when they fall, and look-ups in tables."""
    draw = random.Random(2)

    def number() -> float:
        return math.nan if draw.random() < 0.1 else draw.uniform(-1, 1) * 10.0 ** draw.randint(-3, 3)

    for _ in range(150):
        counts = tuple(draw.randint(1, 3) for _ in range(draw.randint(1, 3)))
        n, head = sum(counts), 14
        orders = tuple(draw.randint(0, 2) for _ in range(n))
        sets = tuple(head + 3 * n * k for k in range(3))
        curves, falls = head + 9 * n, head + 15 * n
        kept, near, h, more = (
            float(draw.randint(1, 3)),
            float(draw.random() < 0.2),
            draw.uniform(0.01, 1),
            0.3,
        )
        start = [0.0, 0.0, kept, near, h, more, draw.uniform(0.1, 2), draw.uniform(1e-6, 0.1), number()]
        start += [1.0, 2.5, 4.0, 0.0, 0.0, *(number() for _ in range(9 * n))]
        start += [0.0] * (6 * n + 1 + 5 * len(counts))
        block = (
            Fit(orders, (sets[0], sets[1], sets[2]), 2, 4, curves, alone=draw.random() < 0.5),
            Fall(counts, curves, 6, 7, falls),
            Pick(9, 3, 8, 12),
            Rank(9, 3, 6, 13),
        )
        made = program(start, block)
        machines: list[Any] = [Interpreter(made, {}, 0.0), native.machine(made, {}, 0.0)]
        seen = []
        for machine in machines:
            machine.execute("step")
            seen.append([float(machine.read(i)).hex() for i in range(len(start))])
        assert seen[0] == seen[1]


def test_a_writer_writes_what_it_says() -> None:
    w = Writer()
    a, b, n = Cell(2), Cell(3), Cell(4)
    with w.when(a > 1.0):
        w.let(b, a * 2.0)
    with w.otherwise():
        w.let(b, Number(-1.0))
        with w.repeat(100, n >= 5.0):
            w.let(n, n + 1.0)
    for given, found in ((3.0, [3.0, 6.0, 0.0]), (0.5, [0.5, -1.0, 5.0])):
        machine = Interpreter(program([0.0, 0.0, given, 0.0, 0.0], w.block), {}, 0.0)
        machine.execute("step")
        assert [machine.read(i) for i in (2, 3, 4)] == found


class Growing:
    """A pace in Python with a state that grows, and reasons of its own."""

    def begin(self, span: Any) -> tuple[float, ...]:
        return ()

    def propose(self, state: Any, t: float, limit: float, read: Any) -> Any:
        until = t + 0.02 * (1 + len(state) % 7)
        return Proposal(min(until, limit), Reason("growing", at=round(t, 1))), state

    def note(self, state: Any, t: float, fired: Any, read: Any) -> Any:
        return () if fired else (*state, t)[-20:]


OUTS = {"x": "x", "v": "v"}
BALL = up.Ode({"x": "v", "v": "-9.81"}, start={"x": 1.0, "v": 0.0}, outputs=OUTS, solver="rk4")
HIT = {"hit": {"when": "ball.x <= 0", "then": {"ball.v": "-0.8*ball.v"}}}


@needs_native
@pytest.mark.parametrize("pace", [Growing(), up.Revised(Growing()), up.Revised(up.Fixed(0.05))])
def test_a_pace_in_python_is_one_of_the_program(pace: Any) -> None:
    """Alone and inside a pace of blocks, on both engines; set back and resumed, too."""
    runs = []
    for engine in ("interpret", "native"):
        trace = up.simulate(up.Scenario({"ball": BALL}, events=HIT), pace=pace, until=1.2, engine=engine)
        runs.append((trace.time.tolist(), trace["ball.x"].tolist(), [str(step) for step in trace.steps]))
    assert runs[0] == runs[1]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pace_in_python_must_find_room_for_its_state(engine: str) -> None:
    class Hoarding(Growing):
        def note(self, state: Any, t: float, fired: Any, read: Any) -> Any:
            return (*state, t)

    with pytest.raises(up.StepError, match=r"there is room for 64\. Let its begin return as many"):
        up.simulate(up.Scenario({"ball": BALL}), pace=Hoarding(), until=100.0, engine=engine)


def test_a_pace_in_python_asks_for_blocks_that_there_are() -> None:
    class Lost(Growing):
        def propose(self, state: Any, t: float, limit: float, read: Any) -> Any:
            return Proposal(limit, "lost", "stpe"), state

    with pytest.raises(up.StepError, match=r"asked for the step block 'stpe'\. Did you mean 'step'"):
        up.simulate(up.Scenario({"ball": BALL}), pace=Lost(), until=1.0, engine="interpret")


def test_registers_of_a_pace_are_not_set_back_with_a_step() -> None:
    """What `keep` saves is everything else."""
    master = up.Master(up.Revised(up.Fixed(0.1)))
    built, _ = master.written(master.arranged(up.Scenario({"ball": BALL}, events=HIT)))
    assert built.pace is not None
    (keep,) = built.pace.keep
    own, saved = set(built.pace.memory), set(keep.registers)  # type: ignore[union-attr]
    assert not own & saved
    assert own | saved == {register.first for register in built.layout.registers}
    assert paced(program([0.0, 0.0], ()), 0.1).pace is not None


# ---------------------------------------------------------------- paces in Python, and what they remember


class Counting(NamedTuple):
    step: int
    last: float


class Indexed:
    """Steps from a list that is as long as the run needs; its state is a number of its own type."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def begin(self, span: Span) -> Any:
        count = int((span.stop - span.start) / 0.25)  # of an open span there is no such number
        self.times = [span.start + 0.25 * (k + 1) for k in range(count)]
        return {"tuple": (0,), "named": Counting(0, 0.0), "none": None, "number": 0}[self.kind]

    def propose(self, state: Any, t: float, limit: float, read: Any) -> tuple[Proposal, Any]:
        del read
        if self.kind == "none":
            assert state is None
            return Proposal(min(t + 0.25, limit), Reason("grid")), None
        k = {"tuple": lambda: state[0], "named": lambda: state.step, "number": lambda: state}[self.kind]()
        until = min(self.times[k], limit)
        after: Any = {"tuple": (k + 1,), "named": Counting(k + 1, until), "number": k + 1}[self.kind]
        return Proposal(until, Reason("grid")), after


@pytest.mark.parametrize("engine", ["native", "interpret"])
@pytest.mark.parametrize("kind", ["tuple", "named", "none", "number"])
def test_a_pace_in_python_gets_its_state_as_it_gave_it(engine: Any, kind: str) -> None:
    scenario = up.Scenario({"a": up.Ode(states={"x": "1.0"}, outputs={"x": "x"})})
    trace = up.simulate(scenario, pace=Indexed(kind), until=1.0, engine=engine)  # type: ignore[arg-type]
    assert list(trace.time) == [0.0, 0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize("engine", ["native", "interpret"])
def test_a_pace_that_says_it_never_rejects_must_not(engine: Any) -> None:
    class Rejecting(Indexed):
        retries = False

        def review(self, state: Any, t: float, reached: float, read: Any) -> tuple[Proposal | None, Any]:
            del read
            return Proposal((t + reached) / 2, Reason("grid")), state

    scenario = up.Scenario({"a": up.Ode(states={"x": "1.0"}, outputs={"x": "x"})})
    with pytest.raises(up.StepError, match="says that it never does"):
        up.simulate(scenario, pace=Rejecting("tuple"), until=1.0, engine=engine)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ["native", "interpret"])
@pytest.mark.parametrize("coupling", [up.Negotiated(), up.Interruptible()])
def test_a_step_of_no_length_is_told_alike(engine: Any, coupling: Any) -> None:
    """Fits divide by the length of the step: by IEEE rules, on both engines."""

    class Stopping:
        def __init__(self, *given: Any) -> None:
            self.x = 1.0

        def get(self, port: str) -> float:
            return self.x

        def set(self, port: str, trajectory: Any) -> None:
            pass

        def advance(self, t: float, until: float, early: bool = False) -> float:
            if early and abs(t - 0.3) < 1e-9:
                return t
            self.x -= until - t
            return until

        def save(self) -> float:
            return self.x

        def restore(self, state: float) -> None:
            self.x = state

    unit = up.PythonUnit(Stopping, outputs=["x"], abilities=["early_return", "rollback"])
    scenario = up.Scenario({"u": unit}, events={"low": {"when": "u.x <= 0.35"}})
    with pytest.raises(up.StepError, match="did not move on, and no event fired"):
        up.simulate(scenario, pace=up.Revised(0.1), coupling=coupling, until=1.0, engine=engine)
