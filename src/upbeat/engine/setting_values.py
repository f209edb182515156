"""Whether one setting is what it has to be, whoever gave it: Python, a file or the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeGuard, TypeVar, get_args

from upbeat.core.errors import InvalidInput, Problems, suggest
from upbeat.engine.choose import EngineName
from upbeat.trace.files.output import check_place
from upbeat.trace.files.sinks import check_suffix

MOST_CORES = 1024
"""More threads than this are a slip of the keyboard."""
T = TypeVar("T")


def checked_every(every: Any) -> int:
    """How many communication points there are to a row."""
    if isinstance(every, bool) or not isinstance(every, int) or not 1 <= every < 2**62:
        raise InvalidInput(f"every must be a whole number of at least 1, not {every!r}")
    return every


def checked_cores(cores: Any) -> int:
    """How many threads share the steps."""
    if isinstance(cores, bool) or not isinstance(cores, int) or not 1 <= cores <= MOST_CORES:
        raise InvalidInput(f"cores must be a whole number from 1 to {MOST_CORES}, not {cores!r}")
    return cores


def are_texts(value: object) -> TypeGuard[Sequence[str]]:
    """Whether this is a list of texts."""
    return isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)


def checked_patterns(given: object) -> tuple[str, ...] | None:
    """What to record."""
    if given is not None and not are_texts(given):
        raise InvalidInput(f'must be a list of names or patterns, such as ["left.*"], not {given!r}')
    return None if given is None else tuple(given)


def checked_file(out: object, writing: bool) -> Path | None:
    """Where results go; `writing`: is it a place to write to?"""
    if out is None:
        return None
    if not isinstance(out, (str, Path)):
        raise InvalidInput(f'must be the name of a file, such as "results.csv", not {out!r}')
    check_suffix(out)
    if writing:
        check_place(Path(out))
    return Path(out)


def checked_engine(name: Any) -> Any:
    """Which engine, by name."""
    names = get_args(EngineName)
    if not isinstance(name, str) or name not in names:
        raise InvalidInput(f"there is no engine {name!r}. {suggest(str(name), names, 'engines')}")
    return name


def checked_truth(value: Any) -> bool:
    """A switch."""
    if not isinstance(value, bool):
        raise InvalidInput(f"must be true or false, not {value!r}")
    return value


def checked_number(value: object) -> float:
    """A time."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"a time must be a number, not {value!r}")
    return float(value)


def attempted(make: Callable[[], T], where: tuple[str, ...], problems: Problems) -> T | None:
    """What `make` makes, or a problem `where` it was said."""
    try:
        return make()
    except InvalidInput as error:
        problems.add(where, str(error))
        return None
