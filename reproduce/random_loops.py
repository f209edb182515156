"""Random graphs of units with algebraic loops: solved with their residual checked, or named.

Each graph has 2 to 6 units y_i = o_i + Σ f(w_ij·u_j) with random connections u_j = y_j, so that most of them
contain loops, several of them linked, or a unit that feeds itself; f is linear, sin or tanh, and in half of
the graphs the first unit also has a state, x' = y - x, which moves its output with time. Weights come
from two sizes: small ones make a contraction (the absolute sum of every row below 1), large ones need not
even have a solution. Every solver runs on both engines for three communication steps.

A graph is *solved* when the equations hold at every communication point to 1e-8, put together again with
NumPy from the recorded outputs; *named* when the run ends with an error that names ports of a loop and its
residuals. Anything else is *wrong*: values that do not satisfy the equations, an error that
names no port of a loop, or engines that differ in any bit of the values or in what they say.

Expected | here: 0 wrong; all contractions solved, by every solver; and with Newton's method also all
linear graphs whose matrix is not close to singular (condition below 1e6). How many of the others are solved
is only reported: some have no solution, and none of the methods finds every one there is.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

import upbeat as up

GRAPHS = 100
ACCURACY = 1e-8
SHAPES: dict[str, tuple[str, Any]] = {
    "linear": ("{}", lambda z: z),
    "sin": ("sin({})", np.sin),
    "tanh": ("tanh({})", np.tanh),
}
SOLVERS = {"newton": up.Newton(), "fixed point": up.FixedPoint(), "anderson": up.Anderson()}
ENGINES = ("interpret", "native")


@dataclass(frozen=True)
class Graph:
    """y = offsets + Σ f(weights·y), and the state of the first unit on top if there is one."""

    weights: np.ndarray
    offsets: np.ndarray
    shape: str
    state: bool

    @property
    def contracts(self) -> bool:
        return float(np.abs(self.weights).sum(axis=1).max()) < 0.9

    @property
    def regular(self) -> bool:
        loop = np.eye(len(self.offsets)) - self.weights
        return self.shape == "linear" and float(np.linalg.cond(loop)) < 1e6

    def in_loops(self) -> set[int]:
        """The units that can reach themselves."""
        edges = (self.weights != 0).astype(int)
        reach, power = edges.copy(), edges.copy()
        for _ in range(len(edges)):
            power = np.minimum(power @ edges, 1)
            reach = np.minimum(reach + power, 1)
        return set(map(int, np.flatnonzero(np.diag(reach))))

    def scenario(self) -> up.Scenario:
        units: dict[str, up.Model] = {}
        links: dict[str, str] = {}
        for i, row in enumerate(self.weights):
            used = [int(j) for j in np.flatnonzero(row)]
            terms = [SHAPES[self.shape][0].format(f"({float(row[j])!r})*u{j}") for j in used]
            value = " + ".join([repr(float(self.offsets[i])), *terms])
            ports = [f"u{j}" for j in used]
            if self.state and i == 0:
                units["m0"] = up.Ode(
                    inputs=ports, states={"x": f"{value} - x"}, outputs={"y": f"{value} + x", "x": "x"}
                )
            else:
                units[f"m{i}"] = up.Function(inputs=ports, outputs={"y": value})
            links |= {f"m{i}.u{j}": f"m{j}.y" for j in used}
        return up.Scenario(units=units, connections=links)

    def residual(self, trace: up.Trace) -> float:
        """How far the recorded outputs are from satisfying the equations, at worst."""
        y = np.array([trace[f"m{i}.y"] for i in range(len(self.offsets))])
        given = SHAPES[self.shape][1](self.weights[:, :, None] * y[None, :, :])
        right = self.offsets[:, None] + given.sum(axis=1)
        if self.state:
            right[0] += trace["m0.x"]
        return float(np.max(np.abs(y - right)))


def drawn(random: np.random.Generator) -> Graph:
    n = int(random.integers(2, 7))
    there = random.random((n, n)) < random.choice([0.3, 0.6])
    small = random.random() < 0.5
    weights = np.where(there, random.uniform(-1, 1, (n, n)) * (0.8 / n if small else 2.5), 0.0)
    shape = str(random.choice(list(SHAPES)))
    return Graph(weights, random.uniform(-2, 2, n), shape, bool(random.random() < 0.5))


def tried(graph: Graph, solver: Any, engine: str) -> up.Trace | str:
    """The trace, or what the error says."""
    coupling = up.Jacobi(loops=solver)
    try:
        return up.simulate(graph.scenario(), pace=0.1, until=0.3, coupling=coupling, engine=engine)
    except up.StepError as error:
        return str(error)


def judged(graph: Graph, results: list[up.Trace | str]) -> str:
    """Solved, named or wrong; the results are those of the engines."""
    first, *others = results
    if isinstance(first, str):
        ports = [f"m{i}.{what}" for i in graph.in_loops() for what in ("y", "u")]
        named = "residual" in first and any(port in first for port in ports)
        return "named" if named and all(other == first for other in others) else "wrong"
    for other in others:
        if isinstance(other, str) or any(np.any(first[name] != other[name]) for name in first.names):
            return "wrong"
    return "solved" if graph.residual(first) <= ACCURACY else "wrong"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    parser.add_argument("--graphs", type=int, default=GRAPHS)
    parser.add_argument("--seed", type=int, default=3)
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    random = np.random.default_rng(options.seed)
    graphs = [drawn(random) for _ in range(options.graphs)]
    loops = sum(bool(graph.in_loops()) for graph in graphs)
    print(f"{len(graphs)} graphs, {loops} of them with loops")
    found: dict[str, dict[str, dict[str, int]]] = {}
    ok = True
    print(f"{'solver':14}{'graphs':22}{'expected: solved, wrong':>26} | here: solved, named, wrong")
    for name, solver in SOLVERS.items():
        counts = {kind: Counter[str]() for kind in ("contractions", "regular linear", "others")}
        for graph in graphs:
            kind = "contractions" if graph.contracts else "regular linear" if graph.regular else "others"
            counts[kind][judged(graph, [tried(graph, solver, engine) for engine in ENGINES])] += 1
        for kind, count in counts.items():
            must = kind == "contractions" or (kind == "regular linear" and name == "newton")
            ok = ok and count["wrong"] == 0 and (not must or count["solved"] == count.total())
            expected = f"{count.total() if must else '-'}, 0"
            here = f"{count['solved']}, {count['named']}, {count['wrong']}"
            print(f"{name:14}{kind:22}{expected:>26} | {here}")
        found[name] = {kind: dict(count) for kind, count in counts.items()}
    print("ok" if ok else "NOT as expected")
    if options.json:
        print(
            json.dumps({"graphs": len(graphs), "with_loops": loops, "found": found, "ok": ok}),
            file=sys.__stdout__,
        )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
