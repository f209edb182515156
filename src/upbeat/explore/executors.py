"""Where the chunks of a study run: threads and processes of this machine, anybody's executor, a cluster.

An executor is whatever has `submit`, as those of `concurrent.futures` do (mpi4py's, loky's), a
`joblib.Parallel`, or a `distributed.Client` of Dask: `crew` makes one small thing of all of them.
"""

from __future__ import annotations

import enum
import hashlib
import io
import os
import pickle
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, NamedTuple, Protocol

import numpy as np

from upbeat.core.abilities import Ability
from upbeat.core.atomic import replace_file
from upbeat.core.errors import InvalidInput, MissingExtra, UpbeatError
from upbeat.core.records import dataclass
from upbeat.explore.sampling import Column
from upbeat.explore.work import Answers, Status, Work
from upbeat.trace.extras import need
from upbeat.units.fmi.known import folder as cache_folder

# ----------------------------------------------------------------------------------------------------
# Work on its way to other processes and machines. Files that it names travel by what is in them.


class Parcel(NamedTuple):
    """Work as bytes. `files` are the contents of files, by their hash, for machines that do not have them."""

    key: str
    data: bytes
    files: Mapping[str, bytes]


def parcel(work: Work, *, files: bool) -> Parcel:
    """The work as a parcel; with `files`, for another machine."""
    found: dict[str, Path] = {}
    buffer = io.BytesIO()
    try:
        _Packer(buffer, found).dump(work)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidInput(
            f"this study cannot be sent to other processes: {error}. Functions that are outputs must be "
            "defined at the top "
            'of a module, or run it in this process: executor="here"'
        ) from None
    data = buffer.getvalue()
    contents = {key: path.read_bytes() for key, path in found.items()} if files else {}
    return Parcel(hashlib.sha256(data).hexdigest(), data, contents)


class _Packer(pickle.Pickler):
    """Pickles paths of files as what is in the file."""

    def __init__(self, to: io.BytesIO, files: dict[str, Path]) -> None:
        super().__init__(to, pickle.HIGHEST_PROTOCOL)
        self._files = files

    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, Path) and value.is_file():
            key = _content(value, value.stat().st_mtime_ns)
            self._files[key] = value
            return key, str(value.absolute())
        return None

    def reducer_override(self, value: Any) -> Any:
        """Functions that no module has, by value."""
        apart = "<" in getattr(value, "__qualname__", "") or getattr(value, "__module__", "") == "__main__"
        if hasattr(value, "__code__") and apart:
            try:
                import cloudpickle
            except ImportError:
                return NotImplemented
            return cloudpickle.loads, (cloudpickle.dumps(value),)
        return NotImplemented


class _Unpacker(pickle.Unpickler):
    """Gives paths of files with the same content: where they were, or of a copy."""

    def __init__(self, source: io.BytesIO, files: Mapping[str, bytes]) -> None:
        super().__init__(source)
        self._files = files

    def persistent_load(self, key: Any) -> Path:
        content, name = key
        path = Path(name)
        if path.is_file() and _content(path, path.stat().st_mtime_ns) == content:
            return path
        copy = cache_folder() / "files" / f"{content[:32]}{path.suffix}"
        if not copy.is_file():
            if content not in self._files:
                raise InvalidInput(f"'{name}' is not here, or another file than the study was made with")
            copy.parent.mkdir(parents=True, exist_ok=True)
            replace_file(copy, self._files[content])
        return copy


