"""The C++ core as Python sees it; `upbeat.engine.native.machine` is the way to use it."""

from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

Ports = list[tuple[int, int, int]]
Piece = tuple[Kernel, list[int], int]
Assigning = tuple[Piece, list[int]]
Mode = tuple[Piece, Piece, list[int], Assigning, Assigning]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Fired = tuple[bytes, bytes, bytes, bytes]
Left = tuple[int, float, int, bytes, Fired]

class Busy(RuntimeError): ...
class Closed(RuntimeError): ...

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
        slopes: list[tuple[int, int, Kernel, int]],
        solver: object,
        compiled_derivatives: int = 0,
        compiled_compute: int = 0,
        others: Sequence[object] = (),
        chooser: int = -1,
    ) -> None: ...

class Hybrid:
    def __init__(
        self,
        ode: Ode,
        heard: Ports,
        sent: Ports,
        events: list[
            tuple[str, int, tuple[int, ...], tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]
        ],
        changing: list[int],
        indicators: Kernel,
        actions: Kernel,
        compiled_indicators: int = 0,
        compiled_actions: int = 0,
    ) -> None: ...

class Discrete:
    def __init__(
        self,
        inputs: Ports,
        heard: Ports,
        outputs: Ports,
        sent: Ports,
        kinds: list[int],
        start: list[float],
        input_start: list[float],
        parameters: list[float],
        mode: int,
        modes: list[Mode],
        compute: Piece,
    ) -> None: ...

class Addresses:
    @overload
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
        pack: int = 0,
        unpack: int = 0,
        due: int = 0,
        slope: int = 0,
    ) -> None: ...
    @overload
    def __init__(self, table: int) -> None: ...
    def close(self) -> None: ...

class Fmu:
    def __init__(self, tables: object, keeper: object) -> None: ...
    def complaints(self) -> Sequence[str]: ...
    def close(self) -> None: ...

class Python:
    def __init__(self, unit: object, ports: list[tuple[str, int, int, bool]], /) -> None: ...

class Nested:
    def __init__(
        self,
        tables: object,
        kernels: list[Kernel],
        units: list[Any],
        pace: str,
        parameters: list[float],
        texts: list[str],
        blocks: list[int],
        ports: list[tuple[int, int, int]],
        names: object,
    ) -> None: ...
    @property
    def names(self) -> Any: ...
    def close(self) -> None: ...

class Machine:
    def __init__(self, tables: object, kernels: list[Kernel], units: list[Any], start: float) -> None: ...
    def begin_units(self) -> bool: ...
    def efforts(self) -> list[list[int]]: ...
    def execute(self, block: int, /) -> bool: ...
    def save(self, place: int, /) -> bool: ...
    def restore(self, place: int, /) -> bool: ...
    def pack(self, place: int, /) -> bytes | None: ...
    def unpack(self, place: int, data: bytes, /) -> bool: ...
    def set_input(self, unit: int, port: int, kind: int, values: list[Any], count: int, /) -> bool: ...
    def read(self, cell: int, /) -> Any: ...
    def write(self, cell: int, value: object, /) -> None: ...
    def take_error(self) -> tuple[Any, ...]: ...
    def take_fired(self) -> Fired: ...
    def strings(self, first: int, /) -> list[str]: ...
    def close(self, then: Callable[[], None] | None = None) -> None: ...

class Loop:
    def __init__(
        self,
        machine: Machine,
        pace: str,
        parameters: list[float],
        texts: list[str],
        blocks: list[int],
        columns: list[int] | None,
        every: int,
    ) -> None: ...
    def begin(self, chunk: Floats | None, limit: float = ...) -> Left: ...
    def run(self, chunk: Floats | None, limit: float, budget: float, most: int) -> Left: ...
    def reason(self, code: int, /) -> tuple[str, str, float | None, list[float]]: ...
    @property
    def state(self) -> list[float]: ...
    def stand(self, state: list[float], /) -> bool: ...
    def after(self, rows: int, /) -> None: ...

class Remote:
    def __init__(
        self,
        keeper: object,
        link: tuple[int, int, int],
        calls: tuple[bool, bool, bool, bool],
        ports: list[tuple[int, int, bool]],
        deadline: float,
        restarts: int,
        keep_every: int,
    ) -> None: ...
    def get(self, port: int, /) -> Any: ...
    def set(self, port: int, coefficients: Sequence[Any], /) -> None: ...
    def advance(self, t: float, to: float, early: bool = False) -> float: ...
    def jump(self) -> bool: ...
    def due(self) -> float: ...
    def slope(self, output: int, input: int, /) -> list[float]: ...
    def save(self, slot: int, /) -> None: ...
    def restore(self, slot: int, /) -> None: ...
    def pack(self, slot: int, /) -> bytes: ...
    def unpack(self, slot: int, data: bytes, /) -> None: ...
    def close(self) -> None: ...

class Server:
    def __init__(
        self,
        unit: object,
        start: float,
        file: int,
        size: int,
        ports: list[tuple[int, int, bool]],
        words: Callable[[BaseException], str],
        prefix: str,
        more: Callable[[], str] | None = None,
    ) -> None: ...
    @property
    def calls(self) -> tuple[bool, bool, bool, bool]: ...
    def record(self) -> None: ...
    def run(self) -> None: ...

def end_with(pipe: int, /) -> None: ...
def opcodes() -> dict[str, int]: ...
def reasons() -> dict[str, str]: ...
def announce_faults(before: str, after: str) -> None: ...
def leave_faults_alone() -> None: ...
def forbid_exit(words: str, code: int) -> None: ...
def crossing_seconds(seconds: float) -> float: ...
def fmi2_logger_address() -> int: ...
def fmi3_intermediate_address() -> int: ...
def set_fmi2_log_sink(
    sink: Callable[[int, bytes, int, bytes, bytes], object] | None,
) -> Callable[[int, bytes, int, bytes, bytes], object] | None: ...
