"""The loop in the core: rows, budgets, failures, threads; and units entered by addresses."""

from __future__ import annotations

import ctypes
import gc
import shutil
import subprocess
import threading
import time
from math import floor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paced import paced
from upbeat.core.abilities import Core
from upbeat.core.errors import StepError, UnitError
from upbeat.core.expr import Apply, Cell, Number, Op
from upbeat.core.ports import Causality, Kind, Port
from upbeat.engine.interpret import Interpreter
from upbeat.engine.native import machine as native
from upbeat.engine.native.machine import Batch, CoreLoop, Status
from upbeat.master.program import Advance, Block, Fire, Get, If, Layout, Let, Program, Register, Set
from upbeat.trace.log import StepLog
from upbeat.units import Euler, NativeUnit, Ode, PythonUnit

pytestmark = pytest.mark.skipif(not native.available(), reason="the native engine is not built")

INCLUDE = Path(__file__).parents[2] / "native" / "include"
PORTS = (
    Port("u", Causality.INPUT),
    Port("y", Causality.OUTPUT),
    Port("gain", Causality.PARAMETER, start=(2.0,)),
)
SOURCE = r"""
#include <stdlib.h>
#include "upbeat/unit.h"
typedef struct { double u, y, gain; double kept[8][2]; } unit;
static int alive = 0;
int count_alive(void) { return alive; }
void* create(const char* name, double start, const upbeat_cell* parameters) {
  unit* self = calloc(1, sizeof *self);
  self->gain = parameters[0].r;
  self->u = start;
  ++alive;
  return name[0] == '!' ? 0 : self;
}
int get(void* self, int port, upbeat_cell* to) { to->r = ((unit*)self)->y; return port == 1 ? 0 : 3; }
int set(void* self, int port, const upbeat_cell* c, int count) {
  ((unit*)self)->u = c[count - 1].r; return port == 0 ? 0 : 4;
}
int advance(void* self, double t, double to, int early, double* reached) {
  unit* it = self;
  if (it->u > 1e6) return 5;
  it->y = it->gain * it->u + 1.0;
  return 0;
}
int save(void* self, int slot) {
  unit* it = self; it->kept[slot][0] = it->u; it->kept[slot][1] = it->y; return 0;
}
int restore(void* self, int slot) {
  unit* it = self; it->u = it->kept[slot][0]; it->y = it->kept[slot][1]; return 0;
}
const char* message(void* self) { return "too large"; }
void destroy(void* self) { --alive; free(self); }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("unit")
    (folder / "unit.c").write_text(SOURCE)
    command = [compiler, "-O1", "-shared", "-fPIC", f"-I{INCLUDE}", "-o", "unit.so", "unit.c"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "unit.so"))


def program(step: Block, *cells: str, start: Block = (), instant: Block = ()) -> Program:
    """Real registers now, next and those named, in this order."""
    registers = [Register(n, i, Kind.REAL, 1, (0.0,)) for i, n in enumerate(("now", "next", *cells))]
    return Program(
        layout=Layout(tuple(registers)), start=start, steps={"step": step}, exchange=start, instant=instant,
        now=0, next=1, columns={},
    )  # fmt: skip


def ring() -> Program:
    """One unit whose output feeds its own input; cell 2 is the output."""
    step = (Advance("m", 0, 1, 3), Get("m", "y", 2), Set("m", "u", (2,)))
    return program(step, "y", "reached", start=(Get("m", "y", 2),))


GROWTH = Ode(states={"x": "x"}, start={"x": 1.0}, inputs=["u"], outputs={"y": "x"}, solver=Euler())


def loop_for(model: Any, step: float = 0.1, every: int = 1) -> CoreLoop:
    return native.machine(paced(ring(), step), {"m": model}, 0.0).loop([2], every)


def rows_of(
    loop: CoreLoop, stop: float, capacity: int = 1000, budget: float = 10.0, most: int = 1 << 62
) -> np.ndarray:
    """Run to the end."""
    chunk = np.empty((capacity, 2))
    done = loop.begin(chunk)
    pieces = [chunk[: done.rows]]
    while done.status is not Status.FINISHED:
        chunk = np.empty((capacity, 2))
        done = loop.run(chunk, stop, budget, most)
        if done.status is Status.FAILED:
            loop.fail()
        pieces.append(chunk[: done.rows])
    return np.concatenate(pieces)


def test_rows_lie_on_the_grid_and_hold_the_solution() -> None:
    rows = rows_of(loop_for(GROWTH), 1.05)
    assert rows[:-1, 0].tolist() == [k * 0.1 for k in range(11)]
    assert rows[-1, 0] == 1.05
    assert rows[10, 1] == pytest.approx(1.1**10, rel=1e-14)


@pytest.mark.parametrize(
    ("capacity", "budget", "most"), [(1, 10.0, 1 << 62), (7, 10.0, 3), (1000, 1e-7, 1 << 62), (3, 10.0, 1)]
)
def test_pauses_change_nothing(capacity: int, budget: float, most: int) -> None:
    whole = rows_of(loop_for(GROWTH, 0.01), 2.0)
    rows = rows_of(loop_for(GROWTH, 0.01), 2.0, capacity, budget, most)
    assert rows.tobytes() == whole.tobytes()


def test_thinning_keeps_first_and_last() -> None:
    rows = rows_of(loop_for(GROWTH, every=4), 1.0)
    assert rows[:, 0].tolist() == [0.0, 0.4, 0.8, 1.0]


def test_nothing_needs_to_be_recorded() -> None:
    loop = native.machine(paced(ring(), 0.1), {"m": GROWTH}, 0.0).loop(None)
    assert loop.begin(None).rows == 0
    done = loop.run(None, 1.0, 10.0)
    assert (done.status, done.time, done.rows) == (Status.FINISHED, 1.0, 0)
    with pytest.raises(ValueError, match="a chunk belongs to columns"):
        loop.run(np.empty((1, 1)), 2.0, 10.0)


def test_the_limit_is_that_of_the_call() -> None:
    loop = loop_for(GROWTH)
    chunk = np.empty((100, 2))
    loop.begin(chunk)
    times = []
    for limit in (0.25, 0.25, 0.4):
        done = loop.run(chunk, limit, 10.0)
        assert (done.status, done.time) == (Status.FINISHED, limit)
        times += chunk[: done.rows, 0].tolist()
    assert times == [0.1, 0.2, 0.25, 0.1 * 3, 0.4]


def test_steps_are_logged_as_python_does() -> None:
    loop = loop_for(GROWTH, 0.3)
    loop.begin(np.empty((1, 2)))
    log, by_hand = StepLog(), StepLog()
    for most in (1, 1, 1 << 62):
        log.extend(loop.run(np.empty((100, 2)), 10.0, 10.0, most).steps)
    for k in range(34):
        by_hand.append(0.3 * k, 10.0 if k == 33 else 0.3 * (k + 1), "fixed step")
    assert list(log) == list(by_hand)
    assert [run.count for run in log] == [33, 1]


def test_a_failure_keeps_the_rows_so_far() -> None:
    model = Ode(
        states={"x": "1/(0.35 - time)**2 if time < 0.25 else 1/(time - time)"},
        inputs=["u"],
        outputs={"y": "x"},
    )
    loop = loop_for(model)
    chunk = np.empty((100, 2))
    loop.begin(chunk)
    done = loop.run(chunk, 1.0, 10.0)
    assert (done.status, done.rows, done.time) == (Status.FAILED, 2, 0.2)
    assert done.steps.runs["count"].tolist() == [2]
    with pytest.raises(UnitError, match=r"unit 'm' failed in get\('y'\) at t = 0.3: output 'y' is inf"):
        loop.fail()


def fired(done: Batch) -> list[tuple[str, float, int]]:
    """What fired during a stretch: name, time, index at that time."""
    names, codes, times, indices, _ = done.events
    return [(names[code], time, index) for code, time, index in zip(codes, times, indices, strict=True)]


def test_events_are_logged_with_their_times() -> None:
    late = Apply(Op.GT, (Cell(0), Number(0.15)))
    instant = (If(late, (Fire("late"), Fire("very late"))),)
    made = program((Fire("step"), Let(2, Cell(1))), "x", start=(Fire("start"),), instant=instant)
    loop = native.machine(paced(made, 0.1), {}, 0.0).loop(None)
    assert fired(loop.begin(None)) == [("start", 0.0, 0)]
    assert fired(loop.run(None, 0.2, 10.0, max_steps=1)) == [("step", 0.1, 0)]
    assert fired(loop.run(None, 0.1, 10.0)) == [], "nothing happens where nothing moves"
    events = fired(loop.run(None, 0.2, 10.0))
    assert events == [("step", 0.2, 0), ("late", 0.2, 1), ("very late", 0.2, 2)]


def test_a_step_that_does_not_move_on_is_an_error() -> None:
    with pytest.raises(StepError, match="did not move on"):
        rows_of(native.machine(paced(program((Let(1, Cell(0)),), "x"), 0.1), {}, 0.0).loop([1]), 1.0)


def test_a_program_without_a_pace_has_no_loop() -> None:
    with pytest.raises(ValueError, match="how far its steps go"):
        native.machine(ring(), {"m": GROWTH}, 0.0).loop(None)


@given(st.floats(-1e3, 1e3), st.floats(1e-6, 10.0), st.floats(0.0, 1e4), st.floats(0.0, 1e4))
def test_the_grid_is_that_of_python(origin: float, step: float, ahead: float, room: float) -> None:
    t = origin + ahead
    limit = t + room + step * 1e-3
    index = floor((t - origin) / step + 1e-3) + 1
    expected = origin + index * step
    if not expected > t:
        expected = origin + (index + 1) * step
    expected = limit if expected > limit - 1e-6 * step else expected
    made = paced(program((), "x"), step)
    machine = native.machine(made, {}, origin)
    loop = machine.loop(None)
    machine.write(0, origin)
    loop.begin(None)
    machine.write(0, t)
    assert loop.run(None, limit, 10.0, max_steps=1).time == expected
    interpreter = Interpreter(made, {}, origin)
    interpreter.write(0, origin)
    interpreter.execute("start")
    interpreter.write(0, t)
    assert made.pace is not None
    interpreter.write(made.pace.limit, limit)
    interpreter.execute("propose")
    assert interpreter.read(made.pace.until) == expected
    assert [interpreter.read(i) for i in made.pace.memory] == [machine.read(i) for i in made.pace.memory]


def test_a_python_unit_runs_inside_the_loop() -> None:
    class Counter:
        def __init__(self) -> None:
            self.steps = 0

        def get(self, port: str) -> float:
            return float(self.steps)

        def set(self, port: str, coefficients: Any) -> None: ...

        def advance(self, t: float, to: float, early: bool) -> float:
            self.steps += 1
            return to

        def jump(self) -> bool:
            return False

    model = PythonUnit(lambda name, start, values: Counter(), PORTS[:2])
    rows = rows_of(loop_for(model), 1.0)
    assert rows[:, 1].tolist() == list(range(11))


def test_other_threads_run_while_the_core_works() -> None:
    loop = loop_for(GROWTH, 1e-9, every=1_000_000)
    loop.begin(np.empty((1, 2)))
    ticks: list[float] = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    time.sleep(0.01)
    before = len(ticks)
    loop.run(np.empty((10, 2)), 1e-3, 0.05)
    during = len(ticks) - before
    stop.set()
    thread.join()
    assert during >= 3


# ---------------------------------------------------------------------------------------- addresses


def test_units_by_address_are_made_run_and_destroyed(library: ctypes.CDLL) -> None:
    model = NativeUnit.from_library(library, PORTS).with_values({"gain": 0.5})
    before = library.count_alive()
    machine = native.machine(paced(ring(), 0.1), {"m": model}, 0.0)
    rows = rows_of(machine.loop([2]), 0.4)
    assert rows[:, 1].tolist() == [0.0, 1.0, 1.5, 1.75, 1.875]
    assert library.count_alive() == before + 1
    machine.close()
    assert library.count_alive() == before
    forgotten = native.machine(ring(), {"m": model}, 0.0)
    del forgotten
    gc.collect()
    assert library.count_alive() == before


def test_units_are_destroyed_also_if_no_machine_comes_about(library: ctypes.CDLL) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("not today")

    before = library.count_alive()
    models = {"m": NativeUnit.from_library(library, PORTS), "n": PythonUnit(fail, PORTS[:2])}
    with pytest.raises(UnitError, match="not today"):
        native.machine(ring(), models, 0.0)
    assert library.count_alive() == before, "at once, although the traceback is still held"


def test_their_failures_carry_their_message(library: ctypes.CDLL) -> None:
    model = NativeUnit.from_library(library, PORTS).with_values({"gain": 100.0})
    with pytest.raises(
        UnitError, match=r"failed in advance\(0.4, 0.5\) at t = 0.4: NativeFailure: too large"
    ):
        rows_of(loop_for(model), 1.0)
    silent = NativeUnit(model.ports, {name: at for name, at in model.functions if name != "message"})
    with pytest.raises(UnitError, match="NativeFailure: advance returned status 5"):
        rows_of(loop_for(silent), 1.0)


def test_they_can_be_set_back_if_they_say_so(library: ctypes.CDLL) -> None:
    model = NativeUnit.from_library(library, PORTS)
    machine = native.machine(ring(), {"m": model}, 0.0)
    tokens = []
    for k in range(4):
        assert machine.read(2) == 2.0**k - 1.0
        tokens.append(machine.save())
        machine.execute("step")
    for k in (2, 0, 3, 0, 1):
        machine.restore(tokens[k])
        assert machine.read(2) == 2.0**k - 1.0
        machine.execute("step")
        assert machine.read(2) == 2.0 ** (k + 1) - 1.0
    places = [token.number for token in tokens]
    del tokens[1:3]
    assert sorted([machine.save().number, machine.save().number]) == [places[1]] * 2, "given back at once"
    with pytest.raises(StepError, match="another machine"):
        native.machine(ring(), {"m": model}, 0.0).restore(tokens[0])
    stubborn = NativeUnit(model.ports, {n: at for n, at in model.functions if n not in ("save", "restore")})
    with pytest.raises(UnitError, match="cannot be set back"):
        native.machine(ring(), {"m": stubborn}, 0.0).save()


def test_a_table_may_be_of_another_version(library: ctypes.CDLL) -> None:
    model = NativeUnit.from_library(library, PORTS)
    table = Table(**{name: at for name, at in model.functions if name != "create"})
    gc.collect()
    before = library.count_alive()

    class Tabled(NativeUnit):
        def enter(self, core: Core, name: str, start: float) -> object:
            table.self = self.create(name, start)
            return core.table(ctypes.addressof(table))

    for size, jumps in ((Table.jump.offset, False), (ctypes.sizeof(Table), True), (10_000, True)):
        table.size = size
        machine = native.machine(ring(), {"m": Tabled(model.ports, dict(model.functions))}, 0.0)
        machine.execute("step")
        assert machine.read(2) == 1.0
        if jumps:
            machine.save()
        else:
            with pytest.raises(UnitError, match="cannot be set back"):
                machine.save()
        machine.close()
    table.size = 0
    with pytest.raises(UnitError, match="a unit needs get, set and advance"):
        native.machine(ring(), {"m": Tabled(model.ports, dict(model.functions))}, 0.0)
    assert library.count_alive() == before + 2, "destroy was not known to the first, and to the last"


class Table(ctypes.Structure):
    """upbeat_unit of native/include/upbeat/unit.h."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        *(
            (name, ctypes.c_void_p)
            for name in ("self", "get", "set", "advance", "jump", "save", "restore", "message", "destroy")
        ),
        *((name, ctypes.c_void_p) for name in ("slope", "pack", "unpack", "due")),
    )
