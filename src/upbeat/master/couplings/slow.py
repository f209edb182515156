"""Slow signals seen at the ends of fast steps: for inputs that mix sources of several rates."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import perm

from upbeat.core.expr import ZERO, Cell, Expr, fold
from upbeat.core.expr.nodes import with_args
from upbeat.core.ports import Kind
from upbeat.master.inputs.approximation import Hold
from upbeat.master.inputs.course import Place
from upbeat.master.port_registers import End, Interval
from upbeat.master.program import Block, If, Instruction, Let, Repeat
from upbeat.master.wiring import Wiring


class Slow:
    """What an input gets from its slower sources at the end of each part of a communication step.

    Such an input is an expression that is computed after every fast step, when its slow sources are
    known at the ends of the whole one only. So each of these runs along a course of its own, by the
    approximation of the input: towards the value at the end where that is known (`ahead`), from what was
    known at the start where it is not. The expression is then computed from its values on that course.
    """

    def __init__(
        self, wiring: Wiring, end: End, sources: Sequence[End], part: Interval, *, ahead: bool, kept: bool
    ) -> None:
        """`kept`: the registers of the sources hold their values of the start until the step is over."""
        self.begin: list[Instruction] = []
        """At the start of the communication step."""
        self.known: list[Instruction] = []
        """Once the slower units have gone ahead."""
        self.sample: list[Instruction] = []
        """At the end of each part."""
        self.after: list[Instruction] = []
        """At every exchange between communication steps."""
        self._cells: dict[int, Expr] = {}
        self._targets = {let.to for let in wiring.compute(end) if isinstance(let, Let)}
        elapsed = Cell(part.next) - Cell(wiring.now)
        for source in sources:
            port, real = wiring.port(source), wiring.port(source).kind is Kind.REAL
            approximation = wiring.approximation(end) if real else Hold()
            if approximation == Hold() and (ahead or kept):
                continue  # its register says it already
            if wiring.outputs[source] in self._cells:
                continue  # a derivative of one that came before
            chain = [wiring.outputs[source]]
            derivative, unsure = port.derivative, False
            while len(chain) <= approximation.derivatives and (source[0], derivative) in sources:
                chain.append(wiring.outputs[source[0], str(derivative)])
                rate = wiring.port((source[0], str(derivative)))
                derivative, unsure = rate.derivative, unsure or rate.extra
            name = f"{wiring.label(end)} from {wiring.label(source)}"
            known = tuple(chain)
            if not ahead:
                new = wiring.registers.new
                known = tuple(new(f"{name}{'′' * k}", port.kind, port.cells) for k in range(len(chain)))
                self.after += [
                    Let(to + i, Cell(s + i))
                    for to, s in zip(known, chain, strict=True)
                    for i in range(port.cells)
                ]
            place = Place(
                name, port.kind, port.cells, known, known, wiring.now, wiring.next, unsure,
                counts=wiring.counts(end), counts_ahead=wiring.counts(end), within=wiring.within(end),
            )  # fmt: skip
            method = approximation.interpolate if ahead else approximation.extrapolate
            course = method(place, wiring.registers)
            wiring.beside(end, course)
            self.begin += course.early
            late = self.known if ahead else self.begin if course.at_start else self.after
            late += course.late
            if course.near is not None:
                self.begin.append(If(course.near, course.again))
            for k, original in enumerate(chain):
                at = wiring.registers.new(f"{name}′now{'′' * k}", size=port.cells)
                for i in range(port.cells):
                    coefficients: list[Expr] = [Cell(register + i) for register in course.by]
                    self.sample.append(Let(at + i, _derivative(coefficients, k, elapsed)))
                    self._cells.setdefault(original + i, Cell(at + i))

    def seen(self, block: Sequence[Instruction]) -> Block:
        """The block, with the input computed from the slow values of that time."""
        return tuple(self._seen(instruction) for instruction in block)

    def _seen(self, instruction: Instruction) -> Instruction:
        match instruction:
            case Let(to, value) if to in self._targets:
                return Let(to, fold(value, self._leaf, with_args))
            case Repeat(body=body):
                return replace(instruction, body=self.seen(body))
            case If(condition, then, orelse):
                return If(condition, self.seen(then), self.seen(orelse))
            case _:
                return instruction

    def _leaf(self, leaf: Expr) -> Expr:
        return self._cells.get(leaf.index, leaf) if isinstance(leaf, Cell) else leaf


def _derivative(coefficients: Sequence[Expr], order: int, elapsed: Expr) -> Expr:
    """The value of a polynomial, or of a derivative of it."""
    value: Expr = ZERO
    for power in range(len(coefficients) - 1, order - 1, -1):
        term = coefficients[power] * float(perm(power, order)) if order else coefficients[power]
        value = term if value is ZERO else value * elapsed + term
    return value


def mixed(
    wiring: Wiring, over: Mapping[End, Interval], rates: Mapping[str, int], ahead: bool
) -> dict[End, Slow]:
    """For the inputs in `over`, which take part in fast steps, what they get from slower sources."""
    found: dict[End, Slow] = {}
    for connection in wiring.scenario.connections:
        end = (connection.unit, connection.port)
        if end not in over:
            continue
        slow = [source for source in connection.sources if rates[source[0]] < rates[connection.unit]]
        if slow:
            sees = ahead and wiring.port(end).reactive is not False
            found[end] = Slow(wiring, end, slow, over[end], ahead=sees, kept=not ahead)
    return found


def of_units(found: Mapping[End, Slow], units: Collection[str]) -> list[Slow]:
    """Those of some units' inputs."""
    return [slow for end, slow in found.items() if end[0] in units]
