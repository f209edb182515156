"""Broken files of every kind: each must be read, or refused in Upbeat's own words.

    python tools/fuzz.py --files 20000 --seed 1        # all kinds of file
    python tools/fuzz.py --kind results --case 4711    # one case again, with its traceback

A case is a seed file and a random change of it: bytes, numbers, words, lines and elements lost, doubled,
swapped or replaced by nasty ones; JSON inside is changed as JSON, and checksums are made right again, since
whoever means harm does that, too. Cases run in child processes with a limit of memory and of time for each.
What counts is

* a *traceback*: any exception that is not one of Upbeat's (through the command line: "a defect of Upbeat"),
* a *hang*: more than `SECONDS` of work on one small file,
* a *crash*: the process was killed, for instance because it ran out of memory.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests")]

import upbeat as up  # noqa: E402

SECONDS = 5
"""How long one file may take; they are small."""
TIMERS = ((signal.SIGPROF, signal.ITIMER_PROF, SECONDS), (signal.SIGALRM, signal.ITIMER_REAL, 20 * SECONDS))
"""By work of the processor, since the machine may be busy; by the clock, in case that nothing is done."""
MEMORY = 3 << 30

Files = dict[str, bytes]
"""A case on disk: the names of its files, the first of which is handed over."""

# -------------------------------------------------------------------------------------------- changes

NUMBERS = (
    *("0", "-1", "1", "2", "1e308", "-1e308", "1e999", "nan", "inf", "-inf", "5e-324", "0x10", "1_000"),
    *("9" * 30, "9" * 400, "-" + "9" * 25, "4294967296", "9223372036854775808", "1e-300", "0.1.2", "1e10"),
)
WORDS = (
    *(
        "",
        " ",
        "true",
        "false",
        "null",
        "None",
        "[]",
        "{}",
        '""',
        "'",
        '"',
        "..",
        "../../etc/passwd",
        "/dev/zero",
    ),
    *(
        "\x00",
        "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
        "x" * 3000,
        "\u0663",
        "%s%n",
    ),
    *(
        "time",
        "step",
        "until",
        "kind",
        "units",
        "connections",
        "events",
        "__class__",
        "a.b.c",
        "a[0]",
        "a[-1]",
    ),
    *("m^99999", "m**9999999", "1/0", "x" + "'" * 50, "((((((((((", "-" * 500 + "1", "a+" * 800 + "a"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**30, 10**400, 1e308, -1e308, 5e-324),
    *("", "x", "x" * 3000, [], {}, [[]], [None], {"": None}, [1, "a"], {"a": {"b": []}}, "nan", 0.5),
)


def changed(data: bytes, turn: random.Random, others: list[bytes]) -> bytes:
    """`data` with one to four changes."""
    for _ in range(turn.choice((1, 1, 1, 2, 4))):
        data = turn.choice(CHANGES)(data, turn, others)
    return data


def _span(data: bytes, turn: random.Random, longest: int = 40) -> tuple[int, int]:
    start = turn.randrange(len(data) + 1)
    return start, min(len(data), start + turn.randrange(1, longest))


def _flip(data: bytes, turn: random.Random, others: list[bytes]) -> bytes:
    if not data:
        return b"\0"
    at = turn.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << turn.randrange(8))]) + data[at + 1 :]


def _cut(data: bytes, turn: random.Random, others: list[bytes]) -> bytes:
    start, end = _span(data, turn)
    return data[:start] if turn.random() < 0.3 else data[:start] + data[end:]


def _double(data: bytes, turn: random.Random, others: list[bytes]) -> bytes:
    start, end = _span(data, turn, 200)
    return data[:end] + data[start:end] * turn.choice((1, 1, 2, 50)) + data[end:]


def _noise(data: bytes, turn: random.Random, others: list[bytes]) -> bytes:
    start, end = _span(data, turn)
    return data[:start] + turn.randbytes(turn.randrange(1, 12)) + data[end:]


def _number(data: bytes, turn: random.Random, others: list[bytes]) -> bytes:
    return _replace(data, turn, rb"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?", turn.choice(NUMBERS))


def _word(data: bytes, turn: random.Random, others: list[bytes]) -> bytes:
    return _replace(data, turn, rb"[A-Za-z_][A-Za-z_0-9]*", turn.choice(WORDS))


def _text(data: bytes, turn: random.Random, others: list[bytes]) -> bytes:
    return _replace(data, turn, rb'"[^"\n]*"', f'"{turn.choice((*WORDS, *NUMBERS))}"')


def _swap(data: bytes, turn: random.Random, others: list[bytes]) -> bytes:
    """One word takes the place of another from the same file."""
    words = re.findall(rb"[\w.]+", data)
    return _replace(data, turn, rb"[\w.]+", turn.choice(words) if words else b"")


def _line(data: bytes, turn: random.Random, others: list[bytes]) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return b"\n"
    at, to = turn.randrange(len(lines)), turn.randrange(len(lines) + 1)
    piece = lines[at]
    if turn.random() < 0.5:
        del lines[at]
    return b"".join([*lines[:to], piece, *lines[to:]])


def _foreign(data: bytes, turn: random.Random, others: list[bytes]) -> bytes:
    other = turn.choice(others)
    (start, end), (first, last) = _span(data, turn, 200), _span(other, turn, 200)
    return data[:start] + other[first:last] + data[end:]


def _element(data: bytes, turn: random.Random, others: list[bytes]) -> bytes:
    """A whole XML element or a table header, so that most of it stays well-formed."""
    found = [
        m.span() for m in re.finditer(rb"<(\w[\w:]*)[^<>]*?(?:/>|>.*?</\1>)|\[[\w.\"]+\]\n", data, re.DOTALL)
    ]
    if not found:
        return _line(data, turn, others)
    start, end = turn.choice(found)
    piece = data[start:end]
    if turn.random() < 0.5:
        return data[:start] + data[end:]
    at = turn.choice(found)[1]
    return data[:at] + piece * turn.choice((1, 1, 30)) + data[at:]


def _replace(data: bytes, turn: random.Random, pattern: bytes, by: str | bytes) -> bytes:
    found = [m.span() for m in re.finditer(pattern, data)]
    if not found:
        return data
    start, end = turn.choice(found)
    return data[:start] + (by.encode("utf-8", "replace") if isinstance(by, str) else by) + data[end:]


CHANGES = (
    _flip,
    _cut,
    _double,
    _noise,
    _number,
    _number,
    _word,
    _text,
    _swap,
    _swap,
    _line,
    _foreign,
    _element,
)


def changed_json(value: Any, turn: random.Random) -> Any:
    """A value with one leaf, key or branch changed."""
    if isinstance(value, dict) and value and turn.random() < 0.85:
        key = turn.choice(list(value))
        found = dict(value)
        match turn.randrange(8):
            case 0:
                del found[key]
            case 1:
                found[turn.choice(WORDS)] = found.pop(key)
            case _:
                found[key] = changed_json(value[key], turn)
        return found
    if isinstance(value, list) and value and turn.random() < 0.85:
        at = turn.randrange(len(value))
        match turn.randrange(6):
            case 0:
                return value[:at] + value[at + 1 :]
            case 1:
                return [*value, value[at]]
            case _:
                return [*value[:at], changed_json(value[at], turn), *value[at + 1 :]]
    return turn.choice(VALUES)


def _changed_document(data: bytes, turn: random.Random, others: list[bytes]) -> bytes:
    """JSON changed as JSON, most of the time."""
    try:
        value = json.loads(data)
    except ValueError:
        return changed(data, turn, others)
    if turn.random() < 0.15:
        return changed(data, turn, others)
    for _ in range(turn.choice((1, 1, 2))):
        value = changed_json(value, turn)
    return json.dumps(value).encode()


# ----------------------------------------------------------------------------------- kinds of file


@dataclass
class Kind:
    """Files of one kind: good ones to begin with, how they are changed, and what is done with them."""

    seeds: list[Files]
    use: Callable[[Path], None]
    change: Callable[[Files, random.Random, list[bytes]], Files]


def any_of(files: Files, turn: random.Random, others: list[bytes]) -> Files:
    """One of the files changed, most often the first."""
    names = list(files)
    name = names[0] if turn.random() < 0.6 else turn.choice(names)
    return files | {name: changed(files[name], turn, others)}


def command(*words: str) -> Callable[[Path], None]:
    """A command on the file, as somebody would type it; its output is of no interest."""

    def use(path: Path) -> None:
        from upbeat.cli.main import main

        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            try:
                main([word.replace("FILE", str(path)) for word in words])
            except SystemExit:  # argparse: a wrong command line
                return

    return use


def scenarios(folder: Path) -> Kind:
    """Scenario files: checked and explained."""
    texts = {path.name: path.read_bytes() for path in sorted((ROOT / "examples").rglob("*.toml"))}
    texts = {name: text for name, text in texts.items() if len(text) < 20_000}
    seeds = [{"scenario.toml": text} for text in texts.values()]
    blocks = [
        m[1]
        for page in (ROOT / "docs").glob("*.md")
        for m in re.finditer(r"```toml\n(.*?)```", page.read_text(), re.S)
    ]
    seeds += [{"scenario.toml": block.encode()} for block in blocks if "[units" in block or "units." in block]
    check, explain = command("check", "FILE"), command("explain", "FILE")

    def use(path: Path) -> None:
        check(path)
        explain(path)

    return Kind(seeds, use, any_of)


def descriptions(folder: Path) -> Kind:
    """FMUs with another modelDescription.xml."""
    import fmu_texts

    seeds = [{"modelDescription.xml": text.encode()} for text in (fmu_texts.FMI2, fmu_texts.FMI3)]
    check = command("check", "FILE")

    def use(path: Path) -> None:
        fmu = path.with_name("changed.fmu")
        with zipfile.ZipFile(fmu, "w") as archive:
            archive.write(path, "modelDescription.xml")
        check(fmu)

    return Kind(seeds, use, any_of)


def systems(folder: Path) -> Kind:
    """SSPs with other descriptions of the system and of its parameters."""
    from fmu_maker import MODELS, make
    from scenario.ssp.test_fuzz import FILES

    fmus = {name: make(MODELS[name, 2], 2, folder) for name in ("gain", "types")}

    def use(path: Path) -> None:
        for name, fmu in fmus.items():
            place = path.with_name(f"{name}.fmu")
            if not place.exists():
                os.link(fmu, place)
        up.read_ssp(path.parent)

    return Kind([{name: text.encode() for name, text in FILES.items()}], use, any_of)


DRIVEN = """upbeat = 1
units.tank.states = { level = "q - 0.1*level" }
units.tank.inputs = { q = 0.0, n = { kind = "integer", start = 1 } }
units.tank.outputs = ["level"]
connections = { "tank.q" = "q", "tank.n" = "n" }
inputs = { q = 0.0, n = { kind = "integer", start = 1 } }
master.step = 0.5
run.until = 3.0
"""


def inputs(folder: Path) -> Kind:
    """Tables that drive the inputs of a scenario."""
    scenario = folder / "driven.toml"
    scenario.write_text(DRIVEN)
    rows = "".join(f"{0.3 * i:.1f},{i * 0.7:.2f},{i}\n" for i in range(12))
    seeds: list[Files] = [{"input.csv": f"time,q,n\n{rows}".encode()}]
    seeds.append({"input.csv": f"time;q;n\n{rows.replace(',', ';')}".encode()})
    return Kind(seeds, command("run", str(scenario), "--input", "FILE", "--quiet"), any_of)


def _sampled() -> up.Trace:
    """A run with events, details, notes and steps of several reasons."""
    ball = up.Ode({"x": "v", "v": "-9.81"}, start={"x": 1.0}, outputs=["x", "v"])
    floor = up.Scenario(
        {"ball": ball}, events={"hit": {"when": "ball.x <= 0", "then": {"ball.v": "-0.8*ball.v"}}}
    )
    return up.simulate(floor, pace=up.LookAhead(0.1), until=1.2)


def results(folder: Path) -> Kind:
    """Result files: read, and all of them looked at."""
    from sample_traces import COLUMNS, row
    from upbeat.trace.files.sinks import open_sink
    from upbeat.trace.log import Outcome
    from upbeat.trace.recorder import Recorder

    seeds: list[Files] = []
    for suffix in (".journal", ".csv", ".parquet"):
        place = folder / f"seed{suffix}"
        ball = folder / f"ball{suffix}"
        _sampled().save(ball)
        recorder = Recorder(COLUMNS, open_sink(place), chunk_rows=7)
        for i in range(40):
            recorder.row(*row(i))
        recorder.close(Outcome.FINISHED, info={"engine": "interpret"}, notes=["a note"])
        for path in (place, ball):
            more = path.parent.glob(f"{path.stem}.columns.json") if suffix == ".csv" else ()
            beside = sorted([*path.parent.glob(f"{path.stem}.*{suffix}"), *more])
            seeds.append(
                {path.name: path.read_bytes(), **{p.name: p.read_bytes() for p in beside if p != path}}
            )
    return Kind(seeds, _look_at, _changed_result)


def _look_at(path: Path) -> None:
    trace = up.read(path)
    for name in ("time", *trace.names):
        len(trace[name] if name != "time" else trace.time)
    for event in trace.events:
        str(event)
    for step in trace.steps:
        str(step.reason)
    if len(trace):
        trace.at(trace.time[0])
    up.summary(trace)
    repr(trace), str(trace.outcome), list(trace.notes), trace.lateness, trace.info


def _changed_result(files: Files, turn: random.Random, others: list[bytes]) -> Files:
    name = next(iter(files)) if turn.random() < 0.6 else turn.choice(list(files))
    data = files[name]
    if name.endswith(".journal") and turn.random() < 0.85:
        return files | {name: _changed_journal(data, turn, others)}
    if name.endswith(".parquet") and turn.random() < 0.7:
        return files | {name: _changed_parquet(data, turn)}
    if name.endswith(".json"):
        return files | {name: _changed_document(data, turn, others)}
    if name.endswith(".csv") and turn.random() < 0.4:
        return files | {name: _changed_fields(data, turn, others)}
    return files | {name: changed(data, turn, others)}


def _changed_fields(data: bytes, turn: random.Random, others: list[bytes]) -> bytes:
    """A table that ends after its first line or in it; or JSON of another kind inside a field."""
    if turn.random() < 0.2:
        head = data[: data.find(b"\n") + 1]
        return turn.choice((head, head[:-1], head[: turn.randrange(len(head) + 1)]))
    fields = [m.span() for m in re.finditer(rb'"(?:[^"]|"")*"|[^,\r\n"]+', data)]
    quoted = [(start, end) for start, end in fields if data[start:end][:2] in (b'"{', b'"[')]
    start, end = turn.choice(quoted if quoted and turn.random() < 0.7 else fields)
    was = data[start:end].strip(b'"').replace(b'""', b'"')
    now = (
        _changed_document(was, turn, others)
        if turn.random() < 0.7
        else json.dumps(turn.choice(VALUES)).encode()
    )
    return data[:start] + b'"' + now.replace(b'"', b'""') + b'"' + data[end:]


def _changed_journal(data: bytes, turn: random.Random, others: list[bytes]) -> bytes:
    """Frames changed inside, with their checksums made right."""
    head, _, rest = data.partition(b"\n")
    frames: list[tuple[bytes, bytes]] = []
    at = 0
    while at + 16 <= len(rest):
        tag, length = struct.unpack_from("<4sQ", rest, at)
        frames.append((tag, rest[at + 16 : at + 16 + length]))
        at += 16 + length
    if turn.random() < 0.25 or not frames:
        head = _changed_document(head, turn, others)
    else:
        at = turn.randrange(len(frames))
        tag, payload = frames[at]
        match turn.randrange(6):
            case 0:
                del frames[at]
            case 1:
                frames.insert(turn.randrange(len(frames) + 1), frames[at])
            case 2:
                frames[at] = (turn.choice([b"ROWS", b"TEXT", b"KIND", b"EVNT", b"DONE", b"ZZZZ"]), payload)
            case _:
                frames[at] = (
                    tag,
                    _changed_document(payload, turn, others)
                    if payload[:1] in b"[{"
                    else changed(payload, turn, others),
                )
    packed = b""
    for tag, payload in frames:
        start = struct.pack("<4sQ", tag, len(payload))
        packed += start + struct.pack("<I", zlib.crc32(payload, zlib.crc32(start))) + payload
    return head + b"\n" + packed


def _changed_parquet(data: bytes, turn: random.Random) -> bytes:
    """The metadata or a column changed, the file sound as a Parquet file."""
    import pyarrow
    import pyarrow.parquet as parquet

    table = parquet.read_table(io.BytesIO(data))
    meta = dict(table.schema.metadata or {})
    match turn.randrange(4):
        case 0 if table.num_columns > 1:
            at = turn.randrange(table.num_columns)
            name = table.column_names[at]
            kind = turn.choice(
                [pyarrow.string(), pyarrow.int8(), pyarrow.float32(), pyarrow.bool_(), pyarrow.date32()]
            )
            new = pyarrow.array([None] * table.num_rows, kind)
            table = table.set_column(at, name, new) if turn.random() < 0.6 else table.drop_columns([name])
        case 1:
            table = table.slice(0, turn.randrange(table.num_rows + 1))
        case _ if b"upbeat" in meta:
            meta[b"upbeat"] = _changed_document(meta[b"upbeat"], turn, [data])
    sink = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata(meta), sink)
    return sink.getvalue()


def checkpoints(folder: Path) -> Kind:
    """Checkpoints: runs go on from them, beside their results."""
    ode = up.Ode({"x": "v", "v": "-x - 0.1*v"}, start={"x": 1.0}, inputs=["u"], outputs=["x"])
    sampled = up.Scenario(
        {"a": ode, "clock": up.Clock(0.3), "n": up.LastValue(0.0)},
        {"a.u": "n.value", "n.event": {"event": "clock.tick", "value": "a.x"}},
    )
    seeds: list[Files] = []
    settings: dict[str, Any] = {"pace": 0.1, "until": 3.0, "inputs": "linear"}
    experiments = {}
    for engine in ("interpret", "native"):
        name, result = f"{engine}.checkpoint", folder / f"{engine}.csv"
        keep = up.Checkpoint(folder / name, "5 steps")
        experiments[name] = up.experiment(sampled, engine=engine, out=result, checkpoint=keep, **settings)
        run = up.start(sampled, engine=engine, out=result, checkpoint=keep, **settings)
        for _ in range(12):
            run.step()
        run.close()
        events = result.with_suffix(".events.csv")
        seeds.append({p.name: p.read_bytes() for p in (folder / name, result, events)})

    def use(path: Path) -> None:
        up.resume(path, experiment=experiments[path.name])

    return Kind(seeds, use, _changed_checkpoint)


def _changed_checkpoint(files: Files, turn: random.Random, others: list[bytes]) -> Files:
    name = next(iter(files))
    data = files[name]
    if turn.random() < 0.15:
        return any_of(files, turn, others)
    mark = b"UPBEAT checkpoint\n"
    at, parts = len(mark) + 4, []
    while len(parts) < 3:
        (length,) = struct.unpack_from("<Q", data, at)
        parts.append(data[at + 8 : at + 8 + length])
        at += 8 + length
    chosen = turn.choice((0, 0, 0, 1, 2))
    parts[chosen] = (_changed_document if chosen == 0 else changed)(parts[chosen], turn, others)
    body = data[: len(mark) + 4] + b"".join(struct.pack("<Q", len(part)) + part for part in parts)
    from upbeat.core.plain import with_checksum

    return files | {name: with_checksum(body)}


def adaptations(folder: Path) -> Kind:
    """Adaptations in the baseSA language: checked and written out; what is sound is run for two steps."""
    from upbeat.adapt.sa.loading import checked

    files = {path.name: path.read_bytes() for path in sorted((ROOT / "examples/power_window").glob("*.sa"))}
    tests = (ROOT / "tests/adapt/test_sa_parsing.py").read_text() + (
        ROOT / "tests/adapt/test_sa_explicit.py"
    ).read_text()
    texts = [text for text in re.findall(r'"""\n(.*?)"""', tests, re.S) if "semantic adaptation" in text]
    seeds: list[Files] = [{name: files[name], **files} for name in files]
    seeds += [{"text.sa": text.replace("\\n", "\n").encode()} for text in texts]
    explicit = command("adapt", "FILE", "--explicit", "--json")
    units = _inner_units()

    def use(path: Path) -> None:
        explicit(path)
        found = checked(path)  # what is not told in Upbeat's own words has come out above
        inner = {
            u.name for layer in found[-1].all() for u in layer.explicit.it.inner if u.name not in layer.inside
        }
        model = up.read_sa(path, {name: units[name] for name in inner if name in units})
        up.simulate(up.Scenario({"it": model}), pace=0.01, until=0.02, coupling=up.GaussSeidel())

    return Kind(seeds, use, any_of)


def _inner_units() -> dict[str, Any]:
    """The units of the power window as they are, so that adaptations are made as well as read."""
    import tomllib

    from upbeat.core.errors import Problems
    from upbeat.scenario.files.definitions import Definitions

    tables = tomllib.loads((ROOT / "examples/power_window/power_window.toml").read_text())["models"]
    made = Definitions(tables, Problems(), allow_python=False, folder=None)
    return {name: made.unit(name, {"model": name}) for name in tables if name != "environment"}


KINDS: dict[str, Callable[[Path], Kind]] = {
    "toml": scenarios,
    "sa": adaptations,
    "md": descriptions,
    "ssd": systems,
    "csv": inputs,
    "results": results,
    "checkpoints": checkpoints,
}

# -------------------------------------------------------------------------------------------- running


@dataclass
class Tally:
    """What became of the files of one kind."""

    n: int = 0
    read: int = 0
    tracebacks: int = 0
    hangs: int = 0
    crashes: int = 0
    worst_seconds: float = 0.0
    places: Counter[str] = None  # type: ignore[assignment]
    cases: dict[str, int] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.places, self.cases = Counter(), {}


class _Hang(BaseException):
    """The alarm: not an Exception, so that nobody takes it for one."""


def case_of(kind: Kind, number: int, seed: int) -> Files:
    """The files of one case."""
    turn = random.Random(f"{seed}/{number}")
    return kind.change(turn.choice(kind.seeds), turn, [next(iter(files.values())) for files in kind.seeds])


def tried(kind: Kind, files: Files, folder: Path) -> tuple[str, str]:
    """What happens: "read", "refused", "traceback" or "hang", and where."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)

    def late(*_: Any) -> None:
        raise _Hang

    for alarm, timer, seconds in TIMERS:
        signal.signal(alarm, late)
        signal.setitimer(timer, seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kind.use(folder / next(iter(files)))
        return "read", ""
    except up.UpbeatError:
        return "refused", ""
    except _Hang as error:
        return "hang", place_of(error)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, it should not have come out
        return "traceback", place_of(error)
    finally:
        for _, timer, _ in TIMERS:
            signal.setitimer(timer, 0)


def place_of(error: BaseException) -> str:
    """The error and the line of ours that it came from."""
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "upbeat" in frame.filename]
    at = f"{Path(ours[-1].filename).name}:{ours[-1].lineno} {ours[-1].name}" if ours else "?"
    return f"{type(error).__name__} in {at}: {str(error)[:80]}"


