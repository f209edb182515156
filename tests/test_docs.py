"""The examples of the README and the documentation are run: what they say is what happens.

All ``python``, ``toml`` and ``console`` blocks of a page are run in order, in one empty folder:

* ``python``: executed; names live on in the blocks after it.
* ``toml``: must parse. When its first line is a comment with a file name (``# masses.toml``) it is a
  whole scenario: it is saved under that name and must pass ``upbeat check``.
* ``console``: each line ``$ upbeat …`` must succeed; the first one of a page in a process of its own, as it
  is typed. The output shown is for the reader.

A block after ``<!-- not run: reason -->`` is skipped.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from upbeat.cli.main import main

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w+)[^\n]*\n(?P<body>.*?)^(?P=indent)```$", re.M | re.S)
_SKIPPED = re.compile(r"<!-- not run: \S[^\n]*-->\s*\Z")
_FILE = re.compile(r"# ([\w.-]+\.toml)\n")
_FMU = re.compile(r"(?<=[ =])(?<!--fmu )\w+\.fmu\b")  # not those that a page exports


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        if match["language"] not in ("python", "toml", "console"):
            continue
        if _SKIPPED.search(text[: match.start()]):
            continue
        indent = len(match["indent"])
        body = "".join(line[indent:] for line in match["body"].splitlines(keepends=True))
        yield Block(match["language"], body, text.count("\n", 0, match.start()) + 2)


class Commands:
    """The command line, for one page."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.typed = False

    def __call__(self, arguments: list[str]) -> None:
        if self.typed:
            try:
                code: object = main(arguments)
            except SystemExit as ended:  # argparse's own way
                code = ended.code or 0
            said = "".join(self.capsys.readouterr())
        else:
            command = [str(Path(sys.executable).with_name("upbeat")), *arguments]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            code, said = done.returncode, done.stdout + done.stderr
        self.typed = True
        assert code == 0, f"upbeat {shlex.join(arguments)}\n{said}"


def run(block: Block, page: Path, names: dict[str, Any], upbeat: Commands) -> None:
    match block.language:
        case "python":
            # The empty lines make a traceback point into the page.
            code = compile("\n" * (block.line - 1) + block.text, page, "exec", dont_inherit=True)
            exec(code, names)
        case "toml":
            tomllib.loads(block.text)
            if name := _FILE.match(block.text):
                Path(name[1]).write_text(block.text, encoding="utf-8")
                upbeat(["check", name[1]])
        case "console":
            for line in block.text.splitlines():
                if line.startswith("$ upbeat "):
                    upbeat(shlex.split(line.removeprefix("$ upbeat "), comments=True))


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(blocks(page))],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_examples_of(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The files are made by the page itself, except FMUs, which are all the same one."""
    monkeypatch.chdir(tmp_path)
    for name in {name for block in blocks(page) for name in _FMU.findall(block.text)}:
        shutil.copy(request.getfixturevalue("fmu")("gain", 2), tmp_path / name)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, Any] = {"__name__": "__example__"}
    upbeat = Commands(capsys)
    for block in blocks(page):
        run(block, page, names, upbeat)
