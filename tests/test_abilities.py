"""Code asks for abilities, not for classes: who tells paces, couplings, inputs or kinds of unit apart."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import upbeat as up
from upbeat.units.blocks import BLOCKS

SOURCE = Path(__file__).parents[1] / "src" / "upbeat"
HOMES = {
    "master/paces": ("write",),
    "master/couplings": ("blocks",),
    "master/inputs": ("extrapolate",),
    "units": ("instantiate", "advance"),
    "scenario": ("instantiate",),
    "engine": ("instantiate",),
}
"""The folders in which such classes live, and the methods by which one knows them."""
TABLES = {"master/settings.py", "scenario/files/definitions.py", "scenario/files/front_ends.py",
          "scenario/files/fmu_models.py", "scenario/files/python_models.py"}  # fmt: skip
"""The tables themselves, by which a file names what is built in."""


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def modules(folder: str) -> Iterator[str]:
    """The names of the modules in a folder."""
    for path in sorted((SOURCE / folder).rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        yield ".".join(parts).removesuffix(".__init__")


def built_in() -> dict[type, str]:
    """The built-in classes, and the folder in which each lives."""
    found = {}
    for folder, methods in HOMES.items():
        for module in modules(folder):
            for cls in vars(importlib.import_module(module)).values():
                if (
                    inspect.isclass(cls)
                    and cls.__module__ == module
                    and any(map(partial(hasattr, cls), methods))
                ):
                    found[cls] = folder
    return {cls: folder for cls, folder in found.items() if not getattr(cls, "_is_protocol", False)}


def asked(tree: ast.AST) -> Iterator[tuple[int, ast.AST]]:
    """What is asked whether something is of its class."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name("isinstance" | "issubclass"), args=[_, classes]):
                yield node.lineno, classes
            case ast.Compare(left=ast.Call(func=ast.Name("type")), comparators=[classes]):
                yield node.lineno, classes
            case ast.MatchClass(cls=classes):
                yield node.lineno, classes


def told_apart() -> list[tuple[str, int, str]]:
    """Where a class is asked for outside of its folder: the file, the line and the class."""
    known = built_in()
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE).as_posix()
        if file in TABLES:
            continue
        tree = parsed(path)
        imported = {
            alias.asname or alias.name: (node.module, alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("upbeat.")
            for alias in node.names
        }
        for line, classes in asked(tree):
            for node in ast.walk(classes):
                if not isinstance(node, ast.Name) or node.id not in imported:
                    continue
                module, name = imported[node.id]
                folder = known.get(getattr(importlib.import_module(module), name))
                if folder is not None and not file.startswith(f"{folder}/"):
                    found.append((file, line, name))
    return found


def test_nobody_tells_built_in_classes_apart() -> None:
    found = [f"src/upbeat/{file}:{line}: {name}" for file, line, name in told_apart()]
    assert found == []


MOST_PARAMETERS, MOST_FLAGS = 7, 3
FOREIGN = {"instantiate", "fmu_experiment"}
"""These have the arguments of a function of FMI, and the options of a command."""


def long_signatures() -> Iterator[str]:
    """The functions with many parameters or flags, but those of public names: what these have are the keys
    that users write, in Python and in files."""
    public = {*up.__all__, *BLOCKS}
    for path in sorted(SOURCE.rglob("*.py")):
        tree = parsed(path)
        made = {
            id(part): node.name for node in tree.body if isinstance(node, ast.ClassDef) for part in node.body
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            of = node.args
            given = [
                one for one in (*of.posonlyargs, *of.args, *of.kwonlyargs) if one.arg not in ("self", "cls")
            ]
            flags = [one for one in given if one.annotation and ast.unparse(one.annotation) == "bool"]
            name = made.get(id(node)) if node.name == "__init__" else node.name
            if name in public or name in FOREIGN:
                continue
            if len(given) > MOST_PARAMETERS or len(flags) > MOST_FLAGS:
                yield f"{path.relative_to(SOURCE)}:{node.lineno}: {node.name} has {len(given)} parameters"


def test_no_function_has_many_parameters_or_flags() -> None:
    assert list(long_signatures()) == []
