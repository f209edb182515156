"""A `Discrete` unit as flat tables: all that the native engine needs to run it without Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from upbeat.core.ports import Kind, Port
from upbeat.units.discrete.pieces import ModePieces, Piece
from upbeat.units.discrete.unit import start_values, state_size

if TYPE_CHECKING:
    from upbeat.units.discrete.model import Discrete


@dataclass(frozen=True, slots=True)
class DiscreteTables:
    """A whole unit.

    * `inputs`, `heard`, `outputs`, `sent`: ordinary inputs, event inputs, ordinary outputs and event
      outputs, each with its position among all ports of the model.
    * `kinds`, `start`: of the variables, as they are when the unit starts; `input_start`: of every cell of
      the ordinary inputs; `parameters`: the value of every parameter cell.
    * `mode`: which variable says the mode; -1 if there is only one.
    * `modes`, `compute`: the code of the modes and of the ordinary outputs. A piece of code says where each
      of its inputs is in [time, variables, cells of ordinary inputs, cells of event inputs, whether each
      event has been set, parameters].
    * `state_size`: the length of the state array [time, variables, then for each ordinary input: origin,
      number of coefficients, (MAX_DEGREE + 1) × cells coefficients, then the cells of the event inputs, then
      whether each has been set].
    """

    inputs: tuple[tuple[int, Port], ...]
    heard: tuple[tuple[int, Port], ...]
    outputs: tuple[tuple[int, Port], ...]
    sent: tuple[tuple[int, Port], ...]
    kinds: tuple[Kind, ...]
    start: tuple[float, ...]
    input_start: tuple[float, ...]
    parameters: tuple[float, ...]
    mode: int
    modes: tuple[ModePieces, ...]
    compute: Piece
    state_size: int


def lower(model: Discrete, start: float) -> DiscreteTables:
    """The tables of a unit that starts at time `start`."""
    numbers = {port.name: number for number, port in enumerate(model.ports)}

    def numbered(ports: tuple[Port, ...]) -> tuple[tuple[int, Port], ...]:
        return tuple((numbers[port.name], port) for port in ports)

    return DiscreteTables(
        inputs=numbered(model.inputs),
        heard=numbered(model.heard),
        outputs=numbered(model.shown),
        sent=numbered(model.sent),
        kinds=tuple(variable.kind for variable in model.variables),
        start=tuple(start_values(model, start)),
        input_start=tuple(float(value) for port in model.inputs for value in port.initial),
        parameters=model.values,
        mode=-1 if model.mode_place is None else model.mode_place,
        modes=tuple(model.pieces(i) for i in range(len(model.modes))),
        compute=model.computed,
        state_size=state_size(model),
    )
