"""Where a scenario that was made from another one comes from: merged into a monolith, or flattened."""

from __future__ import annotations

from dataclasses import dataclass, field

from upbeat.scenario.directory import End


@dataclass(frozen=True, slots=True)
class Origin:
    """What people know a made scenario by: its units before, and what a trace calls its ports.

    A monolith says in `notes` what became of loops. Where nested scenarios were flattened, `shown` are the
    columns that a trace has (is it an output?) in their order; the scenario's own outputs are called
    ``columns["", name]``, and units that were inside others ``paths[name]``. `fixed` says of parameters of a
    monolith that cannot change during a run why.
    """

    units: tuple[str, ...]
    columns: dict[End, str]
    notes: tuple[str, ...] = ()
    shown: dict[str, bool] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    fixed: dict[str, str] = field(default_factory=dict)
