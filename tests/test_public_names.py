"""The public names: the same at run time, for type checkers, and in the documentation."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import upbeat as up

ROOT = Path(__file__).parents[1]


def stub_names() -> dict[str, str]:
    """Public name → module, as `__init__.pyi` says."""
    tree = ast.parse((ROOT / "src/upbeat/__init__.pyi").read_text())
    return {
        alias.asname or alias.name: str(node.module)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_the_stub_and_the_module_offer_the_same_names() -> None:
    assert sorted(stub_names()) == sorted(up.__all__)
    for name, module in stub_names().items():
        __import__(module)
        assert getattr(up, name) is getattr(sys.modules[module], name)


def test_every_name_is_documented() -> None:
    page = (ROOT / "docs/python-api.md").read_text()
    assert "::: upbeat.core.errors\n" in page  # all errors at once
    homes = {name: getattr(up, name).__module__ for name in up.__all__}
    missing = [
        name
        for name, home in homes.items()
        if home != "upbeat.core.errors" and f"::: {home}.{name}\n" not in page
    ]
    assert missing == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(up, "Simulate")
    assert "simulate" in dir(up)


def test_importing_upbeat_loads_nothing_heavy() -> None:
    heavy = {"numpy", "scipy", "pandas", "matplotlib", "numba", "llvmlite", "pint", "pyarrow"}
    script = f"import sys, upbeat; print({heavy!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
    script = (
        f"import sys, upbeat; upbeat.simulate; upbeat.Ode; print({heavy - {'numpy'}!r} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
