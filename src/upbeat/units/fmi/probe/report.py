"""What a probe found, as data: rows of *declared* and *measured*, the interface, the feedthrough."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT = 1
"""Of the JSON; see docs/probe.md."""


@dataclass(frozen=True, slots=True)
class Row:
    """One property: what the FMU declares (None: nothing), what was measured, and whether that is well."""

    name: str
    declared: bool | None
    measured: str
    ok: bool


@dataclass(frozen=True, slots=True)
class PortRow:
    """One port of the interface."""

    name: str
    causality: str
    kind: str
    size: int | None = None
    unit: str | None = None
    start: list[Any] | None = None
    event: bool = False


@dataclass(frozen=True, slots=True)
class Reaction:
    """The inputs an output reacts to: as declared, at once, and after one more step."""

    output: str
    declared: list[str]
    at_once: list[str]
    after_a_step: list[str]


@dataclass(frozen=True, kw_only=True)
class Report:
    """The whole of it. `crash` says how it ended its process, or hung, in ordinary use; it may be empty."""

    file: str
    sha256: str
    name: str
    fmi: str
    tool: str
    platform: str
    upbeat: str
    interfaces: list[str]
    interface: str
    step: float | None
    time_per_step_ns: float | None
    usable: bool
    crash: str
    ports: list[PortRow]
    rows: list[Row]
    feedthrough: list[Reaction]
    notes: list[str] = field(default_factory=list)

    @property
    def findings(self) -> list[str]:
        """What is not well, one line each."""
        return [f"{row.name}: {row.measured}" for row in self.rows if not row.ok]

    def to_json(self) -> dict[str, Any]:
        """What `upbeat probe --json` prints."""
        return {"format": FORMAT, **asdict(self), "findings": self.findings}
