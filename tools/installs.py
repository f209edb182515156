"""Installs the wheel in every way we promise, each in a new environment, and runs an example there.

Without extras, with each extra alone, with all of them; without a compiler; and with every Python found.
Takes a quarter of an hour: ``make installs``.
"""

from __future__ import annotations

import argparse
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
    "plot": "import upbeat as up; up.plot(up.load(FILE).run(), 'trace.png')",
    "parquet": "import upbeat as up; up.load(FILE).with_(out='r.parquet').run()",
    "pandas": "import upbeat as up; up.load(FILE).run().to_pandas()",
    "polars": "import upbeat as up; up.load(FILE).run().to_polars()",
    "xarray": "import upbeat as up; up.load(FILE).run().to_xarray()",
    "jit": "import upbeat as up; up.load(FILE).with_(jit=True).run()",
    "cvode": (
        "import upbeat as up; s = up.Scenario({'a': up.Ode({'x': '-x'}, solver=up.Cvode())}); "
        "up.simulate(s, pace=1, until=1)"
    ),
}
"""What each extra is for, in a line."""


@dataclass(frozen=True)
class Install:
    """One way to install."""

    python: str
    extra: str = ""
    native: bool = True

    def __str__(self) -> str:
        name = f"upbeat[{self.extra}]" if self.extra else "upbeat"
        return f"{Path(self.python).name}: {name}{'' if self.native else ', no compiler'}"


def pythons() -> list[str]:
    """Every Python of 3.11 or later on this machine."""
    names = [f"python3.{minor}" for minor in range(11, 20)]
    found = [shutil.which(name) for name in names]
    more = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3.[0-9]*"))
    every = [*filter(None, found), *(str(path) for path in more if path.name in names)]
    return list({Path(path).name: path for path in reversed(every)}.values())[::-1]


def wanted() -> Iterator[Install]:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    first = sys.executable
    yield from (Install(first, extra) for extra in ("", *extras))
    yield Install(first, native=False)
    yield from (Install(python) for python in pythons())


def tried(install: Install, wheels: dict[str, Path]) -> str:
    """What went wrong, if something did."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        python = place / "env" / "bin" / "python"
        steps = [
            [install.python, "-m", "venv", str(place / "env")],
            [str(python), "-m", "pip", "install", "--quiet", _source(install, wheels)],
            [str(place / "env" / "bin" / "upbeat"), "run", str(EXAMPLE), "--out", "r.csv"],
        ]
        if install.extra in TRIES:
            steps.append([str(python), "-c", TRIES[install.extra].replace("FILE", repr(str(EXAMPLE)))])
        environment = dict(os.environ)
        if not install.native:
            environment["UPBEAT_NATIVE"] = "off"
        for words in steps:
            done = subprocess.run(
                words, cwd=place, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                return f"{' '.join(words[:4])} …: {(done.stderr or done.stdout).strip()[-600:]}"
    return ""


def _source(install: Install, wheels: dict[str, Path]) -> str:
    """A wheel where one fits; the folder itself where it has to be built."""
    wheel = wheels.get(Path(install.python).resolve().name) if install.native else None
    return f"{wheel or ROOT}{f'[{install.extra}]' if install.extra else ''}"


def built(place: Path) -> dict[str, Path]:
    """The wheel of this Python, made once."""
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(place), str(ROOT)]
    subprocess.run(words, check=True)
    (wheel,) = place.glob("*.whl")
    return {Path(sys.executable).resolve().name: wheel}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make installs", description=__doc__)
    parser.add_argument("--only", default="", metavar="WORD", help="those whose description contains it")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        wheels = built(Path(folder))
        print(f"the wheel has {next(iter(wheels.values())).stat().st_size / 1e6:.2f} MB")
        for install in wanted():
            if options.only not in str(install):
                continue
            wrong = tried(install, wheels)
            failed += bool(wrong)
            print(f"{install}: {wrong or 'works'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
