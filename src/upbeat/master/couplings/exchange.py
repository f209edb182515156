"""The exchange at a communication point: ports evaluated in dependency order, loops solved on the way."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from upbeat.master.algebra.loops import LoopSolver
from upbeat.master.port_registers import End, Interval
from upbeat.master.program import Instruction
from upbeat.master.wiring import Wiring
from upbeat.scenario.graph import Graph


def settled(
    wiring: Wiring,
    reactive: Collection[End],
    loops: LoopSolver | None,
    stale: set[End] | None = None,
    *,
    warm: bool = True,
    over: Mapping[End, Interval] | None = None,
    units: Collection[str] | None = None,
    graph: Graph | None = None,
    late: Collection[End] = (),
) -> list[Instruction]:
    """Read outputs and hand on inputs so that all agree at this instant.

    `stale` limits the outputs to read; None reads all. `units` limits the exchange to the ports of some
    units, `over` gives inputs that are exchanged more often the interval of their courses. Without a
    solver for loops (only lagged couplings get here with one) an input whose sources have not been
    read keeps what it has until all outputs are there. So does an input in `late`, whatever has been read;
    `graph` is the scenario's without these.
    """
    graph = wiring.scenario.graph if graph is None else graph
    sources = {(c.unit, c.port): c.sources for c in wiring.scenario.connections}
    unread = set(wiring.outputs) if stale is None else set(stale)
    if units is not None:
        unread = {end for end in unread if end[0] in units}
    inside = [loop for loop in graph.loops if units is None or all(node.unit in units for node in loop)]
    loop_of = {node: loop for loop in inside for node in loop} if loops is not None else {}
    done: set[End] = set()
    instructions: list[Instruction] = []
    waiting: list[Instruction] = []
    for node in graph.order:
        end = (node.unit, node.port)
        if units is not None and node.unit not in units:
            continue
        if loops is not None and node in loop_of and end not in done:
            loop = loop_of[node]
            members = {(n.unit, n.port) for n in loop}
            done |= members
            if stale is None or not stale.isdisjoint(members):
                instructions += loops.solve(loop, wiring, warm=warm)
                unread -= members
        if node.side == "out":
            if end in unread:
                instructions += wiring.get(end)
                unread.remove(end)
        elif end in sources:
            place = waiting if end in late or unread.intersection(sources[end]) else instructions
            if end not in reactive:
                place += wiring.extrapolate(end, (over or {}).get(end))
            elif node not in loop_of and _needed(wiring, end, stale):
                place += wiring.hold(end)
            elif stale is None or not stale.isdisjoint(sources[end]):
                place += wiring.compute(end)
    return instructions + waiting


def _needed(wiring: Wiring, end: End, stale: set[End] | None) -> bool:
    """Whether an output that is about to be read depends directly on this input, or the next event does."""
    if wiring.reacts(end[0]):
        return True
    if stale is None:
        return wiring.direct(end)
    unit, name = end
    return any(o in stale and name in wiring.port(o).depends for o in wiring.outputs_of(unit))


def stale_outputs(wiring: Wiring, reactive: Collection[End]) -> set[End]:
    """Outputs that were read during a sweep with an input that has moved on since."""
    moved: set[End] = set()
    stale: set[End] = set()
    sources = {(c.unit, c.port): c.sources for c in wiring.scenario.connections}
    for loop in wiring.scenario.graph.loops:
        stale |= {(unit, port) for side, unit, port in loop if side == "out"}
    for side, unit, port in wiring.scenario.graph.order:
        end = (unit, port)
        if side == "in":
            if end in sources and (end not in reactive or any(source in stale for source in sources[end])):
                moved.add(end)
        elif any((unit, name) in moved for name in wiring.port(end).depends):
            stale.add(end)
    return stale
