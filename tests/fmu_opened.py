"""An FMU that is unpacked and whose instances are freed at the end, for tests of the binding."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from upbeat.units.fmi.archive import unpack
from upbeat.units.fmi.description import InterfaceKind, Variable, read_description
from upbeat.units.fmi.instance import Instance, instantiate

CS, ME = InterfaceKind.CO_SIMULATION, InterfaceKind.MODEL_EXCHANGE


class Opened:
    """The FMU; ``opened["x"]`` is its variable x."""

    def __init__(self, path: Path) -> None:
        self.unpacked = unpack(path)
        self.folder = self.unpacked.path
        self.description = read_description(self.folder)
        self.version = self.description.version
        self.made: list[Instance] = []

    def __getitem__(self, name: str) -> Variable:
        return self.description.by_name[name]

    def instance(self, kind: InterfaceKind = CS, **more: Any) -> Instance:
        """One in the state "instantiated"."""
        self.made.append(instantiate(self.folder, self.description, kind, more.pop("name", "one"), **more))
        return self.made[-1]

    def begun(self, kind: InterfaceKind = CS, **more: Any) -> Instance:
        """One that has been initialised at 0."""
        instance = self.instance(kind, **more)
        instance.enter_initialization(0.0, None, None)
        instance.exit_initialization()
        return instance


@contextmanager
def opened(path: Path) -> Iterator[Opened]:
    one = Opened(path)
    try:
        yield one
    finally:
        for instance in one.made:
            instance.free()
        one.unpacked.close()
