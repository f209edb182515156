"""What of a block would compute something else, if something from before it were different."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping

from upbeat.core.abilities import Model
from upbeat.core.ports import Causality
from upbeat.master.dataflow import Flow, Resource
from upbeat.master.layout import Reg
from upbeat.master.program import Block, History, Program, Set


class Ripples:
    """The ripples that something different makes in a block.

    The effects of all instructions are looked up once, so that asking is cheap: for networks of thousands of
    units it is asked once for each of them.
    """

    def __init__(self, block: Block, flow: Flow) -> None:
        self._block = block
        self._writes: list[frozenset[Resource]] = []
        self._readers: dict[Resource, list[int]] = {}
        self._writers: dict[Resource, list[int]] = {}
        self._changes: list[frozenset[Resource]] = []
        """What each instruction reads and then overwrites: it needs what was there before it once more."""
        for index, instruction in enumerate(block):
            effects = flow.effects(instruction)
            self._writes.append(effects.writes)
            self._changes.append(effects.reads & effects.writes)
            for resource in effects.writes:
                self._writers.setdefault(resource, []).append(index)
            # A `Set` sees of its unit only the time from which the course runs, and that is the present one.
            time = {("state", instruction.unit)} if isinstance(instruction, Set) else set()
            for resource in effects.reads - time:
                self._readers.setdefault(resource, []).append(index)

    def of(
        self, dirty: Iterable[Resource], lost: Iterable[Resource] = ()
    ) -> tuple[Block, frozenset[Resource]]:
        """The instructions that see something of what is `dirty`, directly or through others.

        And all that is dirty in the end. What is left out would compute what it has computed before. What is
        `lost` has been overwritten since: whoever computes it does so again.
        """
        lost = set(lost)
        spoilt = {*dirty, *lost}
        waiting = [index for resource in spoilt for index in self._readers.get(resource, ())]
        waiting += [index for resource in lost for index in self._writers.get(resource, ())]
        heapq.heapify(waiting)
        kept: set[int] = set()
        while waiting:
            index = heapq.heappop(waiting)
            if index in kept:
                continue
            kept.add(index)
            for resource in self._changes[index]:
                for writer in self._writers[resource]:
                    if writer < index:
                        heapq.heappush(waiting, writer)
            for resource in self._writes[index] - spoilt:
                spoilt.add(resource)
                for reader in self._readers.get(resource, ()):
                    if reader > index:
                        heapq.heappush(waiting, reader)
        return tuple(self._block[index] for index in sorted(kept)), frozenset(spoilt)


def touched(block: Block, flow: Flow, dirty: Iterable[Resource]) -> tuple[Block, frozenset[Resource]]:
    """What of a block sees something of what is `dirty`, asked once (see `Ripples`)."""
    return Ripples(block, flow).of(dirty)


def forgetful(program: Program, models: Mapping[str, Model], unit: str, port: str) -> tuple[Reg, ...]:
    """The registers that restart the histories of all inputs that see this one at the same instant.

    For an input that was set by hand: what the others were before says nothing about what they will be. A
    parameter may change anything that its unit shows.
    """
    if not program.histories:
        return ()
    flow = Flow(program.layout, models)
    known = next(own for own in models[unit].ports if own.name == port)
    parameter = known.causality is Causality.PARAMETER
    dirty: Resource = ("state", unit) if parameter else ("input", unit, port)
    _, spoilt = touched(program.exchange, flow, [dirty])
    return tuple(time for history in outdated(program.histories, spoilt) for time in history.times)


def outdated(histories: Iterable[History], spoilt: Collection[Resource]) -> list[History]:
    """Those of inputs that follow something in `spoilt`, be it handed on already or in the step to come."""
    return [
        history
        for history in histories
        if ("input", history.unit, history.port) in spoilt
        or any(("cell", cell) in spoilt for cell in history.follows)
    ]
