"""Results of a study: in memory, or as a Zarr store that grows chunk by chunk and survives a kill.

A store is a Zarr group that xarray opens as it is. Every chunk of runs is a chunk of every array, in files
of its own: whoever writes one touches no other. A journal beside the store (`NAME.zarr.journal`) has a line
for each chunk that is complete; what it does not have is done again. It goes when the study is complete.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from upbeat.core.atomic import as_path
from upbeat.core.errors import FileProblem, InvalidInput, RecordingError, cannot_write, suggest
from upbeat.explore.sampling import Column
from upbeat.explore.work import Answers, Status
from upbeat.trace.extras import need

if TYPE_CHECKING:
    from upbeat.explore.answers import Spread

RESERVED = (
    "run",
    "time",
    "event",
    "status",
    "reason",
    "steps",
    "rejected",
    "events",
    "ended",
    "event_number",
    "event_time",
)
"""Names that a result has besides parameters, outputs and signals."""

_FORMAT = 1
_FILL = {str: "", np.float64: np.nan, np.int32: -1}
"""What is in an array where there is no result yet; 0 for other types."""


class Layout(NamedTuple):
    """What a result consists of."""

    parameters: Mapping[str, Column]
    outputs: tuple[str, ...]
    signals: tuple[str, ...]
    grid: tuple[float, ...]
    events: int
    event_names: tuple[str, ...]
    units: Mapping[str, str]
    """Units of measure, where they are known."""

    @property
    def runs(self) -> int:
        """How many there are."""
        return len(next(iter(self.parameters.values()))) if self.parameters else 1

    def arrays(self) -> dict[str, tuple[tuple[str, ...], tuple[int, ...], Any]]:
        """All arrays of a run: dimensions, their sizes after the first, and the type."""
        found: dict[str, tuple[tuple[str, ...], tuple[int, ...], Any]] = {}
        for name, column in self.parameters.items():
            found[name] = ("run",), (), np.float64 if column.dtype != object else str
        for name in self.outputs:
            found[name] = ("run",), (), np.float64
        found |= {"status": (("run",), (), np.uint8), "reason": (("run",), (), str)}
        found |= dict.fromkeys(("steps", "rejected", "events"), (("run",), (), np.int64))
        found["ended"] = ("run",), (), np.float64
        for name in self.signals:
            found[signal_name(name, self)] = ("run", "time"), (len(self.grid),), np.float64
        if self.events:
            found["event_number"] = ("run", "event"), (self.events,), np.int32
            found["event_time"] = ("run", "event"), (self.events,), np.float64
        return found

    def values(self, columns: Mapping[str, Column], answers: Answers) -> dict[str, npt.NDArray[Any]]:
        """What the arrays get from a chunk."""
        found: dict[str, npt.NDArray[Any]] = {}
        for name, column in columns.items():
            found[name] = column if column.dtype != object else np.array([str(v) for v in column], object)
        for k, name in enumerate(self.outputs):
            found[name] = answers.outputs[:, k]
        found |= {"status": answers.status, "reason": np.array(answers.reasons, object)}
        for k, name in enumerate(("steps", "rejected", "events")):
            found[name] = answers.totals[:, k].astype(np.int64)
        found["ended"] = answers.totals[:, 3]
        for k, name in enumerate(self.signals):
            found[signal_name(name, self)] = answers.samples[:, :, k]
        if self.events:
            found |= {"event_number": answers.events, "event_time": answers.times}
        return found

    def attributes(self, name: str) -> dict[str, Any]:
        """What is known of an array besides its numbers."""
        unit = self.units.get(name) or self.units.get(name.removesuffix("(t)"))
        signals = [signal_name(one, self) for one in self.signals]
        roles = {"parameter": self.parameters, "output": self.outputs, "signal": signals}
        kind = next((role for role, names in roles.items() if name in names), "")
        found: dict[str, Any] = {"role": kind} if kind else {}
        if unit:
            found["units"] = unit
        if name == "status":
            found["meaning"] = "0 done, 1 failed, 2 ended by a unit, 3 doubtful (see reason), 255 not yet run"
        if name == "event_number":
            found["names"] = list(self.event_names)
        return found


def signal_name(name: str, layout: Layout) -> str:
    """What a signal over time is called: as it is, unless a parameter (the start value of a state) is called
    so."""
    return f"{name}(t)" if name in layout.parameters or name in layout.outputs else name


class Memory:
    """Results in memory."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.chunk: int | None = None
        self.done: set[int] = set()
        count = layout.runs
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        for name, (_, sizes, kind) in layout.arrays().items():
            self.arrays[name] = np.empty((count, *sizes), object if kind is str else kind)

    def begin(self, chunk: int) -> None:
        """Runs come in chunks of this size."""
        self.chunk = chunk

    def write(self, number: int, columns: Mapping[str, Column], answers: Answers) -> None:
        """Take over a chunk."""
        assert self.chunk is not None
        first = number * self.chunk
        for name, values in self.layout.values(columns, answers).items():
            self.arrays[name][first : first + len(values)] = values
        self.done.add(number)

    def finish(self) -> None:
        """All chunks are there."""

    def close(self) -> None:
        """Nothing to do."""

    def dataset(self) -> Any:
        """As an xarray Dataset."""
        xarray = need("xarray", "explore", "results as a Dataset")
        arrays = self.layout.arrays()
        variables = {
            name: (
                arrays[name][0],
                values.astype(str) if values.dtype == object else values,
                self.layout.attributes(name),
            )
            for name, values in self.arrays.items()
        }
        coordinates = {"time": ("time", np.array(self.layout.grid))} if self.layout.grid else {}
        return xarray.Dataset(variables, coords=coordinates)


