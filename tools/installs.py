"""Installs the wheel in every way we promise, each in a new environment, and runs an example there.

Without extras, with each extra alone, with all of them; without a compiler; and with every Python found.
Takes a quarter of an hour: ``make installs``. With ``--json`` standard output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "coupled_masses.toml"
TRIES = {
    "plot": "import upbeat as up; up.plot(up.load(FILE).run(), out='trace.png')",
    "parquet": "import upbeat as up; up.load(FILE).with_(out='r.parquet').run()",
    "pandas": "import upbeat as up; up.load(FILE).run().to_pandas()",
    "polars": "import upbeat as up; up.load(FILE).run().to_polars()",
    "xarray": "import upbeat as up; up.load(FILE).run().to_xarray()",
    "jit": "import upbeat as up; up.load(FILE).with_(jit=True).run()",
    "cvode": (
        "import upbeat as up; s = up.Scenario({'a': up.Ode({'x': '-x'}, solver=up.Cvode())}); "
        "up.simulate(s, pace=1, until=1)"
    ),
    # Together these two grow by the golden ratio: (1 + √5)/2.
    "stability": (
        "import upbeat as up; s = up.SwitchedSystem([[[1, 1], [0, 1]], [[1, 0], [1, 1]]]); "
        "assert up.joint_radius(s).upper < 1.6181"
    ),
    "sa": (
        "from upbeat.adapt.sa.parsing import parse; "
        "assert parse('semantic adaptation S s for inner fmu A a').adaptations"
    ),
}
"""What each extra is for, in a line."""

HAS_CORE = "import upbeat._native"
LACKS_CORE = "from importlib.util import find_spec; assert find_spec('upbeat._native') is None"


@dataclass(frozen=True)
class Install:
    """One way to install. `version` is that of the Python, such as 3.12."""

    python: str
    version: str
    extra: str = ""
    compiler: bool = True

    def __str__(self) -> str:
        name = f"upbeat[{self.extra}]" if self.extra else "upbeat"
        return f"Python {self.version}: {name}{'' if self.compiler else ', no compiler'}"


def pythons() -> dict[str, str]:
    """Every Python of 3.11 or later that runs here, by its version."""
    names = [f"python3.{minor}" for minor in range(11, 30)]
    places = [path for name in names if (path := shutil.which(name))]
    places += map(str, sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3.[0-9]*")))
    found = {}
    for place in places:  # what is on the path may be a shim that starts nothing
        if Path(place).name in names and (version := version_of(place)):
            found.setdefault(version, place)
    return dict(sorted(found.items(), key=lambda item: int(item[0].split(".")[1])))


def version_of(python: str) -> str:
    """Such as 3.12; empty if it does not run."""
    code = "import sys; print('{}.{}'.format(*sys.version_info))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def wanted() -> Iterator[Install]:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    own = "{}.{}".format(*sys.version_info)
    yield from (Install(sys.executable, own, extra) for extra in ("", *extras))
    yield Install(sys.executable, own, compiler=False)
    yield from (Install(python, version) for version, python in pythons().items() if version != own)


def tried(install: Install, wheel: Path) -> str:
    """What went wrong, if something did."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        python = str(place / "env" / "bin" / "python")
        steps = [
            [install.python, "-m", "venv", str(place / "env")],
            [python, "-m", "pip", "install", "--quiet", _source(install, wheel)],
            [python, "-c", HAS_CORE if install.compiler else LACKS_CORE],
            [str(place / "env" / "bin" / "upbeat"), "run", str(EXAMPLE), "--out", "r.csv"],
        ]
        for extra in TRIES if install.extra == "all" else filter(TRIES.__contains__, [install.extra]):
            steps.append([python, "-c", TRIES[extra].replace("FILE", repr(str(EXAMPLE)))])
        for words in steps:
            done = subprocess.run(
                words, cwd=place, env=_environment(install), capture_output=True, text=True, check=False
            )
            if done.returncode:
                return f"{' '.join(words[:4])} …: {(done.stderr or done.stdout).strip()[-600:]}"
    return ""


def _source(install: Install, wheel: Path) -> str:
    """The wheel where it fits; the folder itself where it has to be built."""
    fits = install.python == sys.executable and install.compiler
    return f"{wheel if fits else ROOT}{f'[{install.extra}]' if install.extra else ''}"


def _environment(install: Install) -> dict[str, str]:
    """As a user has it: nobody insists on the native engine, and there may be no compiler."""
    environment = {key: value for key, value in os.environ.items() if key != "UPBEAT_NATIVE"}
    if not install.compiler:
        environment |= {"CC": "/there/is/no/cc", "CXX": "/there/is/no/c++"}
    return environment


def built(place: Path) -> Path:
    """The wheel of this Python, made once."""
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(place), str(ROOT)]
    subprocess.run(words, check=True)
    (wheel,) = place.glob("*.whl")
    return wheel


def main() -> int:
    parser = argparse.ArgumentParser(prog="make installs", description=__doc__)
    parser.add_argument("--only", default="", metavar="WORD", help="those whose description contains it")
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        wheel = built(Path(folder))
        size = wheel.stat().st_size / 1e6
        print(f"the wheel has {size:.2f} MB", flush=True)
        for install in wanted():
            if options.only not in str(install):
                continue
            wrong = tried(install, wheel)
            print(f"{install}: {wrong or 'works'}", flush=True)
            row = {"python": install.version, "extra": install.extra, "compiler": install.compiler}
            rows.append(row | {"works": not wrong, "wrong": wrong})
    ok = all(row["works"] for row in rows)
    if options.json:
        print(json.dumps({"wheel_mb": size, "ok": ok, "ways": rows}), file=sys.__stdout__)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