@lru_cache(maxsize=256)
def _content(path: Path, changed: int) -> str:
    """What is in a file, as a number."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_OPENED: OrderedDict[str, Work] = OrderedDict()
_OPENING = threading.Lock()


def opened(given: Parcel) -> Work:
    """The work in a parcel; of one that was opened before, the same: its programs are planned already."""
    with _OPENING:
        if given.key not in _OPENED:
            _OPENED[given.key] = _Unpacker(io.BytesIO(given.data), given.files).load()
            while len(_OPENED) > 4:
                _OPENED.popitem(last=False)
        _OPENED.move_to_end(given.key)
        return _OPENED[given.key]


def run_parcel(given: Parcel, columns: Mapping[str, Column]) -> Answers:
    """A chunk, in a process or on a machine that has only this."""
    return opened(given).run(columns)


# ----------------------------------------------------------------------------------------------------
# Whoever does the work.


class Job(NamedTuple):
    """A chunk: its number, and the values of its runs."""

    number: int
    columns: Mapping[str, Column]


class Crew(Protocol):
    """Does jobs in any order, several at a time."""

    workers: int
    """How many at a time."""
    least: float
    """Seconds that a chunk should last at least, so that handing it over costs little."""

    def do(self, work: Work, jobs: Iterator[Job]) -> Iterator[tuple[int, Answers]]:
        """The answers, as they come. Takes jobs only as it needs them."""
        ...

    def close(self) -> None:
        """The study is over, or given up."""
        ...


@dataclass
class Here:
    """This thread, one chunk after the other."""

    workers: int = 1
    least: float = 0.2

    def do(self, work: Work, jobs: Iterator[Job]) -> Iterator[tuple[int, Answers]]:
        """One by one."""
        for job in jobs:
            yield job.number, work.run(job.columns)

    def close(self) -> None:
        """Nothing to do."""


class Futures:
    """An executor with `submit`. `apart`: it works in other processes, to which work is sent as a parcel;
    `renewed` makes another one when it broke because a process died."""

    def __init__(
        self,
        executor: Any,
        workers: int,
        *,
        apart: bool,
        files: bool = False,
        renewed: Callable[[], Any] | None = None,
        own: bool = False,
    ) -> None:
        self._executor = executor
        self.workers = workers
        self.least = 0.2 if apart else 0.01
        self._apart = apart
        self._files = files
        self._renewed = renewed
        self._own = own
        self._sent: tuple[Work, Parcel] | None = None

    def _submit(self, work: Work, sent: Parcel | None, columns: Mapping[str, Column]) -> Future[Answers]:
        if sent is None:
            return self._executor.submit(work.run, columns)  # type: ignore[no-any-return]
        return self._executor.submit(run_parcel, sent, columns)  # type: ignore[no-any-return]

    def do(self, work: Work, jobs: Iterator[Job]) -> Iterator[tuple[int, Answers]]:
        """Twice as many chunks as workers are on their way, so that none waits."""
        if self._apart and (self._sent is None or self._sent[0] is not work):
            self._sent = work, parcel(work, files=self._files)
        sent = self._sent[1] if self._sent is not None else None
        running: dict[Future[Answers], Job] = {}
        again: list[Job] = []
        exhausted = False
        while True:
            while not exhausted and len(running) < 2 * self.workers and not again:
                job = next(jobs, None)
                if job is None:
                    exhausted = True
                    break
                running[self._submit(work, sent, job.columns)] = job
            for job in again:
                yield job.number, self._one_by_one(work, sent, job)
            again = []
            if not running:
                if exhausted:
                    return
                continue
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                job = running.pop(future)
                try:
                    yield job.number, future.result()
                except BrokenExecutor:
                    if self._renewed is None:
                        raise UpbeatError(_BROKEN) from None
                    again.append(job)
            if again:  # all that was on its way is lost with the process
                again += running.values()
                running = {}
                self._executor = self._renewed()  # type: ignore[misc]

    def _one_by_one(self, work: Work, sent: Parcel | None, job: Job) -> Answers:
        """A chunk that was under way when a process died: the run that takes its process along is a row with
        that reason, and the others have their results."""
        try:
            return self._submit(work, sent, job.columns).result()
        except BrokenExecutor:
            assert self._renewed is not None
            self._executor = self._renewed()
        return _in_parts(work, job, partial(self._one_by_one, work, sent))

    def close(self) -> None:
        if self._own:
            self._executor.shutdown(wait=True, cancel_futures=True)


def done_by(hands: Crew, work: Work, columns: Mapping[str, Column]) -> Answers:
    """A run for each row, by all workers at once."""
    found = dict(hands.do(work, iter(parted(Job(0, columns), hands.workers))))
    return joined([found[number] for number in sorted(found)])


def joined(parts: Sequence[Answers]) -> Answers:
    """The answers of chunks that follow each other, as those of one."""
    arrays = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in Answers._fields
        if name not in ("reasons", "seconds")
    }
    reasons = [one for part in parts for one in part.reasons]
    return Answers(**arrays, reasons=reasons, seconds=sum(part.seconds for part in parts))


_BROKEN = (
    "a process of the executor died, and it takes no more work: start another one, and run the study again "
    '(with out it goes on with what is there). executor="processes" replaces processes that die'
)


class Joblib:
    """A `joblib.Parallel`, with whatever backend it has."""

    least = 0.5

    def __init__(self, parallel: Any) -> None:
        self._parallel = parallel
        self.workers = max(1, int(parallel._effective_n_jobs()))

    def do(self, work: Work, jobs: Iterator[Job]) -> Iterator[tuple[int, Answers]]:
        """By a copy of it that gives results as they come."""
        joblib = need("joblib", "explore", "an executor of joblib")
        sent = parcel(work, files=True)
        settings = {"n_jobs": self._parallel.n_jobs, "verbose": self._parallel.verbose}
        parallel = joblib.Parallel(
            **settings, backend=self._parallel._backend, batch_size=1, return_as="generator_unordered"
        )
        try:
            yield from parallel(joblib.delayed(_numbered)(job.number, sent, job.columns) for job in jobs)
        except BrokenExecutor:
            raise UpbeatError(_BROKEN) from None

    def close(self) -> None:
        """It belongs to somebody else."""


def _numbered(number: int, sent: Parcel, columns: Mapping[str, Column]) -> tuple[int, Answers]:
    return number, run_parcel(sent, columns)


class Cluster:
    """A client of Dask distributed. Work that was lost with a worker is done again by another one: chunks
    have the same results wherever they run, and each is taken once."""

    least = 1.0
    patience = 60.0
    """Seconds without any worker after which a study is given up."""

    def __init__(self, client: Any, *, own: bool = False) -> None:
        self._client = client
        self._own = own
        self.workers = max(1, sum(client.nthreads().values()))
        self._sent: tuple[Work, Any] | None = None
        self._lost = 0

    def do(self, work: Work, jobs: Iterator[Job]) -> Iterator[tuple[int, Answers]]:
        """The work is sent once to every worker, the values with each chunk."""
        ended: SimpleQueue[Any] = SimpleQueue()
        running: dict[Any, tuple[Any, Job]] = {}  # what nobody refers to is given up
        suspects: list[Job] = []
        while True:
            while len(running) < 2 * self.workers and (job := next(jobs, None)) is not None:
                future = self._submit(work, job, ended)
                running[future.key] = future, job
            if not running:
                break
            future, job = running.pop(self._first(ended).key)
            told = self._answers_of(future)
            self.workers = max(1, self._threads())
            if told is _Died.ON_THE_WAY:
                future = self._submit(work, job, ended)
                running[future.key] = future, job
            elif told is _Died.WITH_IT:
                suspects.append(job)
            else:
                yield job.number, told
        for job in suspects:
            yield job.number, self._one_by_one(work, job)

    def _submit(self, work: Work, job: Job, ended: SimpleQueue[Any]) -> Any:
        """A chunk on its way, which comes to `ended` in the end. The work is a result that the scheduler can
        have made again: data that are scattered are lost with the last worker that has them."""
        if self._sent is None or self._sent[0] is not work:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of Dask, about its size: it is sent once
                self._sent = work, self._client.submit(_itself, parcel(work, files=True), pure=False)
        future = self._client.submit(run_parcel, self._sent[1], job.columns, pure=False)
        future.add_done_callback(ended.put)
        return future

    def _one_by_one(self, work: Work, job: Job) -> Answers:
        """A chunk with which several workers have died, by itself. Those that were under way at the
        same time are not to blame, and have their results."""
        told: Answers | _Died = _Died.ON_THE_WAY
        while told is _Died.ON_THE_WAY:
            ended: SimpleQueue[Any] = SimpleQueue()
            future = self._submit(work, job, ended)
            self._first(ended)
            told = self._answers_of(future)
        return told if isinstance(told, Answers) else _in_parts(work, job, partial(self._one_by_one, work))

    def _first(self, ended: SimpleQueue[Any]) -> Any:
        """The next one that has come to its end. Dask itself would wait for ever where no worker is left."""
        seen = monotonic()
        while True:
            try:
                return ended.get(timeout=min(1.0, self.patience))
            except Empty:
                now = monotonic()
                if self._threads():
                    seen = now
                elif now - seen > self.patience:
                    raise UpbeatError(
                        f"the cluster has had no workers for {self.patience:g} s: start some "
                        f"('dask worker {self._client.scheduler.address}'), and run the study again; with "
                        "out it goes on with what is there"
                    ) from None

    def _threads(self) -> int:
        """How many there are; none if the scheduler does not answer."""
        try:
            return sum(self._client.nthreads().values())
        except OSError:
            return 0

    def _answers_of(self, future: Any) -> Answers | _Died:
        """What a worker has answered, or how workers have died, one after the other."""
        from distributed import CancelledError
        from distributed.scheduler import KilledWorker

        try:
            found: Answers = future.result()
        except KilledWorker as error:
            if error.task == future.key:
                return _Died.WITH_IT
            # The scheduler blames the work itself, and would every chunk that needs it: it is sent anew.
            if self._sent is not None and self._sent[1].key == error.task:
                self._sent = None
                self._lost += 1
            if self._lost > _LOST:
                raise UpbeatError(
                    "the workers of the cluster die before they begin with the study: see what they "
                    "say. Run it again when they live; with out it goes on with what is there"
                ) from None
            return _Died.ON_THE_WAY
        except CancelledError as error:
            raise UpbeatError(
                f"the scheduler of Dask has given up the study or is gone ({error}): start it again, and "
                "run the study again; with out it goes on with what is there"
            ) from None
        finally:
            future.release()
        return found

    def close(self) -> None:
        if self._own:
            self._client.close()


_LOST = 20
"""So often work may be lost on its way to workers."""


class _Died(enum.Enum):
    """What workers that died were at, one after the other."""

    WITH_IT = enum.auto()
    """The chunk."""
    ON_THE_WAY = enum.auto()
    """Taking the work, which is the same for all chunks: none of them is to blame."""


def _itself(given: Parcel) -> Parcel:
    return given


def _in_parts(work: Work, job: Job, again: Callable[[Job], Answers]) -> Answers:
    """A chunk that has taken its process along, part by part: one run that does so is a row with that
    reason. Sixteen parts, since a process that dies is dearer than many chunks."""
    count = len(next(iter(job.columns.values())))
    if count == 1:
        lost = work.no_answers(1)
        lost.status[0] = Status.FAILED
        lost.reasons[0] = "the process died in this run: a unit crashed, or it was killed"
        return lost
    return joined([again(part) for part in parted(job, 16)])


def parted(job: Job, count: int) -> list[Job]:
    """A chunk as that many parts, or as many as it has runs."""
    total = len(next(iter(job.columns.values())))
    ends = np.linspace(0, total, min(count, total) + 1).astype(int).tolist()
    return [
        Job(number, {key: column[first:last] for key, column in job.columns.items()})
        for number, (first, last) in enumerate(pairwise(ends))
    ]


def cluster(address: str) -> Cluster:
    """The cluster whose scheduler is at this address, ``tcp://…``."""
    distributed = need("distributed", "cluster", "a cluster")
    try:
        client = distributed.Client(address, timeout=5, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InvalidInput(
            f"no scheduler of Dask answers at '{address}' ({error}). Start one with 'dask scheduler', and "
            "workers with 'dask worker tcp://HOST:8786'"
        ) from None
    if not client.nthreads():
        client.close()
        raise InvalidInput(
            f"the scheduler at '{address}' has no workers: start some with 'dask worker {address}'"
        )
    return Cluster(client, own=True)


def processes(count: int) -> Futures:
    """Processes of this machine."""
    try:
        from joblib.externals.loky import get_reusable_executor
    except ImportError:
        raise MissingExtra("explore", "running a study in processes") from None

    def made() -> Executor:
        return get_reusable_executor(max_workers=count, kill_workers=True)  # type: ignore[no-any-return]

    return Futures(get_reusable_executor(max_workers=count), count, apart=True, renewed=made)


def threads(count: int) -> Futures:
    """Threads of this process, for runs that are in the core all the time."""
    return Futures(ThreadPoolExecutor(count, "upbeat-explore"), count, apart=False, own=True)


def crew_of_search(work: Work, executor: Any = None, workers: int | None = None) -> Crew:
    """Whoever does the work of a search, which asks for a few runs at a time: by default in this process,
    since a few runs of milliseconds are not worth sending away."""
    if executor is None and not shares_process(work):
        executor = "here"
    return crew(executor, workers, work)


def crew(given: Any, workers: int | None, work: Work) -> Crew:
    """Whoever does the work: `given` is an executor, the address of a cluster, or "threads", "processes",
    "here"; None chooses what fits this work on this machine."""
    count = (
        workers
        if workers is not None
        else len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InvalidInput(f"workers must be a whole number of at least 1, not {count!r}")
    if given is None:
        given = "threads" if shares_process(work) else "processes"
        if count == 1 and given == "threads":
            given = "here"
    if isinstance(given, str):
        if "://" in given:
            return cluster(given)
        known: dict[str, Callable[[], Crew]] = {
            "threads": lambda: threads(count),
            "processes": lambda: processes(count),
            "here": Here,
        }
        if given not in known:
            raise InvalidInput(
                f'there is no executor "{given}": take "threads", "processes", "here", the address of a '
                "scheduler of Dask (tcp://…), or an object with submit"
            )
        return known[given]()
    if type(given).__module__.split(".")[0] == "distributed":
        return Cluster(given)
    if type(given).__module__.split(".")[0] == "joblib" and hasattr(given, "n_jobs"):
        return Joblib(given)
    if not callable(getattr(given, "submit", None)):
        raise InvalidInput(f"an executor has submit, as those of concurrent.futures; {given!r} has none")
    many = getattr(given, "_max_workers", None) or count
    return Futures(given, int(many), apart=not isinstance(given, ThreadPoolExecutor), files=True)


def shares_process(work: Work) -> bool:
    """Whether several threads can do this at once: all in the core, and nothing in it that is somebody
    else's code."""
    base = work.base
    models = base.plan.scenario.units.values()
    tables = all(Ability.NATIVE in model.abilities and hasattr(model, "lower") for model in models)
    return tables and not work.functions and base.choice.name == "native"
