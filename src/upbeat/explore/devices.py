"""Ensembles on a GPU, or compiled for this processor: a whole chunk is one call of generated code.

The text comes from `upbeat.generate.ensemble`. A run that fails there is made once more by the core, which
has the words for why. What cannot be printed stays on the CPU, by name.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import InvalidInput, MissingExtra, ModelError, RunError, UpbeatError
from upbeat.engine.native.ensemble import Asked, Floats, Told
from upbeat.explore.executors import Job
from upbeat.explore.sampling import Column
from upbeat.explore.work import Answers, Group, Work
from upbeat.generate.compiling import library
from upbeat.generate.ensemble import LANES, EnsembleSource, Target, printed

_log = logging.getLogger("upbeat.run")
THREADS = 128
"""Of a block on a GPU."""
_WORTH = 1000
"""Runs of one program that are worth compiling it: fewer are over in the core by then."""
_FULL = 1 << 16
"""Threads that keep a GPU busy."""


class Kernel(Protocol):
    """Generated code that makes runs."""

    def start(self, table: Floats) -> Callable[[], Told]:
        """Begin runs, a column of `table` for each; what is returned waits for them."""
        ...


def _room(asked: Asked, count: int) -> dict[str, npt.NDArray[Any]]:
    """Where runs write to, number by number."""
    size = len(asked.sampled) * len(asked.grid)
    return {
        "statistics": np.empty((max(1, len(asked.statistics)), count)),
        "samples": np.empty((max(1, size), count) if size else (1, 1)),
        "events": np.empty((asked.events, count) if asked.events else (1, 1), np.int32),
        "times": np.empty((asked.events, count) if asked.events else (1, 1)),
        "totals": np.empty((4, count)),
        "faults": np.empty(count, np.int32),
    }


def _told(asked: Asked, count: int, room: Mapping[str, npt.NDArray[Any]]) -> Told:
    """The same as the core tells it. Runs that failed have an error without words."""
    shape = (len(asked.grid), len(asked.sampled), count)
    empty = np.empty((count, 0))
    samples = room["samples"].reshape(shape).transpose(2, 0, 1) if asked.sampled and asked.grid else None
    return Told(
        room["statistics"][: len(asked.statistics)].T,
        np.empty((count, len(asked.grid), len(asked.sampled))) if samples is None else samples,
        room["events"].T if asked.events else empty.astype(np.int32),
        room["times"].T if asked.events else empty,
        room["totals"].T,
        {int(row): RunError("") for row in np.flatnonzero(room["faults"])},
    )


class Compiled:
    """The runs as machine code of this processor, on all its cores."""

    def __init__(self, source: EnsembleSource, asked: Asked, workers: int) -> None:
        self._asked = asked
        flags = ("-O3", "-march=native")
        self._call = library(source.text, flags).upbeat_ensemble
        self._call.restype = None
        self._pool = ThreadPoolExecutor(workers, "upbeat-ensemble")
        self._workers = workers

    def start(self, table: Floats) -> Callable[[], Told]:
        count = table.shape[1]
        room = _room(self._asked, count)
        pointers = [ctypes.c_void_p(one.ctypes.data) for one in (table, *room.values())]
        pieces = np.linspace(0, count, 4 * self._workers + 1).astype(np.int64)
        futures = [
            self._pool.submit(
                self._call, ctypes.c_int64(first), ctypes.c_int64(last), ctypes.c_int64(count), *pointers
            )
            for first, last in zip(pieces[:-1].tolist(), pieces[1:].tolist(), strict=True)
            if first < last
        ]

        def wait(read: Floats = table) -> Told:  # which is read until all are done
            for future in futures:
                future.result()
            return _told(self._asked, count, room)

        return wait


class Gpu:
    """The runs on a GPU, one thread each, compiled by NVRTC when they are first needed."""

    def __init__(self, source: EnsembleSource, asked: Asked, *, exact: bool = False, blocks: int = 0) -> None:
        self._asked = asked
        self._driver = _driver()
        bounds = f"{THREADS}, {blocks}" if blocks else str(THREADS)
        self.image = compiled_for_gpu(source.text.replace("THREADS", bounds), self._architecture, exact=exact)
        module = _checked(self._driver.cuModuleLoadData(self.image))
        self._function = _checked(self._driver.cuModuleGetFunction(module, b"upbeat_ensemble"))
        self._stream = _checked(self._driver.cuStreamCreate(0))

    @cached_property
    def _architecture(self) -> str:
        driver = self._driver
        device = _checked(driver.cuCtxGetDevice())
        name = driver.CUdevice_attribute
        major, minor = (
            _checked(driver.cuDeviceGetAttribute(one, device))
            for one in (
                name.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                name.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            )
        )
        return f"sm_{major}{minor}"

    def start(self, table: Floats) -> Callable[[], Told]:
        driver, stream = self._driver, self._stream
        room, memory = self._placed(table)
        self._launch(table.shape[1], memory)

        def wait(read: Floats = table) -> Told:  # which is read until the copy is done
            try:
                for name, one in room.items():
                    _checked(driver.cuMemcpyDtoHAsync(one.ctypes.data, memory[name], one.nbytes, stream))
                _checked(driver.cuStreamSynchronize(stream))
            finally:
                for one in memory.values():
                    driver.cuMemFree(one)
            return _told(self._asked, table.shape[1], room)

        return wait

    def _placed(self, table: Floats) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Room for the results, here and on the GPU, where the table is on its way to."""
        room = _room(self._asked, table.shape[1])
        memory = {
            name: _checked(self._driver.cuMemAlloc(one.nbytes))
            for name, one in {"table": table, **room}.items()
        }
        copied = self._driver.cuMemcpyHtoDAsync(
            memory["table"], table.ctypes.data, table.nbytes, self._stream
        )
        _checked(copied)
        return room, memory

    def _launch(self, count: int, memory: Mapping[str, Any]) -> None:
        given = [ctypes.c_int64(count), *(ctypes.c_void_p(int(one)) for one in memory.values())]
        packed = (ctypes.c_void_p * len(given))(*(ctypes.addressof(one) for one in given))
        size = -(-count // THREADS), 1, 1, THREADS, 1, 1
        launched = self._driver.cuLaunchKernel(
            self._function, *size, 0, self._stream, ctypes.addressof(packed), 0
        )
        _checked(launched)

    def timed(self, table: Floats, repeats: int = 3) -> tuple[float, Told]:
        """Seconds that the GPU itself takes for these runs, the best of several times, and what they told."""
        driver, stream = self._driver, self._stream
        room, memory = self._placed(table)
        begin, end = (_checked(driver.cuEventCreate(0)) for _ in range(2))
        took = []
        for _ in range(repeats + 1):  # the first one is for warming up
            _checked(driver.cuEventRecord(begin, stream))
            self._launch(table.shape[1], memory)
            _checked(driver.cuEventRecord(end, stream))
            _checked(driver.cuEventSynchronize(end))
            took.append(_checked(driver.cuEventElapsedTime(begin, end)) / 1e3)
        for name, one in room.items():
            _checked(driver.cuMemcpyDtoH(one.ctypes.data, memory[name], one.nbytes))
        for one in memory.values():
            driver.cuMemFree(one)
        return min(took[1:]), _told(self._asked, table.shape[1], room)


def _driver() -> Any:
    """The driver of the GPU, with a context for this thread."""
    try:
        from cuda.bindings import driver
    except ImportError:
        raise MissingExtra("gpu", "an ensemble on a GPU") from None
    try:
        _checked(driver.cuInit(0))
        count = _checked(driver.cuDeviceGetCount())
    except (UpbeatError, RuntimeError) as error:
        raise InvalidInput(
            f"there is no GPU that CUDA can use here ({error}): leave out --device gpu"
        ) from None
    if count == 0:
        raise InvalidInput("there is no GPU that CUDA can use here: leave out --device gpu")
    device = _checked(driver.cuDeviceGet(0))
    context = _checked(driver.cuDevicePrimaryCtxRetain(device))
    _checked(driver.cuCtxSetCurrent(context))
    return driver


def _checked(answer: Any) -> Any:
    """What a function of the driver or of NVRTC gave; its status is the first of it."""
    status, *rest = answer
    if int(status) != 0:
        raise UpbeatError(f"the GPU refused a call: {status.name}")
    return rest[0] if len(rest) == 1 else rest or None


_IMAGES: dict[str, Any] = {}


def compiled_for_gpu(text: str, architecture: str, *, exact: bool = False) -> Any:
    """Machine code of a GPU. `exact`: products and sums are not contracted, as on the CPU."""
    try:
        from cuda.bindings import nvrtc
    except ImportError:
        raise MissingExtra("gpu", "an ensemble on a GPU") from None
    options = [
        f"--gpu-architecture={architecture}",
        "--std=c++17",
        "-w",
        f"--fmad={'false' if exact else 'true'}",
    ]
    key = hashlib.sha256("\0".join([text, *options]).encode()).hexdigest()
    if key in _IMAGES:
        return _IMAGES[key]
    try:
        program = _checked(nvrtc.nvrtcCreateProgram(text.encode(), b"ensemble.cu", 0, [], []))
    except RuntimeError:  # the library of the compiler is not there
        raise MissingExtra("gpu", "an ensemble on a GPU") from None
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [one.encode() for one in options])
    if int(status) != 0:
        size = _checked(nvrtc.nvrtcGetProgramLogSize(program))
        words = b" " * size
        nvrtc.nvrtcGetProgramLog(program, words)
        raise UpbeatError(f"the compiler of the GPU refused the generated code:\n{words.decode()[:2000]}")
    size = _checked(nvrtc.nvrtcGetCUBINSize(program))
    image = b" " * size
    _checked(nvrtc.nvrtcGetCUBIN(program, image))
    _checked(nvrtc.nvrtcDestroyProgram(program))
    _IMAGES[key] = image
    return image


