"""An FMU that misbehaves, and whether the run that it is in survives.

    python -m tools.hostile --json                  # everything (minutes)
    python -m tools.hostile segv:step write:step    # some faults, with what was said about them

`hostile.c` is an FMU with many faults; which one, and where, is said by a file in its resources. Each runs
in a process of its own (the *host*), beside a sound unit, for 20 steps, with results in a CSV file. It
strikes at t = 0.5. Isolated, on both engines,

* the host lives, and says in Upbeat's words what happened, with the name of the unit,
* the results so far are in the file and in the trace, and those of the sound unit are what they always are,
* no process is left, and nothing in the folder for temporary files once the next run has started.

Without isolation a host may die of its FMU. But results that were complete are in the file, and so are the
rows before a step that hangs; and what changes the results of others is undone, with a warning.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_suffix(".c")
COMPILER = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
STEP, STEPS, STRIKES = 0.1, 20, 5
DEADLINE = 1.0
MARK = "UPBEAT_HOSTILE"
MEMORY = 6 << 30

# ---------------------------------------------------------------------------------------- the faults

ENDS = (
    *("segv", "bus", "fpe", "ill", "abort", "exit", "exit0", "_exit", "_exit0", "throw", "overflow"),
    *("kill", "term", "stop", "killgroup", "termgroup", "doublefree", "smash", "allocate"),
)
SHARED = ("zeros", "ones", "noise", "head", "scribbler", "truncate", "grow", "unlink", "write", "close")
SHARED += ("replace", "unmap")
SAID = ("stdout", "stderr", "oneline", "messages", "message", "bytes", "nowords", "odd")
ARITHMETIC = ("upward", "tozero", "flush", "single", "traps")
PROCESS = ("handlers", "ignore", "mask", "locale", "umask", "chdir", "environment", "fsize", "nofile")
PROCESS += ("memory", "timer", "int")
STAYS = ("child", "children", "daemon", "daemonandcrash", "threads", "files", "temporary")
ANSWERS = ("nan", "inf", "status42", "status-1", "statusmin", "pending", "fatal", "error", "discard")
FUNCTIONS = ("load", "instantiate", "setup", "enter", "exit", "set", "get", "step", "terminate", "free")


@dataclass(frozen=True)
class Fault:
    """What the FMU does, and in which function."""

    deed: str
    where: str

    @property
    def name(self) -> str:
        return f"{self.deed}:{self.where}"

    @property
    def rows(self) -> int:
        """The rows that there are before it strikes."""
        if self.where in ("terminate", "free"):
            return STEPS + 1
        if self.where == "step":
            return STRIKES + 1
        return STRIKES if self.where in ("set", "get", "text", "answer") else 0


def isolated_faults() -> list[Fault]:
    """Every fault that a unit in a process of its own may have."""
    deeds = (*ENDS, "longjmp", *SHARED, *SAID, *ARITHMETIC, *PROCESS, *STAYS, *ANSWERS)
    found = [Fault(deed, "step") for deed in deeds]
    found += [Fault(deed, where) for deed in ("segv", "_exit0", "throw") for where in FUNCTIONS]
    found += [Fault(deed, where) for deed in ("sleep", "spin") for where in ("step",)]
    found += [Fault("sleep", where) for where in ("load", "instantiate", "terminate", "free", "set", "get")]
    found += [
        Fault(deed, "instantiate") for deed in ("write", "close", "truncate", "zeros", "noise", "daemon")
    ]
    found += [Fault(deed, "terminate") for deed in ("write", "noise", "daemon", "stdout", "exit", "kill")]
    found += [Fault(deed, "free") for deed in ("doublefree", "late", "child")]
    found += [Fault(deed, "text") for deed in ("textnull", "textbytes", "textwild", "textlong")]
    found += [Fault(deed, "save") for deed in ("segv", "throw", "nostate", "hugestate", "bigstate", "noise")]
    found += [Fault("freetwice", "drop"), Fault("segv", "restore")]
    found += [Fault(deed, "answer") for deed in ("lastnan", "lastback", "lastfar")]
    return list(dict.fromkeys(found))


def inside_faults() -> list[Fault]:
    """Those that a run must bear without isolation, in part at least."""
    found = [Fault(deed, where) for deed in ("segv", "abort", "_exit0") for where in ("terminate", "free")]
    found += [Fault("sleep", "step"), Fault("sleep", "terminate")]
    found += [
        Fault(deed, where) for deed in ARITHMETIC for where in ("load", "instantiate", "set", "get", "step")
    ]
    found += [Fault(deed, "step") for deed in (*PROCESS[:7], *ANSWERS, "messages", "message", "bytes", "odd")]
    found += [Fault("throw", "step"), Fault("files", "step"), Fault("temporary", "step")]
    return list(dict.fromkeys(found))


LIVES = frozenset((*ARITHMETIC, *PROCESS, *ANSWERS, *SAID, "throw", "files", "temporary", "threads"))
"""Deeds that a host survives without isolation."""

# ---------------------------------------------------------------------------------------- the FMU


def library(version: int, folder: Path) -> Path:
    """The compiled FMU."""
    made = folder / f"hostile{version}.so"
    if not made.exists():
        assert COMPILER, "there is no C compiler"
        options = ["-std=gnu99", "-O1", "-fPIC", "-fexceptions", "-shared", f"-DFMI={version}", "-w"]
        fresh = made.with_suffix(f".{os.getpid()}.tmp")
        command = [COMPILER, *options, "-o", str(fresh), str(SOURCE), "-lm", "-ldl", "-lpthread"]
        subprocess.run(command, check=True, timeout=120)
        fresh.rename(made)
    return made


_DESCRIPTIONS = {
    2: """<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription fmiVersion="2.0" modelName="hostile" guid="{{hostile}}" numberOfEventIndicators="0">
