"""What an FMU's directional derivatives are good for: Jacobians, and how fast indicators change."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from upbeat.units.fmi.description import Causality, ModelDescription, Variable
from upbeat.units.fmi.instance import Instance


def jacobian(
    instance: Instance, place: Callable[[float, list[float]], None]
) -> Callable[[float, list[float]], list[list[float]]] | None:
    """The derivatives of all state derivatives by all states at a time and a state; None if not known."""
    description = instance.description
    known = [description.by_name[name] for name in description.states]
    if not instance.interface.directional_derivatives or any(v.dimensions for v in known):
        return None  # arrays may have another size than the description says
    unknown = [description.by_name[each.variable] for each in description.structure.derivatives]

    def at(t: float, x: list[float]) -> list[list[float]]:
        place(t, x)
        columns = [instance.directional(unknown, [state], (1.0,)) for state in known]
        return [list(row) for row in zip(*columns, strict=True)]

    return at


def indicator_names(description: ModelDescription) -> tuple[str, ...]:
    """A name for each event indicator: FMI 3's own, or numbers."""
    named = [description.by_name[each.variable] for each in description.structure.event_indicators]
    if not named:
        return tuple(f"z[{i + 1}]" for i in range(description.event_indicator_count))
    return tuple(v.name if not v.dimensions else f"{v.name}[{i + 1}]" for v in named for i in range(v.cells))


def rates(instance: Instance, inputs: Sequence[Variable], slopes: Sequence[float]) -> Sequence[float] | None:
    """How fast the indicators change along the solution, while these inputs change with these slopes.

    Known where the FMU has directional derivatives and names its indicators (FMI 3), unless they may
    depend on time itself, for which directional derivatives have no place.
    """
    description = instance.description
    indicators = description.structure.event_indicators
    independent = {v.name for v in description.variables if v.causality is Causality.INDEPENDENT}
    if not indicators or not instance.interface.directional_derivatives:
        return None
    for each in indicators:
        if each.dependencies is None or independent & {name for name, _ in each.dependencies}:
            return None
    states = [description.by_name[name] for name in description.states]
    unknown = [description.by_name[each.variable] for each in indicators]
    seed = [*(instance.derivatives() if states else ()), *slopes]
    return instance.directional(unknown, [*states, *inputs], seed) if seed else [0.0] * len(unknown)
