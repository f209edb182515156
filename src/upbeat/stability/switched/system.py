"""Switched systems: a matrix for each policy, and an automaton of the sequences that there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import InvalidInput, check_type
from upbeat.stability.switched.automaton import Array, Automaton


@dataclass(frozen=True)
class SwitchedSystem:
    """x := A·x at every step, with the matrix A of the policy that is taken then.

    `matrices` belong to the policies in order, all over the same state. `automaton` says which sequences of
    policies there are; without one, all. `names` are those of the policies.
    """

    matrices: Array
    automaton: Automaton
    names: tuple[str, ...] = field(default=())

    def __init__(
        self,
        matrices: Sequence[npt.ArrayLike] | Array,
        automaton: Automaton | None = None,
        names: Iterable[str] = (),
    ) -> None:
        checked = _checked(matrices)
        check_type(names, Iterable, "names")
        named = tuple(str(name) for name in names) or tuple(str(k) for k in range(len(checked)))
        if len(named) != len(checked) or len(set(named)) != len(named):
            raise InvalidInput(
                f"{len(checked)} policies need as many different names, not {', '.join(named)}"
            )
        if automaton is not None:
            check_type(automaton, Automaton, "automaton")
        graph = Automaton.free(len(checked)) if automaton is None else automaton
        unknown = sorted({edge.symbol for edge in graph.edges if edge.symbol >= len(checked)})
        if unknown:
            raise InvalidInput(
                f"the automaton has edges for policy {unknown[0]}, but there are {len(checked)} matrices: "
                "policies are counted from 0"
            )
        object.__setattr__(self, "matrices", checked)
        object.__setattr__(self, "automaton", graph if graph.right_resolving else graph.resolved())
        object.__setattr__(self, "names", named)

    @property
    def size(self) -> int:
        """Of the state."""
        return int(self.matrices.shape[1])

    @cached_property
    def radii(self) -> tuple[float, ...]:
        """The spectral radius of each policy alone."""
        return tuple(float(r) for r in np.abs(np.linalg.eigvals(self.matrices)).max(1))

    def only(self, policies: Sequence[int]) -> SwitchedSystem:
        """Some of the policies, in any sequence."""
        return SwitchedSystem(self.matrices[list(policies)], names=[self.names[k] for k in policies])

    def under(self, automaton: Automaton) -> SwitchedSystem:
        """The same policies in the sequences of another automaton."""
        return SwitchedSystem(self.matrices, automaton, self.names)

    def products(self, length: int) -> SwitchedSystem:
        """All products of so many policies, as policies of a system of their own (section 5.4.3)."""
        words = np.stack(np.meshgrid(*[np.arange(len(self.matrices))] * length, indexing="ij"), -1)
        words = words.reshape(-1, length)
        product = self.matrices[words[:, 0]]
        for k in range(1, length):
            product = self.matrices[words[:, k]] @ product
        names = ["·".join(self.names[k] for k in word) for word in words.tolist()]
        return SwitchedSystem(product, names=names)

    def word(self, policies: Iterable[int]) -> str:
        """A sequence of policies by their names."""
        return " · ".join(self.names[k] for k in policies)


def _checked(matrices: Sequence[npt.ArrayLike] | Array) -> Array:
    try:
        arrays = [np.atleast_2d(np.asarray(matrix, dtype=float)) for matrix in matrices]
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the matrices of a switched system are lists of numbers: {error}") from None
    if not arrays:
        raise InvalidInput("a switched system needs at least one policy, and here is no matrix")
    shape = arrays[0].shape
    for k, array in enumerate(arrays):
        if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.shape[0]:
            raise InvalidInput(f"matrix {k} is {'×'.join(map(str, array.shape))}, and must be square")
        if array.shape != shape:
            raise InvalidInput(
                f"matrix {k} is {array.shape[0]}×{array.shape[1]}, but matrix 0 is {shape[0]}×{shape[1]}: "
                "all policies must act on the same state, histories of inputs included"
            )
        if not np.isfinite(array).all():
            raise InvalidInput(f"matrix {k} has entries that are no finite numbers")
    return np.array(arrays)
