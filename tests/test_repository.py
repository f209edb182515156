"""What the repository as a whole promises: quick imports, documented modules."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "upbeat"
MODULES = sorted(PACKAGE.rglob("*.py"))

HEAVY = ("llvmlite", "matplotlib", "numba", "pandas", "pint", "polars", "pyarrow", "scipy", "xarray")


def test_import_loads_nothing_heavy() -> None:
    """A budget in seconds would fail on a busy machine; what costs the time is which packages load."""
    code = f"import sys, upbeat; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_modules_say_what_lives_there() -> None:
    """The first docstring line of a module says what lives there, in one sentence."""
    first = {path: (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "") for path in MODULES}
    silent = [
        path.relative_to(PACKAGE).as_posix()
        for path, text in first.items()
        if not text.partition("\n")[0].endswith((".", ":"))
    ]
    assert silent == []


def test_every_dependency_has_its_sentence() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "decisions" / "0003-dependencies.md").read_text(encoding="utf-8")
    groups = [
        project["build-system"]["requires"],
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
        *project["dependency-groups"].values(),
    ]
    names = {_requirement(entry) for group in groups for entry in group if isinstance(entry, str)}
    # CMake and Ninja are what scikit-build-core brings along; `upbeat[…]` is the extra `all`.
    missing = sorted(name for name in names - {"cmake", "ninja", "upbeat"} if name not in page)
    assert missing == []


def _requirement(entry: str) -> str:
    for end, character in enumerate(entry):
        if character in "[<>=!~; ":
            return entry[:end]
    return entry


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "index.md").read_text(encoding="utf-8")
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in sorted(folder.glob("[0-9]*.md")):
        assert f"({page.name})" in index
        assert f"decisions/{page.name}" in navigation
