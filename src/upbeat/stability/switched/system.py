"""Switched systems: a matrix for each policy, and an automaton of the sequences that there are."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, log
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import InvalidInput, check_type
from upbeat.master.inputs.approximation import CLOSE, FADES
from upbeat.stability.linear.followed import USUAL
from upbeat.stability.linear.induced import At, Inducing
from upbeat.stability.switched.automaton import Array, Automaton, Edge


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
        """All products of so many policies, as policies of a system of their own."""
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


# ----------------------------------------------------------------------------------------------------
# The matrices of policies: one for each, or for each sequence of as many as a step looks back on.

SAME = 1e-12
"""Matrices that differ by less than this, relatively, are the same but for rounding."""
Flags = npt.NDArray[np.bool_]
WINDOWS = 4096
"""Sequences of steps whose matrices are looked at."""


class Policy(NamedTuple):
    """One way to make a step: a step block of the program, and the size of the step."""

    block: str
    step: float

    def __str__(self) -> str:
        return f"{self.step:g}" if self.block == USUAL else f"{self.block} {self.step:g}"


def spelled(policies: Sequence[Policy], between: str = ", ") -> str:
    """Sizes of steps with their unit: `0.5, 1 s`, or `0.1 s (block step), 0.1 s (block fine)`."""
    if all(policy.block == USUAL for policy in policies):
        return f"{between.join(f'{policy.step:g}' for policy in policies)} s"
    return between.join(f"{policy.step:g} s (block {policy.block})" for policy in policies)


class Windows(NamedTuple):
    """A matrix for each sequence of `memory` policies and one more, in the order of `itertools.product`."""

    memory: int
    matrices: Array
    linear: bool
    notes: tuple[str, ...]


def windows(inducing: Inducing, policies: Sequence[Policy], at: At = "start") -> Windows:
    """How many steps back matter, and the matrix for each sequence of so many and one more, at a point."""
    machine = inducing.machine(policies[0].step)
    depth, own = machine.depth, np.array(machine.extended.own, dtype=bool)
    if (
        depth > 1
    ):  # which points inputs keep depends on how long steps were, for as long as that is remembered
        sizes = [policy.step for policy in policies]
        depth += max(0, ceil(log(CLOSE * max(sizes) / min(sizes)) / -log(FADES)))
    if len(policies) ** depth > WINDOWS:
        raise InvalidInput(
            f"inputs look back so far that there are {len(policies) ** depth} cases to tell apart: take "
            f"fewer than {len(policies)} policies, or simpler approximations of inputs"
        )
    found: list[Array] = []
    linear = True
    notes: tuple[str, ...] = ()
    for window in itertools.product(policies, repeat=depth):
        # One step before the window, so that histories are complete; which one does not matter any more.
        whole, model = inducing.after([policies[0], *window][-depth - 1 :], at)
        found.append(whole)
        linear, notes = linear and model.linear, model.notes
    matrices, own = _moving(np.array(found), own)
    memory = depth - 1
    while memory:  # a step that makes no difference need not be remembered
        split = matrices.reshape(len(policies), -1, *matrices.shape[1:])
        if np.abs(split - split[0]).max() > SAME * max(1.0, float(np.abs(split).max())):
            break
        matrices, memory = split[0], memory - 1
    return Windows(memory, reduced(_felt(matrices, shifts(len(policies), memory), own)), linear, notes)


def shifts(count: int, memory: int) -> Automaton:
    """All sequences, with nodes that remember so many steps."""
    nodes = count**memory
    edges = (
        Edge(window // count, window % nodes if memory else 0, window) for window in range(nodes * count)
    )
    return Automaton(nodes, tuple(edges))


def _moving(matrices: Array, own: Flags) -> tuple[Array, Flags]:
    """Entries, and which are states of units, without what every step leaves as it is.

    That is a register that waits for an event, or an input left alone.
    """
    still = [
        i
        for i in range(matrices.shape[1])
        if not own[i] and all(row[i] == 1.0 and np.count_nonzero(row) == 1 for row in matrices[:, i])
    ]
    kept = [i for i in range(matrices.shape[1]) if i not in still]
    return np.asarray(matrices[:, kept][:, :, kept]), own[kept]


def _felt(matrices: Array, automaton: Automaton, own: Flags) -> Array:
    """The same system without what no state of a unit will ever feel, seen from each node.

    A history that only one of several couplings keeps is left as it is while another one works, and is
    forgotten when the first takes over again. Such a number never decays, and never matters.
    """
    size = matrices.shape[1]
    felt = np.zeros((automaton.nodes, size), bool)
    felt[:, own] = True
    changed = True
    while changed:
        before = felt.copy()
        for source, target, symbol in automaton.edges:
            felt[source] |= (matrices[symbol][felt[target]] != 0.0).any(0)
        changed = bool((felt != before).any())
    found = matrices.copy()
    for source, target, symbol in automaton.edges:
        found[symbol][~felt[target]] = 0.0
        found[symbol][:, ~felt[source]] = 0.0
    return found


def reduced(matrices: Array) -> Array:
    """The same system without what every step overwrites, or makes of the rest.

    After one step the state lies in what the matrices can give; and what all of them ignore does not matter.
    Where there is no state at all there is one number that is always zero.
    """
    if not matrices.shape[1]:
        return np.zeros((len(matrices), 1, 1))
    while True:
        size = matrices.shape[1]
        for rows in (True, False):
            stacked = np.concatenate(list(matrices if rows else matrices.transpose(0, 2, 1)), axis=0)
            _, strengths, basis = np.linalg.svd(stacked, full_matrices=False)
            rank = int(np.count_nonzero(strengths > SAME * max(float(strengths[0]), 1e-300)))
            kept = basis[: max(rank, 1)]
            matrices = kept @ matrices @ kept.T
        if matrices.shape[1] == size:
            return matrices