<CoSimulation modelIdentifier="hostile" canHandleVariableCommunicationStepSize="true"
  canGetAndSetFMUstate="true" canSerializeFMUstate="true"/>
<ModelVariables>
<ScalarVariable name="time" valueReference="0" causality="independent"><Real/></ScalarVariable>
<ScalarVariable name="u" valueReference="1" causality="input"><Real start="0"/></ScalarVariable>
<ScalarVariable name="y" valueReference="2" causality="output"><Real/></ScalarVariable>
{text}</ModelVariables>
<ModelStructure><Outputs><Unknown index="3" dependencies=""/>{index}</Outputs></ModelStructure>
</fmiModelDescription>
""",
    3: """<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription fmiVersion="3.0" modelName="hostile" instantiationToken="{{hostile}}">
<CoSimulation modelIdentifier="hostile" canHandleVariableCommunicationStepSize="true"
  canGetAndSetFMUState="true" canSerializeFMUState="true"/>
<ModelVariables>
<Float64 name="time" valueReference="0" causality="independent" variability="continuous"/>
<Float64 name="u" valueReference="1" causality="input" start="0"/>
<Float64 name="y" valueReference="2" causality="output"/>
{text}</ModelVariables>
<ModelStructure><Output valueReference="2" dependencies=""/>{index}</ModelStructure>
</fmiModelDescription>
""",
}
_TEXT = {
    2: '<ScalarVariable name="s" valueReference="3" causality="output" variability="discrete"><String/>'
    "</ScalarVariable>\n",
    3: '<String name="s" valueReference="3" causality="output" variability="discrete"/>\n',
}
_INDEX = {2: '<Unknown index="4" dependencies=""/>', 3: '<Output valueReference="3" dependencies=""/>'}


def make(fault: Fault, version: int, folder: Path) -> Path:
    """The FMU with this fault."""
    from upbeat.units.fmi.library import Platform

    path = folder / f"{fault.deed}-{fault.where}-{version}.fmu"
    text = fault.where == "text"
    description = _DESCRIPTIONS[version].format(
        text=_TEXT[version] if text else "", index=_INDEX[version] if text else ""
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("modelDescription.xml", description)
        archive.writestr("resources/deed", f"{fault.deed} {fault.where}\n")
        archive.write(library(version, folder), f"binaries/{Platform.here().folders(version)[0]}/hostile.so")
    return path


# ---------------------------------------------------------------------------------------- the host


def host(orders: Sequence[dict[str, Any]]) -> None:
    """In a process of its own: a run for each order; what came of it goes to the file that it names."""
    import upbeat as up

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    heard: list[str] = []

    class Hearing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if len(heard) < 1000:
                heard.append(f"{record.name}: {record.getMessage()[:2000]}")

    logging.getLogger("upbeat").addHandler(Hearing(logging.WARNING))
    sound = up.Ode(states={"x": "-x/3 + sin(7*x)/9"}, start={"x": 1.0}, outputs=["x"])
    for order in orders:
        heard.clear()
        model: Any = up.Fmu(order["fmu"], rollback="trust")  # otherwise it is tried out before
        saves = order["where"] in ("save", "restore", "drop")
        if order["isolated"]:
            model = up.Isolated(model, deadline=DEADLINE, restart=int(saves), keep_every=2)
        scenario = up.Scenario({"hostile": model, "sound": sound}, {"hostile.u": "sound.x"})
        told: dict[str, Any] = {"error": "", "words": "", "unit": ""}
        try:
            trace = up.simulate(
                scenario, pace=STEP, until=STEPS * STEP, engine=order["engine"], out=order["out"],
                coupling=up.Iterated() if saves else up.Jacobi(),
            )  # fmt: skip
        except up.UpbeatError as error:
            told |= {"error": type(error).__name__, "words": str(error), "unit": getattr(error, "unit", "")}
            trace = getattr(error, "trace", None)
        except BaseException as error:  # noqa: BLE001  # whatever it is, it is told
            told |= {"error": f"defect: {type(error).__name__}", "words": str(error)}
            trace = getattr(error, "trace", None)
        told["rows"] = 0 if trace is None else len(trace.time)
        told["heard"] = heard[:20]
        Path(order["told"]).write_text(json.dumps(told))


# ---------------------------------------------------------------------------------------- the judge


@dataclass
class Verdict:
    """What one run with one fault came to."""

    fault: Fault
    version: int
    engine: str
    isolated: bool
    code: int | None
    told: dict[str, Any]
    rows: int
    same: bool
    """Whether the rows of the sound unit are those of a run without faults."""
    orphans: int
    left: int

    @property
    def died(self) -> bool:
        return self.code is None or self.code != 0 or not self.told

    @property
    def defect(self) -> bool:
        words = self.told.get("words", "")
        return self.told.get("error", "").startswith("defect") or "Traceback" in words

    @property
    def nameless(self) -> bool:
        """Whether an error does not say which unit it was."""
        named = self.told.get("unit") == "hostile" or "unit 'hostile'" in self.told.get("words", "")
        return bool(self.told.get("error")) and not named

    @property
    def lost(self) -> bool:
        return self.rows < self.fault.rows or (
            self.isolated and not self.died and self.told.get("rows", 0) < self.fault.rows
        )

    @property
    def changed(self) -> bool:
        return not self.same

    @property
    def problems(self) -> list[str]:
        """What must not be."""
        bears = self.isolated or self.fault.deed in LIVES
        keeps = bears or self.fault.where in ("terminate", "free") or self.fault.deed == "sleep"
        silent = (
            not self.isolated
            and self.fault.deed in ARITHMETIC
            and not any("hostile" in line and "processor" in line for line in self.told.get("heard", ()))
        )
        found = {
            "died": bears and self.died,
            "defect": bears and self.defect,
            "nameless": bears and self.nameless,
            "lost": keeps and self.lost,
            "changed": self.changed,
            "silent": silent,
            "orphans": self.isolated and self.orphans > 0,
            "left": self.left > 0,
        }
        return [name for name, wrong in found.items() if wrong]


def marked(token: str) -> list[int]:
    """The processes that have this token in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if f"{MARK}={token}".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found