class Store:
    """Results as a Zarr store. One process writes at a time, with as many threads as it likes."""

    def __init__(self, path: Path, layout: Layout, study: Mapping[str, Any], *, force: bool = False) -> None:
        self.path = as_path(path, "out")
        self.layout = layout
        self.chunk: int | None = None
        self.done: set[int] = set()
        self._study = dict(study)
        self._zarr = need("zarr", "explore", "a study that keeps its results in a file")
        self._lock: Any = None
        if self.path.suffix != ".zarr":
            raise InvalidInput(
                f"the results of a study go to a Zarr store: {self.path.with_suffix('.zarr').name}, not "
                f"{self.path.name} (--save writes them as CSV or Parquet, too)"
            )
        if not self.path.absolute().parent.is_dir():
            raise FileProblem(
                f"cannot write '{self.path}': the folder {self.path.absolute().parent} does not exist"
            )
        self._take()
        try:
            self._look(force)
        except BaseException:
            self.close()
            raise

    @property
    def journal(self) -> Path:
        """Where complete chunks are noted."""
        return self.path.with_name(f"{self.path.name}.journal")

    def _take(self) -> None:
        """Nobody else may write here meanwhile."""
        try:
            self._lock = self.journal.open("a+", encoding="utf-8")
        except OSError as error:
            raise cannot_write(self.journal, error) from None
        try:
            import fcntl
        except ImportError:
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            self._lock = None
            raise FileProblem(
                f"'{self.path}' is being written by another study that runs just now: wait for it, or "
                "choose another out"
            ) from None

    def _look(self, force: bool) -> None:
        """Go on with what is there, if it is of this study."""
        if not self.path.exists():
            self._empty_journal()
            return
        found = read_study(self.path)
        if force:
            shutil.rmtree(self.path) if self.path.is_dir() else self.path.unlink()
            self._empty_journal()
            return
        if found is None:
            raise FileProblem(
                f"'{self.path}' is there and is no result of a study: choose another out, or replace it "
                "with --force"
            )
        if differing := _differences(found["study"], self._study):
            raise FileProblem(
                f"'{self.path}' has the results of another study ({'; '.join(differing)}): choose another "
                "out, or replace it with --force"
            )
        self.chunk = int(found["chunk"])
        total = -(-self.layout.runs // self.chunk)
        if found.get("complete"):
            self.done = set(range(total))
            self._empty_journal()
            return
        self._lock.seek(0)
        lines = self._lock.read()
        for line in lines.splitlines():
            with suppress(ValueError):  # one may be cut off
                entry = json.loads(line)
                if isinstance(entry, dict) and 0 <= entry.get("chunk", -1) < total:
                    self.done.add(entry["chunk"])
        if lines and not lines.endswith("\n"):
            self._lock.write("\n")
        self._group = self._opened("r+")

    def _empty_journal(self) -> None:
        self._lock.seek(0)
        self._lock.truncate()

    def _opened(self, mode: str) -> Any:
        return self._zarr.open_group(str(self.path), mode=mode)

    def begin(self, chunk: int) -> None:
        """Make the store, unless it is there; runs come in chunks of this size."""
        if self.chunk is not None:
            return
        self.chunk = chunk
        part = self.path.with_name(f".{self.path.name}.part")  # a store is there when all of it is
        with _disk(self.path, self):
            try:
                self._make(part, chunk)
                part.rename(self.path)
            finally:
                shutil.rmtree(part, ignore_errors=True)
        self._group = self._opened("r+")

    def _make(self, path: Path, chunk: int) -> None:
        shutil.rmtree(path, ignore_errors=True)
        group = self._zarr.open_group(str(path), mode="w", zarr_format=3)
        for name, (dimensions, sizes, kind) in self.layout.arrays().items():
            # Wide rows in smaller pieces along time would be chunks that several runs share: one piece
            # for all.
            array = group.create_array(
                name.replace("/", "|"),
                shape=(self.layout.runs, *sizes),
                chunks=(chunk, *(max(1, size) for size in sizes)),
                dtype=kind,
                dimension_names=dimensions,
                fill_value=Status.MISSING if name == "status" else _FILL.get(kind, 0),
            )
            array.attrs.update(self.layout.attributes(name))
        if self.layout.grid:
            times = group.create_array(
                "time", shape=(len(self.layout.grid),), chunks=(len(self.layout.grid),), dtype=np.float64,
                dimension_names=("time",),
            )  # fmt: skip
            times[:] = np.array(self.layout.grid)
        group.attrs.update({"upbeat": _FORMAT, "study": self._study, "chunk": chunk, "complete": False})

    def write(self, number: int, columns: Mapping[str, Column], answers: Answers) -> None:
        """Take over a chunk. `RecordingError` if it cannot be written; what was written before is safe."""
        assert self.chunk is not None
        first = number * self.chunk
        with _disk(self.path, self):
            for name, values in self.layout.values(columns, answers).items():
                self._group[name.replace("/", "|")][first : first + len(values)] = values
            failed = int((answers.status == Status.FAILED).sum())
            self._lock.write(
                json.dumps({"chunk": number, "runs": len(answers.status), "failed": failed}) + "\n"
            )
            self._lock.flush()
            os.fsync(self._lock.fileno())
        self.done.add(number)

    def finish(self) -> None:
        """All chunks are there."""
        with _disk(self.path, self):
            self._opened("r+").attrs["complete"] = True
            with (
                warnings.catch_warnings()
            ):  # of Zarr: other readers than xarray may not know it, and need not
                warnings.simplefilter("ignore")
                self._zarr.consolidate_metadata(str(self.path))
        self.close()
        self.journal.unlink(missing_ok=True)

    def close(self) -> None:
        """Let others write."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
            with suppress(OSError):
                if self.journal.stat().st_size == 0:
                    self.journal.unlink()

    def dataset(self) -> Any:
        """As an xarray Dataset, of which no more is in memory than somebody looks at."""
        return open_dataset(self.path)


class _disk:
    """A context in which a disk may turn out to be full."""

    def __init__(self, path: Path, store: Store) -> None:
        self._path, self._store = path, store

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if not isinstance(error, OSError):
            return
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        why = "the disk is full" if full else error.strerror or str(error)
        raise RecordingError(
            f"'{self._path}' cannot be written any further: {why}. {len(self._store.done)} chunks are "
            "safe; make room and run the study again: it goes on from there"
        ) from None


def read_study(path: Path) -> dict[str, Any] | None:
    """What a store says about its study; None if it is none."""
    try:
        found = json.loads((path / "zarr.json").read_text(encoding="utf-8"))["attributes"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, dict) and "study" in found and "chunk" in found else None


_WORDS = {
    "units": "other units, or other values of theirs",
    "program": "other connections, or another master",
    "pace": "another pace",
    "span": "another start or stop time",
    "inputs": "other input signals",
    "values": "other values of what varies",
}
"""What is said of parts that only their digests tell apart."""


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """In what two studies differ, in words."""
    found = []
    for name in dict.fromkeys([*there, *here]):
        if there.get(name) == here.get(name):
            continue
        shown = [_short(one.get(name)) for one in (there, here)]
        if name in _WORDS:
            found.append(_WORDS[name])
        elif shown[0] != shown[1]:
            found.append(f"its {name} {_is(name)} {shown[0]}, here {shown[1]}")
        else:
            found.append(f"other {name}")
    return found


def _is(name: str) -> str:
    return "are" if name.endswith("s") else "is"


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, (list, dict)) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def open_dataset(path: Path) -> Any:
    """A store as an xarray Dataset."""
    xarray = need("xarray", "explore", "results as a Dataset")
    need("zarr", "explore", "reading a Zarr store")
    return xarray.open_zarr(str(path), consolidated=False)  # which also is right while it grows


# ----------------------------------------------------------------------------------------------------


def table_file(path: str | Path) -> Path:
    """A place for a row for each run; complains before there is anything to lose."""
    path = as_path(path)
    if path.suffix not in (".csv", ".parquet"):
        raise InvalidInput(f"results of a study are saved as .csv or .parquet, not '{path.name}'")
    if not path.absolute().parent.is_dir():
        raise FileProblem(f"cannot write '{path}': the folder {path.absolute().parent} does not exist")
    if path.is_dir():
        raise FileProblem(f"cannot write '{path}': it is a folder")
    return path


class Results:
    """What a study has found: a row for each run, with its parameters, outputs and how it ended.

    `results["comfort"]` is an output, a parameter or a signal over time as an array; `dataset` has all of it
    with names, and reads from a store only what somebody looks at.
    """

    def __init__(self, kept: Memory | Store, study: Any = None) -> None:
        self._kept = kept
        self.layout = kept.layout
        self.study = study

    @property
    def path(self) -> Path | None:
        """The store, if there is one."""
        return self._kept.path if isinstance(self._kept, Store) else None

    @property
    def dataset(self) -> Any:
        """All results as an xarray Dataset over ``run`` (and ``time``, ``event``)."""
        return self._kept.dataset()

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(self.layout.parameters)

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.layout.outputs

    def __len__(self) -> int:
        return self.layout.runs

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        names = self.layout.arrays()
        if name not in names and name != "time":
            name = f"{name}(t)" if f"{name}(t)" in names else name
        if name == "time":
            return np.array(self.layout.grid)
        if name not in names:
            raise InvalidInput(f"the study has no '{name}'. {suggest(str(name), names, 'names')}")
        if isinstance(self._kept, Memory):
            return self._kept.arrays[name]
        return self._piece(self._kept._opened("r"), name, slice(None))

    def _piece(self, source: Any, name: str, rows: slice) -> npt.NDArray[Any]:
        """Some rows of an array of the store; texts as in memory."""
        found = np.asarray(source[name.replace("/", "|")][rows])
        return found.astype(object) if found.dtype.kind == "T" else found

    def table(self, names: Sequence[str] | None = None) -> npt.NDArray[np.float64]:
        """Outputs (or what is named) as a matrix, a row for each run."""
        return np.stack([np.asarray(self[name], np.float64) for name in names or self.outputs], axis=1)

    @property
    def failed(self) -> npt.NDArray[np.bool_]:
        """Which runs failed."""
        found: npt.NDArray[np.bool_] = self["status"] == Status.FAILED
        return found

    @property
    def doubtful(self) -> npt.NDArray[np.bool_]:
        """Which runs came to their end, but noticed what makes their results doubtful."""
        found: npt.NDArray[np.bool_] = self["status"] == Status.DOUBTFUL
        return found

    @property
    def reasons(self) -> Counter[str]:
        """Why runs failed, and how many for each reason."""
        return self._reasons(self.failed)

    @property
    def warnings(self) -> Counter[str]:
        """What makes runs doubtful that came to their end, and how many."""
        return self._reasons(self.doubtful)

    def _reasons(self, chosen: npt.NDArray[np.bool_]) -> Counter[str]:
        return Counter(str(reason) for reason in self["reason"][chosen]) if chosen.any() else Counter()

    def uncertainty(self, probabilities: Sequence[float] = (0.05, 0.5, 0.95)) -> dict[str, Spread]:
        """How the outputs are spread, and how well that is known: see
        `upbeat.explore.answers.uncertainty`."""
        from upbeat.explore.answers import uncertainty

        return uncertainty(self, probabilities)

    def front(self, minimise: Sequence[str] = (), maximise: Sequence[str] = ()) -> npt.NDArray[np.int64]:
        """The runs that no other is better than in everything."""
        from upbeat.explore.optimise import front

        return front(self, minimise, maximise)

    def to_pandas(self) -> Any:
        """A pandas DataFrame with a row for each run: parameters, outputs, how it ended."""
        pandas = need("pandas", "explore", "results as a DataFrame")
        columns = {name: self[name] for name in self._scalars()}
        return pandas.DataFrame(columns, index=pandas.RangeIndex(len(self), name="run"))

    def _scalars(self) -> list[str]:
        """Whatever has one value for each run."""
        arrays = self.layout.arrays()
        return [name for name, (dimensions, _, _) in arrays.items() if dimensions == ("run",)]

    def save(self, path: str | Path) -> None:
        """Write a row for each run to a ``.csv`` or ``.parquet`` file."""
        path = table_file(path)
        names = self._scalars()
        if path.suffix == ".csv":
            import csv

            try:
                with path.open("w", newline="", encoding="utf-8") as file:
                    writer = csv.writer(file, lineterminator="\n")
                    writer.writerow(["run", *names])
                    number = itertools.count()
                    for part in self.chunks(names):
                        for values in zip(*(column.tolist() for column in part.values()), strict=True):
                            writer.writerow([next(number), *values])
            except OSError as error:
                raise cannot_write(path, error) from None
        else:
            arrow = need("pyarrow", "parquet", "a Parquet file")
            parquet = need("pyarrow.parquet", "parquet", "a Parquet file")
            run, file = 0, None
            try:
                for part in self.chunks(names):
                    texts = {n: c.astype(str) if c.dtype == object else c for n, c in part.items()}
                    rows = arrow.table({"run": np.arange(run, run + len(part["status"])), **texts})
                    file = file or parquet.ParquetWriter(str(path), rows.schema)
                    file.write_table(rows)
                    run += len(rows)
            except OSError as error:
                raise cannot_write(path, error) from None
            finally:
                if file is not None:
                    file.close()

    def chunks(self, names: Sequence[str], rows: int = 1 << 16) -> Iterator[dict[str, npt.NDArray[Any]]]:
        """A few runs at a time, for results that are larger than memory."""
        source = self._kept._opened("r") if isinstance(self._kept, Store) else None
        for first in range(0, len(self), rows):
            part = slice(first, min(first + rows, len(self)))
            if source is None:
                yield {name: self[name][part] for name in names}
            else:
                yield {name: self._piece(source, name, part) for name in names}

    def __repr__(self) -> str:
        failed = int(self.failed.sum())
        told = f", {failed} of them failed" if failed else ""
        return f"<Results: {len(self)} runs{told}; {', '.join(self.outputs)}>"
