"""Small models for the tests of scenarios."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from upbeat.core.abilities import Ability
from upbeat.core.ports import Causality, Kind, Port


@dataclass(frozen=True)
class Fake:
    """A model with ports and nothing else."""

    ports: tuple[Port, ...]
    abilities: frozenset[Ability] = frozenset()

    def instantiate(self, name: str, start: float) -> Any:
        raise NotImplementedError

    def with_values(self, values: Mapping[str, Any]) -> Fake:
        raise NotImplementedError


def input_(name: str = "u", **options: Any) -> Port:
    return Port(name, Causality.INPUT, **options)


def output(name: str = "y", *depends: str, **options: Any) -> Port:
    return Port(name, Causality.OUTPUT, depends=frozenset(depends), **options)


def fake(*ports: Port) -> Fake:
    return Fake(ports)


def typed(kind: Kind = Kind.REAL, size: int | None = None, unit: str | None = None, items: Any = ()) -> Fake:
    """An input u and an output y of the same type, without feedthrough."""
    options: dict[str, Any] = {"kind": kind, "size": size, "unit": unit, "items": items}
    return fake(input_(**options), output(**options))