def fuzz(name: str, numbers: range, seed: int, progress: Callable[[int], None] | None = None) -> Tally:
    """Try the cases of a kind, in child processes of some hundred cases each."""
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="upbeat-fuzz-") as scratch:
        folder = Path(scratch)
        kind = KINDS[name](folder)
        at = numbers.start
        while at < numbers.stop:
            for number, outcome, where, seconds in _batch(
                kind, range(at, min(at + 250, numbers.stop)), seed, folder
            ):
                at = number + 1
                tally.n += 1
                tally.read += outcome == "read"
                tally.tracebacks += outcome == "traceback"
                tally.hangs += outcome == "hang"
                tally.crashes += outcome == "crash"
                tally.worst_seconds = max(tally.worst_seconds, seconds)
                if where:
                    tally.places[f"{outcome}: {where.partition(': ')[0]}"] += 1
                    tally.cases.setdefault(f"{outcome}: {where}"[:160], number)
                if progress is not None:
                    progress(tally.n)
    return tally


def _batch(kind: Kind, numbers: range, seed: int, folder: Path) -> Iterator[tuple[int, str, str, float]]:
    """Outcomes of some cases from a child; if it dies, the case it died of is a crash."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 2)
        os.environ["UPBEAT_TRACEBACK"] = "1"
        out = os.fdopen(writing, "w", buffering=1)
        for number in numbers:
            began = time.process_time()
            try:
                outcome, where = tried(kind, case_of(kind, number, seed), folder / "case")
            except BaseException:  # noqa: BLE001 - a fault of the fuzzer itself
                outcome, where = (
                    "traceback",
                    "the fuzzer: " + traceback.format_exc()[-200:].replace("\n", " "),
                )
            out.write(json.dumps([number, outcome, where, time.process_time() - began]) + "\n")
        out.flush()
        os._exit(0)
    os.close(writing)
    last, died = numbers.start - 1, "crash"
    for line in _lines(reading):
        number, outcome, where, seconds = json.loads(line)
        last = number
        yield number, outcome, where, seconds
    if last + 1 < numbers.stop:  # else it is about to end by itself
        ended, status, tries = *os.waitpid(child, os.WNOHANG), 100
        while not ended and tries:
            time.sleep(0.02)
            ended, status, tries = *os.waitpid(child, os.WNOHANG), tries - 1
        if not ended:  # it hangs where no timer gets through
            os.killpg(child, signal.SIGKILL)
            died, (_, status) = "hang", os.waitpid(child, 0)
        how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {status}"
        yield last + 1, died, how, 0.0
    else:
        os.waitpid(child, 0)


def _lines(pipe: int) -> Iterator[bytes]:
    """Whole lines, until there are no more of them or none has come for too long."""
    rest = b""
    with os.fdopen(pipe, "rb", buffering=0) as stream:
        while select.select([stream], [], [], 40 * SECONDS)[0] and (more := stream.read(1 << 16)):
            *lines, rest = (rest + more).split(b"\n")
            yield from lines


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument(
        "--kind", choices=KINDS, action="append", help="this kind of file only; may be repeated"
    )
    parser.add_argument("--files", type=int, default=1000, help="how many of each kind")
    parser.add_argument("--seed", type=int, default=0, help="where random numbers begin")
    parser.add_argument(
        "--case", type=int, help="one case only, with its traceback; its files stay in ./fuzz-case"
    )
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr
    kinds = options.kind or list(KINDS)
    if options.case is not None:
        return one(kinds[0], options.case, options.seed)
    found: dict[str, Any] = {}
    for name in kinds:
        tally = fuzz(name, range(options.files), options.seed)
        found[name] = {
            "n": tally.n,
            "read": tally.read,
            "tracebacks": tally.tracebacks,
            "hangs": tally.hangs,
            "crashes": tally.crashes,
        }
        print(name, found[name], f"slowest {tally.worst_seconds:.2f} s")
        for where, count in tally.places.most_common(40):
            print(f"  {count:5} {where}")
        for where, number in list(tally.cases.items())[:60]:
            print(f"    case {number}: {where}")
    if options.json:
        print(json.dumps(found), file=sys.__stdout__)
    return 0 if not any(f["tracebacks"] + f["hangs"] + f["crashes"] for f in found.values()) else 1


def one(name: str, number: int, seed: int) -> int:
    """A case again, not hidden away in a child."""
    os.environ["UPBEAT_TRACEBACK"] = "1"
    with tempfile.TemporaryDirectory(prefix="upbeat-fuzz-") as scratch:
        kind = KINDS[name](Path(scratch))
        place = Path("fuzz-case")
        files = case_of(kind, number, seed)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        for file, data in files.items():
            (place / file).write_bytes(data)
        try:
            kind.use(place / next(iter(files)))
            print("read")
        except up.UpbeatError as error:
            print(f"refused: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