# ----------------------------------------------------------------------------------------------------


def neighbours(table: Floats) -> npt.NDArray[np.int64]:
    """An order of runs in which those with similar numbers are together: threads that run together do the
    same.

    Along a curve that fills the space of the first few columns (Morton's).
    """
    few = table[: min(8, len(table))]
    bits = max(1, 60 // max(1, len(few)))
    low, high = few.min(axis=1, keepdims=True), few.max(axis=1, keepdims=True)
    scaled = (few - low) / np.where(high > low, high - low, 1.0)
    cells = np.minimum((scaled * (1 << bits)).astype(np.uint64), (1 << bits) - 1)
    code = np.zeros(table.shape[1], np.uint64)
    for bit in range(bits):
        for k, column in enumerate(cells):
            code |= ((column >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * len(few) + k)
    return np.argsort(code, kind="stable")


def source_of(group: Group, target: Target, *, single: bool = False) -> EnsembleSource:
    """The generated code for the runs of a group; `ModelError` names what cannot be printed."""
    if group.places is None:
        raise ModelError("a number that varies is not one of its unit as it is")
    if group.experiment.later():
        raise ModelError("signals change parameters during the run")
    return printed(
        group.experiment.plan,
        group.experiment.span,
        group.question.asked,
        len(group.work.keys),
        group.places,
        target,
        single=single,
    )


class OnDevice:
    """A crew that is a GPU, or generated code for all cores: chunks are large, and one is under way while
    the one before is written."""

    least = 1.0

    def __init__(self, work: Work, device: str, *, single: bool = False, workers: int | None = None) -> None:
        self.workers = 1
        self._single = single
        self._target: Target = "cuda" if device == "gpu" else "c"
        self._cores = workers or os.cpu_count() or 1
        self._at_once = _FULL if device == "gpu" else LANES * self._cores
        self._refused: set[str] = set()
        self._kernels: WeakKeyDictionary[Group, Kernel] = WeakKeyDictionary()
        if all(len(work.samples[key]) == 1 for key in work.written):  # one program: it can be printed, or not
            self._kernel(work.group({key: work.samples[key][0] for key in work.written}))
        elif device == "gpu":
            _driver()

    def _kernel(self, group: Group) -> Kernel:
        """The program of a group, compiled once as long as there is that group; `ModelError` if it cannot be
        printed."""
        if group not in self._kernels:
            source = source_of(group, self._target, single=self._single)
            asked = group.question.asked
            self._kernels[group] = (
                Gpu(source, asked) if self._target == "cuda" else Compiled(source, asked, self._cores)
            )
        return self._kernels[group]

    def do(self, work: Work, jobs: Iterator[Job]) -> Iterator[tuple[int, Answers]]:
        """While the answers of a chunk are written, the next one is under way."""
        before: tuple[int, Callable[[], Answers]] | None = None
        for job in jobs:
            started = job.number, self._started(work, job.columns)
            if before is not None:
                yield before[0], before[1]()
            before = started
        if before is not None:
            yield before[0], before[1]()

    def _started(self, work: Work, columns: Mapping[str, Column]) -> Callable[[], Answers]:
        """Each program of a chunk by itself."""
        count = len(next(iter(columns.values())))
        began = time.perf_counter()
        parts = [
            (rows, self._of_program(work, chosen, {key: column[rows] for key, column in columns.items()}))
            for rows, chosen in work.grouped(columns, count)
        ]

        def wait() -> Answers:
            answers = work.no_answers(count)
            for rows, waiting in parts:
                answers.put(rows, waiting())
            # A few runs take as long as so many as there is room for, which tells how long a chunk will.
            full = min(1.0, count / self._at_once)
            return answers._replace(seconds=(time.perf_counter() - began) * full)

        return wait

    def _of_program(
        self, work: Work, chosen: Mapping[str, Any], columns: Mapping[str, Column]
    ) -> Callable[[], Answers]:
        """Runs of one program, by generated code where that is worth it and can be had."""
        in_core = partial(work.run, columns)
        if chosen and len(next(iter(columns.values()))) < _WORTH:
            return in_core
        try:
            group = work.group(chosen)
        except InvalidInput:
            return in_core  # where each of them is a row with this reason
        try:
            kernel = self._kernel(group)
        except ModelError as error:
            if str(error) not in self._refused:
                self._refused.add(str(error))
                _log.warning("these runs stay in the core: %s", error)
            return in_core
        return self._by_kernel(kernel, group, columns)

    def _by_kernel(
        self, kernel: Kernel, group: Group, columns: Mapping[str, Column]
    ) -> Callable[[], Answers]:
        table = group.table(columns, len(next(iter(columns.values()))))
        order = neighbours(table.T)
        waiting = kernel.start(np.ascontiguousarray(table[order].T))

        def wait() -> Answers:
            told = waiting()
            back = np.argsort(order)
            failed = order[list(told.failures)] if told.failures else np.array([], np.int64)
            arrays = {name: np.ascontiguousarray(getattr(told, name)[back]) for name in Told._fields[:-1]}
            told = Told(**arrays, failures={})
            answers = group.answers(told, table, {})
            if len(failed):
                answers.put(failed, group.run({key: column[failed] for key, column in columns.items()}))
            return answers

        return wait

    def close(self) -> None:
        """Nothing stays."""


def device_crew(work: Work, device: str, *, single: bool, workers: int | None) -> OnDevice | None:
    """A crew on this device; None, with a word about why, where this work stays with the core."""
    if device not in ("gpu", "compiled"):
        raise InvalidInput(f'there is no device "{device}": take "gpu" or "compiled"')
    if single and device != "gpu":
        raise InvalidInput("single precision is for a GPU: leave out --single, or add --device gpu")
    if work.functions:
        name = next(iter(work.functions))
        _log.warning("the output '%s' is a Python function: the study runs on the CPU, run by run", name)
        return None
    try:
        return OnDevice(work, device, single=single, workers=workers)
    except ModelError as error:
        _log.warning("the study runs in the core: %s", error)
        return None
