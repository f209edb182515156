"""The columns of a trace: everything that it may record, by name."""

from __future__ import annotations

from dataclasses import replace

from upbeat.master.port_registers import PortRegisters
from upbeat.master.program import Recordable


def columns(ports: PortRegisters) -> dict[str, Recordable]:
    """Outputs, the scenario's own ports, and inputs."""
    found: dict[str, Recordable] = {}
    scenario, origin = ports.scenario, ports.scenario.origin
    for ends, is_output in ((ports.outputs, True), (ports.inputs, False)):
        for end, reg in ends.items():
            port = ports.port(end)
            if port.internal:
                continue
            name = scenario.column(*end)
            found.setdefault(
                name, Recordable(reg, port.unit, port.items, is_output and not port.extra, port.cells)
            )
    for output in scenario.outputs:
        port, name = output.port, output.port.name
        if origin is not None:
            name = origin.columns.get(("", name), name)
        found[name] = Recordable(ports.results[port.name], port.unit, port.items, cells=port.cells)
    if origin is None or not origin.shown:
        return found
    return {name: replace(found[name], output=is_output) for name, is_output in origin.shown.items()}