def rows_of(path: Path) -> list[str]:
    """The rows of a result file that are whole, without the header."""
    if not path.exists():
        return []
    lines = path.read_text(errors="replace").splitlines(keepends=True)
    header = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return [line for line in lines[header + 1 :] if line.endswith("\n")]


def sound_cells(path: Path) -> list[tuple[str, str]]:
    """Time and value of the sound unit in every row, as texts: they are exact."""
    if not path.exists():
        return []
    lines = [line for line in path.read_text(errors="replace").splitlines() if not line.startswith("#")]
    names = lines[0].split(",") if lines else []
    if "sound.x" not in names:
        return []
    at = names.index("sound.x")
    return [(cells[0], cells[at]) for cells in (line.split(",") for line in lines[1:]) if len(cells) > at]


@contextlib.contextmanager
def workshop() -> Iterator[Path]:
    """A folder for FMUs, results and temporary files."""
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))
    try:
        yield folder
    finally:
        subprocess.run(["chmod", "-R", "u+rwx", str(folder)], check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


class Judge:
    """Runs faults in `folder`, and judges them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._usual: dict[tuple[int, bool], list[tuple[str, str]]] = {}
        for version in (2, 3):
            library(version, folder)

    def usual(self, engine: str, saves: bool) -> list[tuple[str, str]]:
        """The rows of the sound unit when nothing happens."""
        key = (int(engine == "native"), saves)
        if key not in self._usual:
            fault = Fault("nothing", "save" if saves else "step")
            _, places = self._run([(fault, 2)], engine, isolated=False)
            self._usual[key] = sound_cells(places[0] / "results.csv")
            assert len(self._usual[key]) == STEPS + 1, "the FMU does not work even without a fault"
        return self._usual[key]

    def _run(
        self, faults: Sequence[tuple[Fault, int]], engine: str, *, isolated: bool, hangs: bool = False
    ) -> tuple[tuple[int | None, str], list[Path]]:
        """One host for these faults: how it ended, and a folder for each. If it hangs, it is killed."""
        patience = 60.0 + 10.0 * len(faults)
        token = uuid.uuid4().hex
        base = self.folder / token
        orders, places = [], []
        for number, (fault, version) in enumerate(faults):
            place = base / str(number)
            place.mkdir(parents=True)
            places.append(place)
            orders.append(
                {
                    "fmu": str(make(fault, version, self.folder)),
                    "where": fault.where,
                    "isolated": isolated,
                    "engine": engine,
                    "out": str(place / "results.csv"),
                    "told": str(place / "told.json"),
                }
            )
        (base / "tmp").mkdir()
        (base / "orders.json").write_text(json.dumps(orders))
        environment = {**os.environ, MARK: token, "TMPDIR": str(base / "tmp")}
        environment["PYTHONPATH"] = os.pathsep.join(p for p in (str(SOURCE.parents[1]), *sys.path) if p)
        with (base / "output").open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tools.hostile", "--host", str(base / "orders.json")],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, cwd=base,
                start_new_session=True,
            )  # fmt: skip
            end = time.monotonic() + patience
            wanted = [fault.rows for fault, _ in faults] if hangs else [1 << 30]
            while (code := process.poll()) is None and time.monotonic() < end:
                time.sleep(0.05)
                if all(len(rows_of(p / "results.csv")) >= n for p, n in zip(places, wanted, strict=False)):
                    break  # there is nothing more to wait for
            if code is None:
                process.kill()
                process.wait()
        return (code, token), places

    def judged(self, faults: Sequence[tuple[Fault, int]], engine: str, *, isolated: bool) -> list[Verdict]:
        """One host for these faults, one after the other."""
        hangs = not isolated and any(fault.deed == "sleep" for fault, _ in faults)
        (code, token), places = self._run(faults, engine, isolated=isolated, hangs=hangs)
        orphans = marked(token)
        if code != 0:  # then processes of units have a moment to notice
            end = time.monotonic() + 5.0
            while orphans and time.monotonic() < end:
                time.sleep(0.1)
                orphans = marked(token)
        shared = list(Path("/dev/shm").glob("*upbeat*")) if Path("/dev/shm").exists() else []
        temporary = self.folder / token / "tmp"
        sweep = "import sys, upbeat.core.scratch as s, pathlib; s.sweep(pathlib.Path(sys.argv[1]))"
        subprocess.run([sys.executable, "-c", sweep, str(temporary)], check=True, timeout=60)
        # What an FMU in the process of the run makes there itself is its own business.
        left = len(list(temporary.glob("*" if isolated else "upbeat-*"))) + len(shared)
        if code != 0:
            orphans = marked(token)
        for orphan in orphans:
            with contextlib.suppress(OSError):
                os.kill(orphan, signal.SIGKILL)
        found = []
        for (fault, version), place in zip(faults, places, strict=True):
            told = place / "told.json"
            cells = sound_cells(place / "results.csv")
            usual = self.usual(engine, fault.where in ("save", "restore", "drop"))
            found.append(
                Verdict(
                    fault=fault,
                    version=version,
                    engine=engine,
                    isolated=isolated,
                    code=code,
                    told=json.loads(told.read_text()) if told.exists() else {},
                    rows=len(rows_of(place / "results.csv")),
                    same=cells == usual[: len(cells)],
                    orphans=len(orphans),
                    left=left,
                )
            )
        shutil.rmtree(self.folder / token, ignore_errors=True)
        return found


def summary(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The figures of a study."""

    def count(problem: str, which: Iterable[Verdict]) -> int:
        return sum(problem in verdict.problems for verdict in which)

    apart = [verdict for verdict in verdicts if verdict.isolated]
    inside = [verdict for verdict in verdicts if not verdict.isolated]
    return {
        "n": len(verdicts),
        "faults": len({verdict.fault for verdict in verdicts}),
        "isolated": len(apart),
        "host_died_isolated": count("died", apart),
        "results_lost_isolated": count("lost", apart),
        "tracebacks": count("defect", verdicts),
        "nameless": count("nameless", verdicts),
        "orphans": count("orphans", apart),
        "left_behind": count("left", verdicts),
        "changed_silently": count("changed", verdicts) + count("silent", verdicts),
        "inside": len(inside),
        "host_died_inside": count("died", inside),
        "results_lost_inside": count("lost", inside),
        "bad": [
            f"{v.fault.name} FMI {v.version} {v.engine} {'isolated' if v.isolated else 'inside'}: "
            + ", ".join(v.problems)
            for v in verdicts
            if v.problems
        ],
    }


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.hostile", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("faults", nargs="*", help="such as segv:step; all of them unless given")
    parser.add_argument("--host", help=argparse.SUPPRESS)
    parser.add_argument("--engine", choices=("native", "interpret"))
    parser.add_argument("--mode", choices=("isolated", "inside"))
    parser.add_argument("--version", type=int, choices=(2, 3), help="of FMI; they take turns unless given")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="nothing but one object with the figures")
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr
    if options.host:
        host(json.loads(Path(options.host).read_text()))
        return 0
    chosen = [Fault(*name.partition(":")[::2]) for name in options.faults]
    cases: list[tuple[Fault, int, str, bool]] = []
    for mode, usual in (("isolated", isolated_faults()), ("inside", inside_faults())):
        if options.mode in (None, mode):
            for number, fault in enumerate(chosen or usual):
                for more, engine in enumerate(("native", "interpret")):
                    if options.engine in (None, engine):
                        version = options.version or (
                            2 if fault.where == "setup" else 2 + (number + more) % 2
                        )
                        cases.append((fault, version, engine, mode == "isolated"))
    verdicts: list[Verdict] = []
    with workshop() as folder, ThreadPoolExecutor(max(1, options.jobs)) as pool:
        judge = Judge(folder)
        for engine in {case[2] for case in cases}:
            for saves in (False, True):
                judge.usual(engine, saves)
        for verdict in pool.map(
            lambda case: judge.judged([case[:2]], case[2], isolated=case[3])[0],  # type: ignore[arg-type]
            cases,
        ):
            verdicts.append(verdict)
            if verdict.problems or chosen:
                where = "isolated" if verdict.isolated else "inside"
                print(
                    f"{verdict.fault.name} FMI {verdict.version} {verdict.engine} {where}: {verdict.problems}"
                )
                print(f"    code {verdict.code}, rows {verdict.rows}, told {verdict.told}"[:1500], flush=True)
    found = summary(verdicts)
    print(json.dumps(found, indent=1))
    if options.json:
        print(json.dumps(found), file=sys.__stdout__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
