"""Programs written by hand: every instruction on both engines, with the same registers and errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from upbeat.core.errors import StepError, UnitError
from upbeat.core.expr import Apply, Cell, Expr, Number, Op
from upbeat.core.ports import Causality, Kind, Port
from upbeat.engine.interpret import Interpreter
from upbeat.engine.native import machine as native
from upbeat.engine.native.lower import Code, lower
from upbeat.master.program import (
    Advance,
    Block,
    Fire,
    Get,
    If,
    Jump,
    Layout,
    Let,
    Program,
    Register,
    Repeat,
    Restore,
    Save,
    Set,
)
from upbeat.units import Function, PythonUnit

pytestmark = pytest.mark.skipif(not native.available(), reason="the native engine is not built")

IN, OUT = Causality.INPUT, Causality.OUTPUT
PORTS = (
    Port("r", IN), Port("i", IN, Kind.INTEGER), Port("b", IN, Kind.BOOLEAN), Port("s", IN, Kind.STRING),
    Port("a", IN, size=2),
    Port("R", OUT), Port("I", OUT, Kind.INTEGER), Port("B", OUT, Kind.BOOLEAN), Port("S", OUT, Kind.STRING),
    Port("A", OUT, size=2),
)  # fmt: skip


@dataclass
class Mirror:
    """Every output is the value last set on the input of that name; `calls` says what to do instead."""

    name: str = ""
    start: float = 0.0
    calls: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    state: dict[str, Any] = field(
        default_factory=lambda: {"r": [0.0], "i": [0], "b": [False], "s": [""], "a": [(0.0, 0.0)]}
    )
    jumps: int = 2
    log: list[Any] = field(default_factory=list)

    def get(self, port: str) -> Any:
        if "get" in self.calls:
            return self.calls["get"](port)
        return self.state[port.lower()][0]

    def set(self, port: str, coefficients: Any) -> None:
        if "set" in self.calls:
            self.calls["set"](port, coefficients)
        self.log.append((port, list(coefficients)))
        self.state = {**self.state, port: coefficients}

    def advance(self, t: float, to: float, early: bool) -> Any:
        if "advance" in self.calls:
            return self.calls["advance"](t, to, early)
        return to

    def jump(self) -> bool:
        self.jumps -= 1
        return self.jumps > 0

    def save(self) -> Any:
        return self.state

    def restore(self, token: Any) -> None:
        self.state = token


def mirror(**calls: Callable[..., Any]) -> PythonUnit:
    return PythonUnit(lambda name, start, values: Mirror(name, start, calls), PORTS)


def program(block: Block, *registers: tuple[str, Kind, int, tuple[Any, ...]], start: Block = ()) -> Program:
    made = [Register("now", 0, Kind.REAL, 1, (0.0,)), Register("next", 1, Kind.REAL, 1, (0.0,))]
    for name, kind, size, values in registers:
        made.append(Register(name, made[-1].first + made[-1].size, kind, size, values))
    return Program(
        layout=Layout(tuple(made)), start=start, steps={"step": block}, exchange=(), instant=(),
        now=0, next=1, columns={},
    )  # fmt: skip


def reals(*values: float) -> list[tuple[str, Kind, int, tuple[Any, ...]]]:
    return [(f"r{i + 2}", Kind.REAL, 1, (value,)) for i, value in enumerate(values)]


def run_both(
    made: Program, models: Mapping[str, Any] | None = None, rounds: int = 1
) -> tuple[list[Any], list[str], str]:
    """Registers, events and error text after `rounds` of the step, the same on both engines."""
    results = []
    for build in (Interpreter, native.machine):
        machine = build(made, models or {}, 0.0)
        error = ""
        try:
            for k in range(rounds):
                machine.write(0, float(k))
                machine.write(1, k + 1.0)
                machine.execute("step")
        except (UnitError, StepError) as caught:
            error = f"{type(caught).__name__} {caught} / {caught.__cause__!r}"
        # After a failure only the error counts: nobody looks at registers any more.
        values = [] if error.startswith("Unit") else [machine.read(i) for i in range(made.layout.cells)]
        results.append((values, list(machine.fired), error, [type(v) for v in values]))
        machine.close()
    assert results[0] == results[1]
    return results[1][:3]


def op(op: Op, *args: Expr | float) -> Apply:
    return Apply(op, tuple(Number(a) if isinstance(a, (int, float)) else a for a in args))


# -------------------------------------------------------------------------------------------- units


def test_values_of_every_kind_travel() -> None:
    layout = (
        ("r", Kind.REAL, 1, (1.5,)), ("i", Kind.INTEGER, 1, (2**60,)), ("b", Kind.BOOLEAN, 1, (True,)),
        ("s", Kind.STRING, 1, ("grün",)), ("a", Kind.REAL, 2, (1.0, 2.0)),
        ("R", Kind.REAL, 1, (0.0,)), ("I", Kind.INTEGER, 1, (0,)), ("B", Kind.BOOLEAN, 1, (False,)),
        ("S", Kind.STRING, 1, ("",)), ("A", Kind.REAL, 2, (0.0, 0.0)),
    )  # fmt: skip
    sets = [Set("m", name, (2 + i,)) for i, name in enumerate("ribsa")]
    gets = [Get("m", name, 8 + i) for i, name in enumerate("RIBSA")]
    values, _, _ = run_both(program((*sets, *gets), *layout), {"m": mirror()})
    assert values[8:] == [1.5, 2**60, True, "grün", 1.0, 2.0]


def test_polynomials_arrive_coefficient_by_coefficient() -> None:
    units: list[Mirror] = []

    def factory(name: str, start: float, values: Any) -> Mirror:
        units.append(Mirror(name, start))
        return units[-1]

    block = (Set("m", "a", (2, 4)), Set("m", "a", (4, 2)), Set("m", "r", (2, 3, 5)))
    layout = [("p", Kind.REAL, 2, (1.0, 2.0)), ("q", Kind.REAL, 2, (3.0, 4.0))]
    run_both(program(block, *layout), {"m": PythonUnit(factory, PORTS)})
    expected = [("a", [(1.0, 2.0), (3.0, 4.0)]), ("a", [(3.0, 4.0), (1.0, 2.0)]), ("r", [1.0, 2.0, 4.0])]
    assert units[0].log == units[1].log
    assert units[0].log[-3:] == expected  # before, inputs are told what they hold until something drives them


def test_early_return_moves_the_others() -> None:
    model = mirror(advance=lambda t, to, early: 0.5 * (t + to) if early else to)
    values, _, _ = run_both(
        program((Advance("m", 0, 1, 2, early=True), Advance("n", 0, 2, 3)), *reals(0.0, 0.0)),
        {"m": model, "n": mirror()},
    )
    assert values[2:] == [0.5, 0.5]


def _fails(kind: Callable[..., BaseException], *args: Any, **more: Any) -> Callable[..., Any]:
    def call(*_: Any) -> Any:
        raise kind(*args, **more)

    return call


def _refuses_one(port: str, coefficients: Any) -> None:
    """Not the 0 that an input holds at first."""
    if coefficients[0] == 1.0:
        raise ValueError


@pytest.mark.parametrize(
    ("model", "block"),
    [
        (mirror(get=lambda port: float("nan")), (Get("m", "R", 2),)),
        (mirror(get=lambda port: (1.0, float("-inf"))), (Get("m", "A", 2),)),
        (mirror(get=lambda port: "much"), (Get("m", "R", 2),)),
        (mirror(get=lambda port: (1.0, 2.0, 3.0)), (Get("m", "A", 2),)),
        (mirror(get=lambda port: 1.0), (Get("m", "A", 2),)),
        (mirror(get=lambda port: 0.5), (Get("m", "I", 5),)),
        (mirror(get=lambda port: 5), (Get("m", "S", 4),)),
        (mirror(get=_fails(KeyError, "here")), (Get("m", "R", 2),)),
        (mirror(set=_refuses_one), (Set("m", "r", (2,)),)),
        (mirror(advance=_fails(OSError, "gone")), (Advance("m", 0, 1, 2),)),
        (mirror(advance=lambda t, to, early: to + 1.0), (Advance("m", 0, 1, 2),)),
        (mirror(advance=lambda t, to, early: t - 1.0), (Advance("m", 0, 1, 2, early=True),)),
        (mirror(get=_fails(UnitError, "inner", unit="x", call="y()", time=1.0)), (Get("m", "R", 2),)),
        (mirror(get=lambda port: float("nan")), (Advance("m", 0, 1, 2), Get("m", "R", 3))),
    ],
)
def test_failures_read_the_same(model: PythonUnit, block: Block) -> None:
    layout = [("p", Kind.REAL, 2, (1.0, 0.0)), ("s", Kind.STRING, 1, ("",)), ("i", Kind.INTEGER, 1, (0,))]
    _, _, error = run_both(program(block, *layout), {"m": model}, rounds=2)
    assert error.startswith("UnitError unit '")


def test_an_exception_keeps_its_traceback() -> None:
    machine = native.machine(
        program((Get("m", "R", 2),), *reals(0.0)), {"m": mirror(get=_fails(KeyError, "k"))}, 0.0
    )
    with pytest.raises(UnitError) as caught:
        machine.execute("step")
    cause = caught.value.__cause__
    assert isinstance(cause, KeyError)
    assert cause.__traceback__ is not None


def test_keyboard_interrupt_passes_through() -> None:
    machine = native.machine(
        program((Get("m", "R", 2),), *reals(0.0)), {"m": mirror(get=_fails(KeyboardInterrupt))}, 0.0
    )
    with pytest.raises(KeyboardInterrupt):
        machine.execute("step")


def test_a_unit_that_cannot_be_made_is_named() -> None:
    model = PythonUnit(_fails(RuntimeError, "no licence"), PORTS)
    for build in (Interpreter, native.machine):
        with pytest.raises(
            UnitError, match="unit 'm' failed in instantiate at t = 2: RuntimeError: no licence"
        ):
            build(program(()), {"m": model}, 2.0)


# ------------------------------------------------------------------------------------- control flow


def test_repeat_and_if_and_events() -> None:
    count = Let(2, op(Op.ADD, Cell(2), 1.0))
    body = (
        count,
        If(op(Op.GT, Cell(2), 2.0), (Fire("big"),), (Fire("small"), Let(3, op(Op.ADD, Cell(3), Cell(2))))),
    )
    block = (Repeat(10, body, op(Op.GE, Cell(2), 4.0)), Let(4, op(Op.MUL, Cell(2), 10.0)))
    values, fired, _ = run_both(program(block, *reals(0.0, 0.0, 0.0)))
    assert values[2:] == [4.0, 3.0, 40.0]
    assert fired == [(name, None) for name in ("small", "small", "big", "big")]


def test_nested_repeats() -> None:
    inner = Repeat(3, (Let(3, op(Op.ADD, Cell(3), 1.0)),), Number(0.0), exhausted="accept")
    values, _, _ = run_both(
        program((Repeat(2, (inner,), Number(0.0), exhausted="accept"),), *reals(0.0, 0.0))
    )
    assert values[3] == 6.0


@pytest.mark.parametrize("most", [0, 5])
@pytest.mark.parametrize("exhausted", ["accept", "fail"])
def test_exhausted_repeats(most: int, exhausted: Any) -> None:
    loop = Repeat(
        most,
        (Let(2, op(Op.ADD, Cell(2), 1.0)),),
        Number(0.0),
        exhausted=exhausted,
        what="the search",
        advice="Look elsewhere.",
    )
    values, _, error = run_both(program((loop,), *reals(0.0)))
    assert values[2] == most
    when = "in the step from t = 0 to 1"
    text = f"StepError the search did not end within {most} rounds {when}. Look elsewhere. / None"
    assert error == ("" if exhausted == "accept" else text)


def test_save_and_restore_slots() -> None:
    block = (
        Set("m", "r", (2,)), Save(("m",), (2, 3), 1), Let(2, Number(9.0)), Let(4, Number(9.0)),
        Set("m", "r", (2,)), Get("m", "R", 5), Restore(1), Get("m", "R", 6),
    )  # fmt: skip
    layout = [*reals(1.0), ("a", Kind.REAL, 2, (1.0, 2.0)), *reals(0.0, 0.0)]
    values, _, _ = run_both(program(block, *layout), {"m": mirror()})
    assert values[2:] == [1.0, 1.0, 2.0, 9.0, 1.0]


def test_a_whole_step_can_be_taken_back() -> None:
    made = program(
        (Let(2, op(Op.ADD, Cell(2), 1.0)), Set("m", "r", (2,)), Get("m", "R", 3)), *reals(1.0, 0.0)
    )
    machine = native.machine(made, {"m": mirror()}, 0.0)
    token = machine.save()
    for _ in range(2):
        machine.execute("step")
        machine.execute("step")
        assert [machine.read(2), machine.read(3)] == [3.0, 3.0]
        machine.restore(token)
        assert [machine.read(2), machine.read(3)] == [1.0, 0.0]


def test_units_need_no_jump() -> None:
    class StaticLinearUnit:
        def get(self, port: str) -> Any: ...
        def set(self, port: str, coefficients: Any) -> None: ...
        def advance(self, t: float, to: float, early: bool) -> float:
            return to

    model = PythonUnit(lambda name, start, values: StaticLinearUnit(), PORTS)
    machine = native.machine(program((Jump("m", 2),), ("p", Kind.BOOLEAN, 1, (True,))), {"m": model}, 0.0)
    machine.execute("step")
    assert machine.read(2) is False


def test_jump() -> None:
    block = (Jump("m", 2), Jump("m", 3))
    values, _, _ = run_both(
        program(block, ("p", Kind.BOOLEAN, 1, (False,)), ("q", Kind.BOOLEAN, 1, (True,))), {"m": mirror()}
    )
    assert values[2:] == [True, False]


# --------------------------------------------------------------------------------------------- lets


def test_lets_see_what_the_ones_before_them_computed() -> None:
    block = (
        Let(2, op(Op.ADD, Cell(2), 1.0)),  # 2
        Let(3, op(Op.MUL, Cell(2), Cell(2))),  # 4
        Let(2, op(Op.SUB, Cell(3), 0.5)),  # 3.5
        Let(4, Cell(2)),
        Let(5, op(Op.ADD, Cell(4), Cell(3))),  # 7.5
    )
    made = program(block, *reals(1.0, 0.0, 0.0, 0.0))
    assert run_both(made)[0][2:] == [3.5, 4.0, 3.5, 7.5]
    tables = lower(made, {})
    assert [row[0] for row in tables.code] == [Code.END, Code.COMPUTE, *[Code.END] * 3]


def test_integers_and_truth_values_are_rounded_between_lets() -> None:
    layout = [*reals(2.5), ("i", Kind.INTEGER, 1, (0,)), ("b", Kind.BOOLEAN, 1, (False,)), *reals(0.0, 0.0)]
    block = (
        Let(3, op(Op.MUL, Cell(2), 1.0)),  # 2: halves to even
        Let(5, op(Op.MUL, Cell(3), 1.5)),
        Let(4, op(Op.MUL, Cell(2), 7.0)),
        Let(6, op(Op.ADD, Cell(4), 0.25)),
        Let(2, Cell(3)),
    )
    assert run_both(program(block, *layout))[0][2:] == [2.0, 2, True, 3.0, 1.25]


def test_copies_in_a_row_become_one() -> None:
    layout = [
        ("a", Kind.REAL, 3, (1.0, 2.0, 3.0)),
        ("b", Kind.REAL, 3, (0.0, 0.0, 0.0)),
        ("s", Kind.STRING, 2, ("x", "y")),
    ]
    block = (*(Let(5 + i, Cell(2 + i)) for i in range(3)), Let(9, Cell(8)))
    made = program(block, *layout)
    assert run_both(made)[0][5:] == [1.0, 2.0, 3.0, "x", "x"]
    assert [row[:4].tolist() for row in lower(made, {}).code[1:3]] == [
        [Code.COPY, 2, 5, 3],
        [Code.COPY, 8, 9, 1],
    ]


@pytest.mark.parametrize("up", [True, False])
def test_histories_shift(up: bool) -> None:
    order = range(4, 1, -1) if up else range(2, 5)
    block = tuple(Let(i + 1, Cell(i)) if up else Let(i, Cell(i + 1)) for i in order)
    values, _, _ = run_both(program(block, ("h", Kind.REAL, 4, (1.0, 2.0, 3.0, 4.0))))
    assert values[2:] == ([1.0, 1.0, 2.0, 3.0] if up else [2.0, 3.0, 4.0, 4.0])


def test_copies_that_read_what_was_just_copied() -> None:
    block = tuple(Let(i + 1, Cell(i)) for i in range(2, 5))
    assert run_both(program(block, ("h", Kind.REAL, 4, (1.0, 2.0, 3.0, 4.0))))[0][2:] == [1.0, 1.0, 1.0, 1.0]


# -------------------------------------------------------------------------------------------- hands


def test_an_input_can_be_held_by_hand() -> None:
    model = Function(inputs={"u": 0.0, "n": {"kind": "integer"}}, outputs={"y": "u + n"})
    for build in (Interpreter, native.machine):
        machine = build(program((Get("m", "y", 2),), *reals(0.0)), {"m": model}, 0.0)
        machine.set_input("m", "u", 2.5)
        machine.set_input("m", "n", 2)
        machine.execute("step")
        assert machine.read(2) == 4.5
        machine.close()


def test_strings_are_shared_with_whoever_wants_them() -> None:
    strings: list[str] = []
    made = program(
        (Set("m", "s", (2,)), Get("m", "S", 3)),
        ("p", Kind.STRING, 1, ("start",)),
        ("q", Kind.STRING, 1, ("",)),
    )
    machine = native.machine(made, {"m": mirror()}, 0.0, strings=strings)
    assert strings == ["start", ""]
    machine.write(2, "new")
    machine.execute("step")
    assert machine.read(3) == "new"


def test_a_closed_machine_says_so() -> None:
    machine = native.machine(program((), *reals(1.0)), {}, 0.0)
    machine.close()
    with pytest.raises(RuntimeError, match="closed"):
        machine.read(2)


def test_a_register_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'m\.r' is real, but its register is integer"):
        native.machine(program((Set("m", "r", (2,)),), ("i", Kind.INTEGER, 1, (0,))), {"m": mirror()}, 0.0)
