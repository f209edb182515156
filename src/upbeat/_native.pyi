"""The C++ core as Python sees it; `upbeat.engine.native` is the way to use it."""

from typing import Any

import numpy as np
import numpy.typing as npt

Ports = list[tuple[int, int]]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]

class Kernel:
    def __init__(
        self,
        inputs: int,
        constants: Floats,
        code: Ints,
        results: Ints,
        tables: list[tuple[list[float], ...]],
        /,
    ) -> None: ...
    def evaluate(self, inputs: list[float], /) -> list[float]: ...

class Ode:
    def __init__(
        self,
        inputs: Ports,
        outputs: Ports,
        states: list[float],
        input_start: list[float],
        parameters: list[float],
        derivatives: Kernel | None,
        compute: Kernel,
        solver: object,
        compiled_derivatives: int = 0,
        compiled_compute: int = 0,
    ) -> None: ...

class Addresses:
    def __init__(
        self,
        context: int,
        get: int,
        set: int,
        advance: int,
        jump: int = 0,
        save: int = 0,
        restore: int = 0,
        message: int = 0,
        destroy: int = 0,
    ) -> None: ...

class Python:
    def __init__(self, unit: object, ports: list[tuple[str, int, int]], /) -> None: ...

class Recorder: ...

class FixedRun:
    def __init__(
        self, start: float, stop: float, step: float, count: int, block: int, instant: int
    ) -> None: ...
    @property
    def done(self) -> int: ...
    @property
    def time(self) -> float: ...
    def stand_at(self, done: int, time: float, /) -> None: ...

class Machine:
    def __init__(self, tables: object, kernels: list[Kernel], units: list[Any], start: float) -> None: ...
    def execute(self, block: int, /) -> bool: ...
    def save(self) -> bool: ...
    def restore(self) -> bool: ...
    def set_input(self, unit: int, port: int, kind: int, values: list[Any], /) -> bool: ...
    def read(self, cell: int, /) -> Any: ...
    def write(self, cell: int, value: object, /) -> None: ...
    def take_error(self) -> tuple[Any, ...]: ...
    def take_fired(self) -> list[tuple[int, int, float]]: ...
    def strings(self) -> list[str]: ...
    def recorder(self, columns: list[int], every: int) -> Recorder: ...
    def run_fixed(
        self, run: FixedRun, recorder: Recorder, chunk: Floats, budget: float, most: int
    ) -> tuple[int, int]: ...
    def close(self) -> None: ...

def opcodes() -> dict[str, int]: ...
