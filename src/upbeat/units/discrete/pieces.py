"""The code of a `Discrete` model: kernels, each with the few arguments that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from upbeat.core.expr import Expr, Kernel, names

if TYPE_CHECKING:
    from upbeat.units.discrete.model import Assignments, Discrete, Mode


@dataclass(frozen=True)
class Piece:
    """A kernel, and where its inputs are among the arguments of the model (rising).

    Kernels over all arguments would be simpler, but most need two or three, and a unit with hundreds of
    modes has hundreds of pieces: what is not read need not be handed over.
    """

    kernel: Kernel
    places: tuple[int, ...]

    @classmethod
    def of(cls, places: Mapping[str, int], exprs: Iterable[Expr]) -> Piece:
        """The code of `exprs`, where names are found at `places`."""
        cells = tuple(exprs)
        used = sorted({name for cell in cells for name in names(cell)}, key=places.__getitem__)
        return cls(Kernel(tuple(used), cells), tuple(places[name] for name in used))

    @cached_property
    def run(self) -> Callable[[Sequence[float]], list[float]]:
        """From all arguments to the values."""
        function, places = self.kernel.python(), self.places
        if not places:
            values = function(())
            return lambda arguments: values
        return lambda arguments: function([arguments[place] for place in places])


@dataclass(frozen=True)
class Assigning:
    """Code that gives variables new values, and which these are."""

    piece: Piece
    to: tuple[int, ...]


@dataclass(frozen=True)
class ModePieces:
    """The code of one mode. `emissions` gives, for each event output in `emitted` (by its place among them),
    whether it is present and then its cells."""

    due: Piece
    emissions: Piece
    emitted: tuple[int, ...]
    internal: Assigning
    external: Assigning


def mode_pieces(model: Discrete, mode: Mode) -> ModePieces:
    """The code of one mode of `model`."""
    outputs = [port.name for port in model.sent]
    cells = [expr for emission in mode.emissions for expr in (emission.present, *emission.cells)]
    return ModePieces(
        due=Piece.of(model.places, [mode.due]),
        emissions=Piece.of(model.places, cells),
        emitted=tuple(outputs.index(emission.port) for emission in mode.emissions),
        internal=assigning(model, mode.internal),
        external=assigning(model, mode.external),
    )


def assigning(model: Discrete, assignments: Assignments) -> Assigning:
    """The code of some assignments."""
    variables = [variable.name for variable in model.variables]
    piece = Piece.of(model.places, [value for _, value in assignments])
    return Assigning(piece, tuple(variables.index(name) for name, _ in assignments))
