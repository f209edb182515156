"""The loop in the core: rows, budgets, failures; and units entered by the addresses of C functions."""

from __future__ import annotations

import ctypes
import gc
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from upbeat.core.errors import StepError, UnitError
from upbeat.core.expr import Apply, Cell, Number, Op
from upbeat.core.ports import Causality, Kind, Port
from upbeat.core.time import Span
from upbeat.engine import native
from upbeat.engine.native import FixedLoop, Machine, Status
from upbeat.master.program import Advance, Fire, Get, If, Layout, Let, Program, Register, Set
from upbeat.units import Euler, NativeUnit, Ode, PythonUnit

pytestmark = pytest.mark.skipif(not native.available()[0], reason="the native engine is not built")

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


def ring(**more: Any) -> Program:
    """One unit whose output feeds its own input; cell 2 is the output."""
    registers = [
        Register(name, i, Kind.REAL, 1, (0.0,)) for i, name in enumerate(("now", "next", "y", "reached"))
    ]
    step = (Advance("m", 0, 1, 3), Get("m", "y", 2), Set("m", "u", (2,)))
    return Program(Layout(tuple(registers)), (Get("m", "y", 2),), {"step": step}, (), 0, 1, {}, **more)


def rows_of(loop: FixedLoop, capacity: int = 1000, budget: float = 10.0) -> np.ndarray:
    """Run to the end."""
    pieces = []
    while True:
        chunk = np.empty((capacity, 2))
        status = loop.run(chunk, budget)
        pieces.append(chunk[: loop.rows])
        if status is Status.FINISHED:
            return np.concatenate(pieces)


GROWTH = Ode(states={"x": "x"}, start={"x": 1.0}, inputs=["u"], outputs={"y": "x"}, solver=Euler())


def machine_for(model: Any, start: float = 0.0) -> Machine:
    machine = Machine(ring(), {"m": model}, start)
    machine.execute("start")
    return machine


def test_rows_lie_on_the_grid_and_hold_the_solution() -> None:
    span = Span(0.0, 1.05)
    rows = rows_of(machine_for(GROWTH).run_fixed(span, 0.1, [2]))
    assert rows[:-1, 0].tolist() == [k * 0.1 for k in range(11)]
    assert rows[-1, 0] == 1.05
    assert rows[10, 1] == pytest.approx(1.1**10, rel=1e-14)


@pytest.mark.parametrize(("capacity", "budget"), [(1, 10.0), (7, 10.0), (1000, 1e-7), (3, 0.0)])
def test_pauses_change_nothing(capacity: int, budget: float) -> None:
    span = Span(0.0, 2.0)
    whole = rows_of(machine_for(GROWTH).run_fixed(span, 0.01, [2]))
    loop = machine_for(GROWTH).run_fixed(span, 0.01, [2])
    if budget == 0.0:  # records, and never steps: so step by number
        pieces = []
        while True:
            chunk = np.empty((capacity, 2))
            status = loop.run(chunk, 10.0, most=1)
            pieces.append(chunk[: loop.rows])
            if status is Status.FINISHED:
                break
        rows = np.concatenate(pieces)
    else:
        rows = rows_of(loop, capacity, budget)
    assert rows.tobytes() == whole.tobytes()


def test_thinning_keeps_first_and_last() -> None:
    rows = rows_of(machine_for(GROWTH).run_fixed(Span(0.0, 1.0), 0.1, [2], every=4))
    assert rows[:, 0].tolist() == [0.0, 0.4, 0.8, 1.0]


def test_no_budget_records_without_a_step() -> None:
    loop = machine_for(GROWTH).run_fixed(Span(0.0, 1.0), 0.1, [2])
    chunk = np.empty((5, 2))
    assert loop.run(chunk, 0.0) is Status.PAUSED
    assert (loop.rows, loop.done, loop.time) == (1, 0, 0.0)
    loop.stand_at(3, 0.3)
    assert loop.run(chunk, 0.0) is Status.PAUSED
    assert (loop.rows, chunk[0, 0]) == (1, 0.3)


def test_a_failure_keeps_the_rows_so_far() -> None:
    model = Ode(
        states={"x": "1/(0.35 - time)**2 if time < 0.25 else 1/(time - time)"},
        inputs=["u"],
        outputs={"y": "x"},
    )
    loop = machine_for(model).run_fixed(Span(0.0, 1.0), 0.1, [2])
    chunk = np.empty((100, 2))
    with pytest.raises(UnitError, match=r"unit 'm' failed in get\('y'\) at t = 0.3: output 'y' is inf"):
        loop.run(chunk, 10.0)
    assert loop.rows == 3
    assert (loop.done, loop.time) == (2, 0.2)


