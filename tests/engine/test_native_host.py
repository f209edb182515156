"""One machine, several threads and owners: who may call, and who lets go of the units."""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import upbeat as up
from paced import paced
from upbeat.core.abilities import Ability, Core
from upbeat.core.errors import StepError, UnitError
from upbeat.core.ports import Causality, Kind, Port
from upbeat.engine.choose import choose
from upbeat.engine.native import machine as native
from upbeat.engine.native.lower import Code
from upbeat.engine.native.machine import Batch, CoreLoop, Status
from upbeat.master.program import Advance, Block, Get, Layout, Program, Register
from upbeat.units import Function, Ode, PythonUnit

pytestmark = pytest.mark.skipif(not native.available(), reason="the native engine is not built")

PORTS = (Port("u", Causality.INPUT), Port("y", Causality.OUTPUT))
DECAY = Ode(states={"y": "u - y"}, inputs=["u"])
ENDLESS = 1e9


def program(*units: str) -> Program:
    """Advance all, get all."""
    names = ("now", "next", *units, *(f"{unit}.reached" for unit in units))
    registers = tuple(Register(name, i, Kind.REAL, 1, (0.0,)) for i, name in enumerate(names))
    step: Block = tuple(
        instruction
        for i, unit in enumerate(units)
        for instruction in (Advance(unit, 0, 1, 2 + len(units) + i), Get(unit, "y", 2 + i))
    )
    return Program(
        layout=Layout(registers), start=(), steps={"step": step}, exchange=(), instant=(),
        now=0, next=1, columns={},
    )  # fmt: skip


class Python:
    """A unit that says what happens to it."""

    def __init__(self, closed: list[str], name: str = "p", act: Callable[[], None] = lambda: None) -> None:
        self.closed, self.name, self.act = closed, name, act

    def get(self, port: str) -> float:
        return 1.0

    def set(self, port: str, coefficients: Any) -> None: ...

    def advance(self, t: float, to: float, early: bool) -> float:
        assert not self.closed, "called after it was closed"
        self.act()
        return to

    def close(self) -> None:
        self.closed.append(self.name)


def python(closed: list[str], act: Callable[[], None] = lambda: None) -> PythonUnit:
    return PythonUnit(lambda name, start, values: Python(closed, name, act), PORTS)


@contextlib.contextmanager
def at_work(loop: CoreLoop, machine: native.Machine) -> Iterator[list[BaseException | Batch]]:
    """The loop running in a thread of its own; its result when the thread has ended."""
    left: list[BaseException | Batch] = []

    def work() -> None:
        try:
            left.append(loop.run(None, ENDLESS, 60.0))
        except BaseException as error:  # noqa: BLE001
            left.append(error)

    loop.begin(None)
    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.05)
    try:
        yield left
    finally:
        machine.close()
        thread.join(20)
        assert not thread.is_alive()


# ------------------------------------------------------------------------------------------ threads


def test_closing_from_another_thread_ends_the_run_between_two_steps() -> None:
    machine = native.machine(paced(program("a"), 1e-6), {"a": DECAY}, 0.0)
    with at_work(machine.loop(None), machine) as left:
        machine.close()
    assert isinstance(left[0], StepError)
    assert "closed while it was at work" in str(left[0])
    with pytest.raises(RuntimeError, match="closed"):
        machine.read(2)


def test_others_are_refused_while_the_core_works() -> None:
    machine = native.machine(paced(program("a"), 1e-6), {"a": DECAY}, 0.0)
    token = machine.save()
    calls: list[Callable[[], Any]] = [
        lambda: machine.read(2),
        lambda: machine.write(2, 1.0),
        lambda: machine.execute("step"),
        machine.save,
        lambda: machine.restore(token),
        lambda: machine.set_input("a", "u", 1.0),
        lambda: machine.loop(None),
    ]
    with at_work(machine.loop(None), machine):
        for call in calls:
            with pytest.raises(RuntimeError, match="at work for another caller"):
                call()


def test_many_threads_close_and_read_at_random() -> None:
    for _ in range(20):
        machine = native.machine(paced(program("a"), 1e-6), {"a": DECAY}, 0.0)
        loop = machine.loop(None)
        loop.begin(None)
        stop = threading.Event()

        def poke(machine: native.Machine = machine, stop: threading.Event = stop) -> None:
            while not stop.is_set():
                with contextlib.suppress(RuntimeError):
                    machine.read(2)

        def run(loop: CoreLoop = loop) -> None:
            with contextlib.suppress(StepError):
                while True:
                    with contextlib.suppress(RuntimeError):
                        loop.run(None, ENDLESS, 0.001)

        threads = [threading.Thread(target=poke), threading.Thread(target=run), threading.Thread(target=run)]
        for thread in threads:
            thread.start()
        time.sleep(0.005)
        machine.close()
        stop.set()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()


def test_python_units_are_closed_after_their_last_call() -> None:
    closed: list[str] = []
    machine = native.machine(paced(program("p"), 1e-3), {"p": python(closed, lambda: time.sleep(0.001))}, 0.0)
    with at_work(machine.loop(None), machine) as left:
        machine.close()
        machine.close()
    assert isinstance(left[0], StepError), left[0]
    assert closed == ["p"]


