"""The project folder: the only place that the studio reads and writes.

A file is named by its path from the folder. Nothing else is reached by such a name: not by ``..``, not by an
absolute path, not through a link that leads out. Files are replaced in one go, and only by somebody who has
read what is in them: the second of two writers is told what the first one wrote.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import threading
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from upbeat.adapt.sa.parsing import read as read_sa
from upbeat.core.atomic import replace_file
from upbeat.core.errors import FileProblem, InvalidInput, Problem, ScenarioError, UpbeatError, suggest
from upbeat.scenario.files.toml import Lines

OWN = ".upbeat"
"""The folder for what is not the user's: places of boxes, what runs were made of."""
RUNS = "runs"
"""Where results are kept."""
LARGEST_TEXT = 10_000_000
MAX_FILES = 2000
_DEEPEST = 6
_SKIPPED = {"__pycache__", "node_modules", "build", "dist", "site-packages"}
_KINDS = {
    ".toml": "scenario", ".fmu": "fmu", ".ssp": "ssp", ".ssd": "ssp", ".csv": "csv", ".parquet": "result",
    ".journal": "result", ".py": "python", ".sa": "sa",
}  # fmt: skip
_TEXTS = (".toml", ".sa")
"""What may be written as text."""
UPLOADS = (".fmu", ".ssp", ".csv", ".toml", ".sa")
"""What may be dropped into the folder: code of Python is not among it."""


class Refused(InvalidInput):
    """A path that is none of the project's, or that may not be written."""


class Missing(FileProblem):
    """There is no such file, run or judgement."""


class Changed(InvalidInput):
    """Somebody else has written the file since it was read: `text` and `version` are theirs."""

    def __init__(self, path: str, text: str, version: str) -> None:
        super().__init__(
            f"'{path}' has been changed by somebody else since it was opened here. Look at what is there "
            "now, then save again."
        )
        self.text, self.version = text, version