def test_events_are_logged_with_their_times() -> None:
    late = Apply(Op.GT, (Cell(0), Number(0.15)))
    instant = (If(late, (Fire("late"), Fire("very late"))),)
    registers = [Register(name, i, Kind.REAL, 1, (0.0,)) for i, name in enumerate(("now", "next", "x"))]
    step = (Fire("step"), Let(2, Cell(1)))
    made = Program(Layout(tuple(registers)), (), {"step": step}, instant, 0, 1, {})
    loop = Machine(made, {}, 0.0).run_fixed(Span(0.0, 0.2), 0.1, [2])
    rows_of(loop)
    assert loop.events == [("step", 0.1, 0), ("step", 0.2, 0), ("late", 0.2, 1), ("very late", 0.2, 2)]


def test_a_step_that_does_not_move_on_is_an_error() -> None:
    registers = [Register(name, i, Kind.REAL, 1, (0.0,)) for i, name in enumerate(("now", "next"))]
    made = Program(Layout(tuple(registers)), (), {"step": (Let(1, Cell(0)),)}, (), 0, 1, {})
    with pytest.raises(StepError, match="did not move on"):
        rows_of(Machine(made, {}, 0.0).run_fixed(Span(0.0, 1.0), 0.1, [1]))


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
    rows = rows_of(machine_for(model).run_fixed(Span(0.0, 1.0), 0.1, [2]))
    assert rows[:, 1].tolist() == list(range(11))


def test_other_threads_run_while_the_core_works() -> None:
    machine = machine_for(GROWTH.with_values({}))
    loop = machine.run_fixed(Span(0.0, 1e-3), 1e-9, [2], every=1_000_000)
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
    loop.run(np.empty((10, 2)), 0.05)
    during = len(ticks) - before
    stop.set()
    thread.join()
    assert during >= 3


# ---------------------------------------------------------------------------------------- addresses


def test_units_by_address_are_made_run_and_destroyed(library: ctypes.CDLL) -> None:
    model = NativeUnit.from_library(library, PORTS).with_values({"gain": 0.5})
    before = library.count_alive()
    machine = machine_for(model)
    rows = rows_of(machine.run_fixed(Span(0.0, 0.4), 0.1, [2]))
    assert rows[:, 1].tolist() == [0.0, 1.0, 1.5, 1.75, 1.875]
    assert library.count_alive() == before + 1
    machine.close()
    assert library.count_alive() == before
    forgotten = machine_for(model)
    del forgotten
    gc.collect()
    assert library.count_alive() == before


def test_units_are_destroyed_also_if_no_machine_comes_about(library: ctypes.CDLL) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("not today")

    before = library.count_alive()
    models = {"m": NativeUnit.from_library(library, PORTS), "n": PythonUnit(fail, PORTS[:2])}
    with pytest.raises(UnitError, match="not today"):
        Machine(ring(), models, 0.0)
    gc.collect()
    assert library.count_alive() == before


def test_their_failures_carry_their_message(library: ctypes.CDLL) -> None:
    model = NativeUnit.from_library(library, PORTS).with_values({"gain": 100.0})
    loop = machine_for(model).run_fixed(Span(0.0, 1.0), 0.1, [2])
    with pytest.raises(
        UnitError, match=r"failed in advance\(0.4, 0.5\) at t = 0.4: NativeFailure: too large"
    ):
        rows_of(loop)
    silent = NativeUnit(model.ports, {name: at for name, at in model.functions if name != "message"})
    with pytest.raises(UnitError, match="NativeFailure: advance returned status 5"):
        rows_of(machine_for(silent).run_fixed(Span(0.0, 1.0), 0.1, [2]))


def test_they_can_be_set_back_if_they_say_so(library: ctypes.CDLL) -> None:
    model = NativeUnit.from_library(library, PORTS)
    machine = machine_for(model)
    machine.save()
    machine.execute("step")
    assert machine.read(2) == 1.0
    machine.restore()
    machine.execute("step")
    assert machine.read(2) == 1.0
    stubborn = NativeUnit(model.ports, {n: at for n, at in model.functions if n not in ("save", "restore")})
    with pytest.raises(UnitError, match="cannot be set back"):
        machine_for(stubborn).save()
