"""The corrections of `Constrained` as instructions: residuals, sensitivities and steps of the unknowns."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING

from upbeat.core.errors import MasterError, suggest
from upbeat.core.expr import Apply, Cell, Expr, Number, Op, apply, fold, substitute
from upbeat.core.expr.nodes import Inner
from upbeat.core.ports import Causality, Kind, Port
from upbeat.master.computations import Solve
from upbeat.master.inputs.approximation import Hold
from upbeat.master.loops import SMALLEST, worst_of
from upbeat.master.port_registers import End, cell_names
from upbeat.master.program import Block, If, Instruction, Let, Reg, Repeat, Set
from upbeat.master.wiring import Wiring
from upbeat.scenario.connection import ScenarioOutput, deliver
from upbeat.scenario.directory import INPUTS, Directory, Unclear, Wrong

if TYPE_CHECKING:
    from upbeat.master.couplings.constrained import Constrained

STEP = Port("step", Causality.INPUT, unit="s")
"""What constraints may call the length of the step."""

UNSOLVED = (
    "If the constraints can hold at all, begin nearer to where they do (consistent, start values of the "
    "unknowns), or take shorter steps."
)
UNMOVED = (
    "Within a step the constraints do not react to it, or not independently of each other: choose other "
    "constraints, or let the units make several steps of their own. Or the step is too short to tell: begin "
    "with consistent start values, or with a longer step (first of ErrorControl)."
)


class Unknowns:
    """The inputs to be found: where they are set, and the cells that hold what they were."""

    def __init__(self, wiring: Wiring, names: Sequence[str]) -> None:
        self.names, self._wiring = names, wiring
        free = wiring.scenario.free_inputs
        self._ends: list[End] = []
        for name in names:
            if name not in free:
                raise MasterError(_not_free(name, wiring))
            unit, port = free[name]
            if port.kind is not Kind.REAL or port.size is not None:
                size = "" if port.size is None else f"[{port.size}]"
                raise MasterError(
                    f"the unknown '{name}' is {port.kind.value}{size}: "
                    "only single real inputs can be found from constraints"
                )
            self._ends.append((unit, port.name))
        self._check_held()

    def _check_held(self) -> None:
        own = {(INPUTS, name) for name, end in zip(self.names, self._ends, strict=True) if end[0] == INPUTS}
        for connection in self._wiring.scenario.connections:
            chosen = self._wiring.approximation((connection.unit, connection.port))
            if not own.isdisjoint(connection.sources) and chosen != Hold():
                raise MasterError(
                    f"'{connection.target}' depends on an unknown, which is held over a step, but its "
                    f'approximation is {chosen}. Hold it: ports = {{"{connection.target}": Hold()}} '
                    f'(in a file: [master.ports] with "{connection.target}" = "hold").'
                )

    def before(self) -> list[Reg]:
        """The cells that hold the values of the last step, or those that were set by hand since."""
        outputs, inputs = self._wiring.outputs, self._wiring.inputs
        return [
            outputs[INPUTS, name] if end[0] == INPUTS else inputs[end]
            for name, end in zip(self.names, self._ends, strict=True)
        ]

    def install(self, values: Reg) -> list[Instruction]:
        """Hand over the values in the cells from `values` on."""
        instructions: list[Instruction] = []
        for i, end in enumerate(self._ends):
            held = self._wiring.inputs[end]
            instructions += [Let(held, Cell(values + i)), Set(*end, (held,))]
        return instructions


class Corrections:
    """Residuals, sensitivities and corrections, as instructions."""

    def __init__(self, settings: Constrained, wiring: Wiring, unknowns: Unknowns) -> None:
        self._settings, self._wiring, self._unknowns = settings, wiring, unknowns
        self._size = n = len(unknowns.names)
        self._mark = wiring.registers.unique(f"constraints {', '.join(unknowns.names)}")
        self.end = self._new("end")
        self._values, self._residual, self._error = self._new("x", n), self._new("r", n), self._new("error")
        self._largest = wiring.registers.new(f"{self._mark}′largest", Kind.INTEGER, n, (SMALLEST,) * n)
        """The exponents (of 2) of the largest that the terms of each constraint have been after the first try
        of a step. Later tries may be far off, and say nothing about sizes. No real number, as in `Torn`."""
        length = Cell(self.end) - Cell(wiring.now)
        self._equations = [
            _expression("constraint", name, settings.constraints[name], wiring, length)
            for name in unknowns.names
        ]
        self._given = [
            _expression("sensitivity", name, text, wiring, length)
            for name in unknowns.names
            for text in [(settings.sensitivities or {}).get(name)]
            if text is not None
        ]

    def _new(self, name: str, size: int = 1) -> Reg:
        return self._wiring.registers.new(f"{self._mark}′{name}", size=size)

    def begin(self) -> list[Instruction]:
        """The end of the step, and the values to begin with."""
        values = [Let(self._values + i, Cell(cell)) for i, cell in enumerate(self._unknowns.before())]
        return [Let(self.end, Cell(self._wiring.next)), *values]

    def judge(self, *, first: bool = False) -> list[Instruction]:
        """The residuals after a step, and the largest one over the tolerance."""
        lets: list[Instruction] = [Let(self._residual + i, e) for i, e in enumerate(self._equations)]
        worst: list[Expr] = []
        for i, equation in enumerate(self._equations):
            largest, residual = self._largest + i, Cell(self._residual + i)
            if first:
                size = apply(Op.CLIP, _terms(equation), 2.0**SMALLEST, 1e300)
                exponent = apply(Op.FLOOR, apply(Op.LOG, size) / log(2.0))
                lets.append(Let(largest, apply(Op.MAX, Cell(largest), exponent)))
            size = apply(Op.EXP, log(2.0) * Cell(largest))
            part = apply(Op.ABS, residual) / (self._settings.tolerance * size)
            worst.append(apply(Op.WHERE, apply(Op.EQ, residual, 0.0), 0.0, part))
        return [*lets, Let(self._error, worst_of(worst))]

    def corrected(self, back: Block, again: Block) -> list[Instruction]:
        """Corrections after a first step: `back` sets it back, `again` repeats it with what is installed."""
        settings, n, x = self._settings, self._size, self._values
        matrix, move = self._new("J", n * n), self._new("dx", n)
        sensitivities: list[Instruction]
        if self._given:
            sensitivities = [
                Let(matrix + i * n + j, self._given[i] if i == j else Number(0.0))
                for i in range(n)
                for j in range(n)
            ]
        else:
            sensitivities = self._differences(matrix, back, again)
        moves = [Let(x + i, Cell(x + i) - Cell(move + i)) for i in range(n)]
        body = [
            *sensitivities,
            Solve(n, matrix, self._residual, move),
            self._reacts(move),
            *moves,
            *back,
            *self._unknowns.install(x),
            *again,
            *self.judge(),
        ]
        names = ", ".join(self._unknowns.names)
        if settings.corrections is not None:
            what = f"correcting {names}"
            return [Repeat(settings.corrections, tuple(body), Number(0.0), "accept", what, self._shows)]
        done = apply(Op.LE, Cell(self._error), 1.0)
        texts = ", ".join(f"{text} = 0" for text in settings.constraints.values())
        what = f"finding {names} from the constraints {texts}"
        return [
            If(
                done,
                (),
                (Repeat(settings.max_iterations, tuple(body), done, "fail", what, self._shows, UNSOLVED),),
            )
        ]

    @property
    def _shows(self) -> tuple[tuple[str, Reg], ...]:
        texts = self._settings.constraints
        return tuple(
            (f"residual of {texts[name]}", self._residual + i) for i, name in enumerate(self._unknowns.names)
        )

    def _differences(self, matrix: Reg, back: Block, again: Block) -> list[Instruction]:
        """The sensitivities by finite differences: one more step for every unknown."""
        n, x = self._size, self._values
        at, width = self._new("at", n), self._new("d")
        found: list[Instruction] = []
        for j in range(n):
            found += [Let(at + i, Cell(x + i)) for i in range(n)]
            scale = apply(Op.MAX, apply(Op.ABS, Cell(x + j)), 1.0)
            found.append(Let(at + j, Cell(x + j) + self._settings.difference * scale))
            found.append(Let(width, Cell(at + j) - Cell(x + j)))  # what rounding has left of it
            found += [*back, *self._unknowns.install(at), *again]
            for i, equation in enumerate(self._equations):
                slope = (equation - Cell(self._residual + i)) / Cell(width)
                found.append(Let(matrix + i * n + j, slope))
        return found

    def _reacts(self, move: Reg) -> Repeat:
        """End the run if there is no correction, rather than go on without."""
        sane: Expr = Number(1.0)
        for i in range(self._size):
            sane = apply(Op.AND, sane, apply(Op.LT, apply(Op.ABS, Cell(move + i)), 1e100))
        names = ", ".join(self._unknowns.names)
        return _required(sane, f"finding {names}", self._shows, UNMOVED)


def _terms(equation: Expr) -> Expr:
    """How large the terms are that have to cancel each other: sums without their signs."""

    def inner(node: Inner, sizes: list[Expr]) -> Expr:
        match node:
            case Apply(op=Op.ADD | Op.SUB):
                return sizes[0] + sizes[1]
            case Apply(op=Op.MUL):
                return sizes[0] * sizes[1]
            case Apply(op=Op.DIV):
                return sizes[0] / apply(Op.ABS, node.args[1])
            case Apply(op=Op.NEG):
                return sizes[0]
        return apply(Op.ABS, node)

    return fold(equation, lambda leaf: apply(Op.ABS, leaf), inner)


def _required(condition: Expr, what: str, shows: tuple[tuple[str, Reg], ...], advice: str) -> Repeat:
    """End the run unless `condition` holds.

    A loop with nothing in it that must be over after one round: an instruction of its own would say it
    more plainly, but both engines, the scheduler and the data flow would have to know one more.
    """
    return Repeat(1, (), condition, "fail", what, shows, advice)


def _not_free(name: str, wiring: Wiring) -> str:
    scenario = wiring.scenario
    if any(connection.target == name for connection in scenario.connections):
        return (
            f"the unknown '{name}' is connected to something. Only inputs without a source can be unknowns."
        )
    if (INPUTS, name) in wiring.outputs:
        return f"the unknown '{name}' is driven by a signal. Only inputs without a source can be unknowns."
    return (
        f"a constraint is given for '{name}', which is not a free input. "
        f'{suggest(name, scenario.free_inputs, "free inputs")} Declare it: inputs=["{name}"] '
        f"(in a file: [inputs] with a line {name} = 0.0)."
    )


def read_constraint(text: str, directory: Directory, name: str, what: str) -> ScenarioOutput:
    """One cell computed from `text`, with units of measure converted as in a connection. `MasterError`."""
    try:
        made = deliver(Port(name, Causality.OUTPUT), text, directory, fixed=True)
    except Wrong as wrong:
        raise MasterError(f"{what} '{text}': {wrong.what}. {wrong.hint}".strip()) from None
    except Unclear:
        raise MasterError(f"{what} '{text}' reads a unit of measure that does not exist") from None
    if made.port.size is not None:
        raise MasterError(f"{what} '{text}' has {made.port.size} cells: write one for each")
    return made


def _expression(noun: str, name: str, text: str, wiring: Wiring, length: Expr) -> Expr:
    """A constraint or a sensitivity, over cells."""
    scenario = wiring.scenario
    units = {unit: model for unit, model in scenario.units.items() if unit != INPUTS}
    if any(port.name == STEP.name for port in scenario.opened_inputs):
        raise MasterError(
            "the scenario has an input called 'step', and in constraints that is the length of the step: "
            "give the input another name"
        )
    own = {STEP.name: STEP} | {port.name: port for port in scenario.opened_inputs}
    made = read_constraint(
        text, Directory(units, list(own.values())), "residual", f"the {noun} for '{name}':"
    )
    outputs = [end for end in made.sources if end in wiring.outputs]
    if noun == "constraint" and all(unit == INPUTS for unit, _ in outputs):
        raise MasterError(f"the constraint for '{name}': '{text}' reads no output of a unit")
    cells: dict[str, Expr] = {STEP.name: length}
    for unit, port in outputs:
        first, path = wiring.outputs[unit, port], port if unit == INPUTS else f"{unit}.{port}"
        cells |= cell_names(path, first, wiring.port((unit, port)))
    return substitute(made.cells[0], cells)