class Project:
    """A folder and what is in it. Methods may be called from any thread."""

    def __init__(self, folder: Path, *, python: bool = False) -> None:
        self.folder = folder.resolve()
        self.python = python
        self._turn = threading.Lock()

    # ---------------------------------------------------------------- names

    def path(self, name: object, *, own: bool = False) -> Path:
        """The file of this name; `own` is for names that the studio has made itself."""
        if not isinstance(name, str) or not name or "\0" in name or len(name) > 1000:
            raise Refused(f"{name!r} is not the name of a file")
        parts = name.replace("\\", "/").split("/")
        if any(part in ("", ".", "..") for part in parts) or Path(name).is_absolute():
            raise Refused(f"'{name}' does not lie in the project folder")
        if not own and parts[0].startswith("."):
            raise Refused(f"'{name}' is a hidden file, which the studio leaves alone")
        try:
            found = (self.folder / name).resolve()
        except (OSError, RuntimeError, ValueError):
            raise Refused(f"'{name}' is not the name of a file") from None
        if not found.is_relative_to(self.folder):
            raise Refused(f"'{name}' is a link that leads out of the project folder")
        return found

    def name(self, path: Path) -> str:
        """What a file of the folder is called."""
        return path.relative_to(self.folder).as_posix()

    def files(self) -> list[dict[str, Any]]:
        """What there is, with its kind; hidden files and folders of tools are left out."""
        found: list[dict[str, Any]] = []
        for folder, folders, names in os.walk(self.folder):
            here = Path(folder)
            depth = len(here.relative_to(self.folder).parts)
            folders[:] = sorted(
                one for one in folders if not one.startswith(".") and one not in _SKIPPED and depth < _DEEPEST
            )
            for one in sorted(names):
                file = here / one
                if one.startswith(".") or (file.is_symlink() and not self._inside(file)):
                    continue
                try:
                    state = file.stat()
                except OSError:
                    continue
                kind = self._kind(file)
                found.append(
                    {"path": self.name(file), "kind": kind, "size": state.st_size, "changed": state.st_mtime}
                )
                if len(found) >= MAX_FILES:
                    return found
        return found

    def code(self) -> list[tuple[str, float]]:
        """The files of Python, and when they were changed last."""
        return [(one["path"], one["changed"]) for one in self.files() if one["kind"] == "python"]

    def _inside(self, file: Path) -> bool:
        try:
            return file.resolve().is_relative_to(self.folder)
        except (OSError, RuntimeError):
            return False

    @staticmethod
    def _kind(file: Path) -> str:
        kind = _KINDS.get(file.suffix.lower(), "other")
        if kind == "scenario":
            try:
                with file.open("rb") as opened:
                    text = opened.read(1 << 16)
            except OSError:
                return "other"
            if b"units" not in text and b"upbeat" not in text:
                return "other"
        return kind

    # ---------------------------------------------------------------- texts

    def read(self, name: object) -> tuple[str, str]:
        """A text, and its version."""
        path = self.path(name)
        data = self._bytes(path)
        if data is None:
            known = [one["path"] for one in self.files()]
            raise Missing(f"there is no file '{name}'. {suggest(str(name), known, 'files')}")
        return _text(data, str(name)), version_of(data)

    @staticmethod
    def _bytes(path: Path) -> bytes | None:
        """What is in a file; None if there is none."""
        try:
            if path.is_dir():
                raise FileProblem(f"'{path.name}' is a folder")
            if path.exists() and not path.is_file():
                raise FileProblem(f"'{path.name}' is a pipe or a device, not a file")
            if path.stat().st_size > LARGEST_TEXT:
                raise FileProblem(f"'{path.name}' is larger than {LARGEST_TEXT / 1e6:.0f} MB")
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise FileProblem(f"cannot read '{path.name}': {error.strerror}") from None

    def write(self, name: object, text: object, version: object) -> str:
        """Write a text over the `version` that was read (None: a file that is not there yet); its new one."""
        path = self.path(name)
        if path.suffix.lower() not in _TEXTS:
            raise Refused(f"the studio writes scenarios (.toml) and adaptations (.sa), not '{name}'")
        if not isinstance(text, str):
            raise InvalidInput("text must be a text")
        if version is not None and not isinstance(version, str):
            raise InvalidInput("version must be that of the file that was read, or null")
        with self._locked():
            before = self._bytes(path)
            if before is not None and version != version_of(before):
                raise Changed(str(name), _text(before, str(name)), version_of(before))
            if before is not None and b"\r\n" in before and "\r" not in text:  # a browser has lost them
                text = text.replace("\n", "\r\n")
            try:
                data = text.encode("utf-8")
            except UnicodeEncodeError:
                raise InvalidInput("the text has halves of letters in it, which UTF-8 cannot hold") from None
            if len(data) > LARGEST_TEXT:
                raise FileProblem(f"a scenario of more than {LARGEST_TEXT / 1e6:.0f} MB is not written")
            self._replace(path, data)
        return version_of(data)

    def _replace(self, path: Path, data: bytes) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            mode = path.stat().st_mode & 0o7777 if path.exists() else None
        except OSError as error:
            raise FileProblem(f"cannot write '{path.name}': {error.strerror}") from None
        replace_file(path, data)
        if mode is not None:
            path.chmod(mode)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time, also where several studios have the folder open."""
        with self._turn:
            own = self.own()
            with (own / "lock").open("wb") as file:
                with contextlib.suppress(OSError):  # a file system without locks
                    fcntl.flock(file, fcntl.LOCK_EX)
                yield

    def own(self) -> Path:
        """The studio's own folder, which is made when it is first needed; version control leaves it out."""
        own = self.folder / OWN
        if own.is_symlink() and not self._inside(own):
            raise Refused(f"'{OWN}' is a link that leads out of the project folder")
        try:
            if not own.is_dir():
                own.mkdir()
                (own / ".gitignore").write_text("*\n", encoding="utf-8")
        except OSError as error:
            raise FileProblem(
                f"cannot write to the project folder: {error.strerror or error}. The studio keeps what "
                f"belongs to it in '{OWN}'"
            ) from None
        return own

    # ---------------------------------------------------------------- uploads

    def place_for(self, name: object) -> Path:
        """Where an upload of this name may go."""
        if not isinstance(name, str) or "/" in name or "\\" in name or name.startswith("."):
            raise Refused(f"{name!r} is not the plain name of a file")
        path = self.path(name)
        if path.suffix.lower() not in UPLOADS:
            raise Refused(f"'{name}' cannot be dropped here: {', '.join(UPLOADS)} can")
        return path

    def take(self, upload: Path, path: Path) -> Path:
        """Give an upload its name; beside another file of that name, it gets another one."""
        content = _digest(upload)
        stem, suffix = path.stem, path.suffix
        with self._locked():
            for number in range(1, 1000):
                place = path if number == 1 else path.with_name(f"{stem}_{number}{suffix}")
                try:
                    os.link(upload, place)  # which fails if it is there: nothing is ever replaced
                except FileExistsError:
                    if place.is_file() and _digest(place) == content:
                        upload.unlink()
                        return place
                    continue
                except OSError as error:
                    if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.EXDEV):
                        raise FileProblem(f"cannot write '{place.name}': {error.strerror}") from None
                    if place.exists():
                        continue
                    upload.replace(place)
                    return place
                upload.unlink()
                return place
        raise FileProblem(f"there are too many files called '{path.name}'")

    # ---------------------------------------------------------------- places of boxes

    def places(self, name: object) -> dict[str, list[float]]:
        """Where a user has put the boxes of a scenario."""
        try:
            found = json.loads(self._places(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return checked_places(found) if isinstance(found, dict) else {}

    def set_places(self, name: object, places: object) -> None:
        """Keep them, beside the scenario and not in it."""
        path = self._places(name)
        with self._locked():
            self._replace(path, json.dumps(checked_places(places)).encode())

    def _places(self, name: object) -> Path:
        self.path(name)
        return self.path(f"{OWN}/places/{name}.json", own=True)


# ----------------------------------------------------------------------------------------------------
# What a scenario refers to: files beside it, which must be of the project, too.

_REFERRING = ("file", "scenario", "sa", "out", "measured")
_DEEPEST_NEST = 50


def outside(text: str, file: Path, root: Path) -> list[Problem]:
    """Files that a scenario names, in units, adaptations and studies, and that are not in the folder `root`;
    those that the scenarios inside it name included."""
    found: list[Problem] = []
    _look_outside(text, file, root.resolve(), found, {file.resolve()}, ())
    lines = Lines(text)
    return [replace(one, line=lines.of(one.where)) for one in found]


def check_inside(text: str, file: Path, root: Path) -> None:
    """`ScenarioError` if a scenario names a file outside of the folder."""
    if found := outside(text, file, root):
        raise ScenarioError(found, file.name)


def _look_outside(
    text: str, file: Path, root: Path, found: list[Problem], seen: set[Path], where: tuple[str, ...]
) -> None:
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError):
        return  # somebody else says so
    waiting: list[tuple[tuple[str, ...], Any]] = [
        ((key,), content[key]) for key in ("units", "models", "study") if key in content
    ]
    while waiting:
        keys, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [((*keys, key), item) for key, item in value.items()]
        elif isinstance(value, list):
            waiting += [((*keys, str(k)), item) for k, item in enumerate(value)]
        elif isinstance(value, str) and _names_file(keys, value):
            place = file.parent / value
            try:
                resolved = place.resolve()
            except (OSError, RuntimeError, ValueError):
                continue
            if not resolved.is_relative_to(root):
                found.append(_beyond(where or keys, value))
            elif keys[-1] == "scenario" and resolved not in seen and len(seen) < _DEEPEST_NEST:
                seen.add(resolved)
                try:
                    inner = resolved.read_text(encoding="utf-8-sig")
                except (OSError, UnicodeDecodeError):
                    continue
                _look_outside(inner, resolved, root, found, seen, where or keys)
            elif resolved.suffix == ".sa":
                found += [_beyond(where or keys, name) for name in _outside_of_adaptation(place, root)]


def _outside_of_adaptation(file: Path, root: Path) -> Iterator[str]:
    """What an adaptation and those inside it name: others from where they are, FMUs from where it is."""
    waiting, seen = [file.resolve()], set[Path]()
    while waiting and len(seen) < _DEEPEST_NEST:
        one = waiting.pop()
        seen.add(one)
        try:
            read = read_sa(one)
        except UpbeatError:
            continue  # somebody else says so
        ways = [unit.path for unit in read.fmus]
        ways += [unit.path for each in read.adaptations for unit in each.inner]
        named = [one.parent / way for way in ways if way.endswith(".sa")]
        named += one.parent.glob("*.sa") if read.imports else ()
        fmus = [file.parent / way for way in ways if way.endswith(".fmu")]
        for other in (*named, *(fmu for fmu in fmus if fmu.exists())):
            place = other.resolve()
            if not place.is_relative_to(root):
                yield other.name
            elif place.suffix == ".sa" and place not in seen:
                waiting.append(place)


def _names_file(keys: tuple[str, ...], value: str) -> bool:
    last = next((key for key in reversed(keys) if not key.isdigit()), "")
    return last in _REFERRING or (last == "adapt" and value.endswith(".sa")) or keys == ("study", "table")


def _beyond(where: tuple[str, ...], name: str) -> Problem:
    what = f"'{name}' lies outside of the project folder, and the studio reads nothing there"
    return Problem(where, what, "Copy it into the folder, or open the folder around both.")


def checked_places(given: object) -> dict[str, list[float]]:
    """Corners of boxes by their keys."""
    if not isinstance(given, dict):
        raise InvalidInput("places are a table of boxes")
    found: dict[str, list[float]] = {}
    for key, place in given.items():
        numbers = isinstance(place, list) and len(place) == 2
        if not numbers or not all(
            isinstance(x, (int, float)) and not isinstance(x, bool) and abs(x) < 1e6 for x in place
        ):
            raise InvalidInput(f"the place of '{key}' must be two numbers")
        found[str(key)[:500]] = [float(x) for x in place]
    return found


def version_of(data: bytes) -> str:
    """What a version of a file is known by."""
    return hashlib.sha256(data).hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileProblem(f"'{name}' is not a text in UTF-8") from None