def test_a_unit_may_close_the_machine_it_runs_in() -> None:
    closed: list[str] = []
    machines: list[native.Machine] = []

    def close() -> None:
        machines[0].close()

    machine = native.machine(program("p"), {"p": python(closed, close)}, 0.0)
    machines.append(machine)
    machine.execute("step")
    assert closed == ["p"]
    with pytest.raises(RuntimeError, match="closed"):
        machine.execute("step")


def test_a_run_closed_from_another_thread() -> None:
    scenario = up.Scenario(units={"a": up.Ode(states={"x": "1"})})
    with up.experiment(scenario, pace=1e-6, until=1e6, every=10**6, engine="native").open() as run:
        timer = threading.Timer(0.2, run.close)
        timer.start()
        with pytest.raises(up.StepError):
            run.finish()
        timer.join()
    assert len(run.trace) > 0


# ----------------------------------------------------------------------------------------- ownership


def test_a_unit_that_cannot_be_made_lets_go_of_the_others() -> None:
    closed: list[str] = []

    def fail(*_: Any) -> Any:
        raise OSError("no licence")

    models = {"a": python(closed), "b": python(closed), "c": PythonUnit(fail, PORTS)}
    with pytest.raises(UnitError, match="no licence"):
        native.machine(program("a", "b", "c"), models, 0.0)
    assert closed == ["a", "b"]


def test_tables_that_the_core_refuses_let_go_of_the_units(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    def refuse(*_: Any) -> Any:
        raise ValueError("not these")

    monkeypatch.setattr("upbeat._native.Machine", refuse)
    with pytest.raises(ValueError, match="not these"):
        native.machine(program("a"), {"a": python(closed)}, 0.0)
    assert closed == ["a"]


def test_each_unit_is_closed_once_whatever_the_others_do() -> None:
    closed: list[str] = []

    class Stubborn(Python):
        def close(self) -> None:
            super().close()
            raise RuntimeError("never")

    models = {
        "a": PythonUnit(lambda name, start, values: Stubborn(closed, name), PORTS),
        "b": python(closed),
    }
    machine = native.machine(program("a", "b"), models, 0.0)
    with pytest.warns(RuntimeWarning, match=r"unit 'a' failed in close\(\): RuntimeError: never"):
        machine.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        machine.close()
    assert closed == ["a", "b"]


# --------------------------------------------------------------------------------------------- entry


class Doubled(Ode):
    """A subclass that means another unit than its equations say: one that can do less."""

    @property
    def abilities(self) -> frozenset[Ability]:
        return super().abilities & {Ability.NATIVE}

    def instantiate(self, name: str, start: float) -> Any:
        return Python([], name)


class Renamed(Function):
    """A subclass that changes nothing about the unit."""


class Both(Function):
    """A subclass that says how its unit enters the core, too."""

    def instantiate(self, name: str, start: float) -> Any:
        return super().instantiate(name, start)

    def enter(self, core: Core, name: str, start: float) -> object:
        return super().enter(core, name, start)


def test_a_subclass_with_units_of_its_own_does_not_run_as_its_base() -> None:
    doubled = Doubled(states={"y": "0"}, inputs=["u"])
    assert Ability.NATIVE not in doubled.abilities
    assert "calling back into Python for a" in choose("auto", {"a": doubled}).why
    machine = native.machine(program("a"), {"a": doubled}, 0.0)
    machine.execute("step")
    assert machine.read(2) == 1.0
    for kind in (Renamed, Both):
        assert Ability.NATIVE in kind(outputs={"y": "1"}).abilities


def test_ports_are_numbered_as_the_model_lists_them() -> None:
    model = Ode(
        states={"x": "0"},
        start={"x": 3.0},
        inputs=["a", "b"],
        outputs={"sum": "a + 10*b", "y": "x"},
        parameters={"p": 1.0},
    )
    machine = native.machine(program("m"), {"m": model}, 0.0)
    assert [port.name for port in model.ports].index("y") == 3
    assert [row[2] for row in machine.tables.code if row[0] == Code.GET] == [3]
    machine.execute("step")
    assert machine.read(2) == 3.0


def test_only_new_strings_are_fetched() -> None:
    texts = iter(f"text {k}" for k in range(100))

    class Talker(Python):
        def get(self, port: str) -> Any:
            return next(texts)

    ports = (Port("s", Causality.OUTPUT, Kind.STRING),)
    model = PythonUnit(lambda name, start, values: Talker([]), ports)
    registers = (
        Register("now", 0, Kind.REAL, 1, (0.0,)),
        Register("next", 1, Kind.REAL, 1, (0.0,)),
        Register("s", 2, Kind.STRING, 1, ("",)),
    )
    made = Program(
        layout=Layout(registers), start=(), steps={"step": (Get("m", "s", 2),)}, exchange=(), instant=(),
        now=0, next=1, columns={},
    )  # fmt: skip
    strings: list[str] = []
    machine = native.machine(paced(made, 1.0), {"m": model}, 0.0, strings=strings)
    loop = machine.loop([2])
    chunk = np.empty((100, 2))
    loop.begin(chunk)
    for k in range(1, 4):
        assert loop.run(chunk, float(3 * k), 10.0).status is Status.FINISHED
        assert strings == ["", *(f"text {i}" for i in range(3 * k))]
    assert machine._machine.strings(9) == ["text 8"]
