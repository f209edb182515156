"""Result files by suffix: which sink writes one, which reader reads it back."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from upbeat.core.errors import FileProblem, cannot_read
from upbeat.trace.columns import Column
from upbeat.trace.files.csv import CsvSink, columns_beside, is_columns, is_events, is_result, read_csv
from upbeat.trace.files.output import check_place, kept_from, unfinished
from upbeat.trace.recorder import FileSink, MemorySink, Sink, Stored, events_beside

SUFFIXES = (".csv", ".parquet", ".journal")
"""The kinds of result file. What only one of them needs is loaded with the first such file."""


def open_sink(path: Path | str | None) -> Sink:
    """The sink that the suffix of `path` asks for; without a path, memory.

    Raises `FileProblem` if the file cannot be written, or if another run is writing it: ask before the run.
    """
    return MemorySink() if path is None else open_file(path)


def open_file(path: Path | str) -> FileSink:
    """As `open_sink`, of a path."""
    check_suffix(path)
    check_place(Path(path))
    _check_names(Path(path))
    match Path(path).suffix.lower():
        case ".csv":
            return CsvSink(path)
        case ".parquet":
            from upbeat.trace.files.parquet import ParquetSink

            return ParquetSink(path)
        case _:
            from upbeat.trace.files.journal import JournalSink

            return JournalSink(path)


def _check_names(path: Path) -> None:
    """`FileProblem` if a file next to the result cannot have its name: better now than after the run."""
    others = {".csv": (events_beside, columns_beside), ".parquet": (events_beside, unfinished)}
    for name in others.get(path.suffix.lower(), ()):
        beside = name(path)
        try:
            beside.stat()
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise FileProblem(
                    f"cannot write results to '{path}': '{beside.name}', which may come to stand next to it, "
                    "is too long a name. Give a shorter one."
                ) from None


def check_ours(path: Path | str, columns: Sequence[Column], *, force: bool = False) -> None:
    """`FileProblem` if a run with these columns would replace a file that Upbeat has not written."""
    path = Path(path)
    files: dict[Path, Callable[[Path], bool]]
    match path.suffix.lower():
        case ".csv":
            names = ["time", *(column.name for column in columns)]
            files = {path: partial(is_result, names=names), events_beside(path): is_events}
            files[columns_beside(path)] = is_columns
        case ".parquet":
            from upbeat.trace.files.journal import is_journal
            from upbeat.trace.files.parquet import is_ours

            files = {path: is_ours, events_beside(path): is_ours, unfinished(path): is_journal}
        case _:
            from upbeat.trace.files.journal import is_journal

            files = {path: is_journal}
    for file, ours in files.items():
        kept_from(file, ours, "a result of Upbeat", force=force)


def check_suffix(path: Path | str) -> None:
    """`FileProblem` if no sink writes files of that kind."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise _suffix(path, "write")


def rows_of(path: Path) -> Path:
    """The file that rows are written to while the run goes on."""
    return unfinished(path) if path.suffix.lower() == ".parquet" else path


def files_of(path: Path) -> tuple[Path, ...]:
    """All files that a run to `path` may write."""
    return path, unfinished(path), events_beside(path), columns_beside(path)


def kept_in(path: Path) -> Path:
    """Where the rows of a run to `path` are: there, or in the journal of a run that could not finish it."""
    return unfinished(path) if unfinished(path).exists() else path


def load(path: Path | str, keep_last: bool = False) -> Stored:
    """What is in a result file. Of a run that was killed, all whole chunks, with a warning."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (*SUFFIXES, ".partial"):
        raise _suffix(path, "read")
    try:
        if path.is_dir():
            raise FileProblem(f"'{path}' is a folder, not a result file")
        if not path.exists():
            if unfinished(path).exists():
                from upbeat.trace.files.journal import read_journal

                return read_journal(unfinished(path))
            raise FileProblem(f"there is no file '{path}'")
    except OSError as error:  # a name that no file can have
        raise cannot_read(path, error) from None
    match suffix:
        case ".csv":
            return read_csv(path, keep_last=keep_last)
        case ".parquet":
            from upbeat.trace.files.parquet import read_parquet

            return read_parquet(path)
        case _:
            from upbeat.trace.files.journal import read_journal

            return read_journal(path)


def _suffix(path: Path | str, verb: str) -> FileProblem:
    return FileProblem(
        f"cannot {verb} '{path}': the suffix says which kind of file it is. "
        f"Use {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}."
    )
