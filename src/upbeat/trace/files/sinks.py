"""Result files by suffix: which sink writes one, which reader reads it back."""

from __future__ import annotations

from pathlib import Path

from upbeat.core.errors import FileProblem
from upbeat.trace.files.csvfile import read_csv
from upbeat.trace.files.csvsink import CsvSink
from upbeat.trace.files.journal import JournalSink, read_journal
from upbeat.trace.files.parquet import ParquetSink, read_parquet, unfinished
from upbeat.trace.store import FileSink, MemorySink, Sink, Stored

_SINKS: dict[str, type[CsvSink] | type[ParquetSink] | type[JournalSink]] = {
    ".csv": CsvSink,
    ".parquet": ParquetSink,
    ".journal": JournalSink,
}


def open_sink(path: Path | str | None) -> Sink:
    """The sink that the suffix of `path` asks for; without a path, memory.

    Raises `FileProblem` if the file cannot be written, or if another run is writing it: ask before the run.
    """
    return MemorySink() if path is None else open_file(path)


def open_file(path: Path | str) -> FileSink:
    """As `open_sink`, of a path."""
    check_suffix(path)
    return _SINKS[Path(path).suffix.lower()](path)


def check_suffix(path: Path | str) -> None:
    """`FileProblem` if no sink writes files of that kind."""
    if Path(path).suffix.lower() not in _SINKS:
        raise _suffix(path, "write")


def rows_of(path: Path) -> Path:
    """The file that rows are written to while the run goes on."""
    return unfinished(path) if path.suffix.lower() == ".parquet" else path


def kept_in(path: Path) -> Path:
    """Where the rows of a run to `path` are: there, or in the journal of a run that could not finish it."""
    return unfinished(path) if unfinished(path).exists() else path


def load(path: Path | str, keep_last: bool = False) -> Stored:
    """What is in a result file. Of a run that was killed, all whole chunks, with a warning."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (*_SINKS, ".partial"):
        raise _suffix(path, "read")
    if path.is_dir():
        raise FileProblem(f"'{path}' is a folder, not a result file")
    if not path.exists():
        if unfinished(path).exists():
            return read_journal(unfinished(path))
        raise FileProblem(f"there is no file '{path}'")
    match suffix:
        case ".csv":
            return read_csv(path, keep_last=keep_last)
        case ".parquet":
            return read_parquet(path)
        case _:
            return read_journal(path)


def _suffix(path: Path | str, verb: str) -> FileProblem:
    return FileProblem(
        f"cannot {verb} '{path}': the suffix says which kind of file it is. "
        f"Use {', '.join(list(_SINKS)[:-1])} or {list(_SINKS)[-1]}."
    )
