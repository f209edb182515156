"""Values of every type go in and come out; what does not fit is refused before the FMU sees it."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fmu_opened import Opened, opened
from upbeat.units.fmi.description import Dimension
from upbeat.units.fmi.instance import FmuError

Fmus = Callable[[str, int], Path]


@pytest.fixture(params=[2, 3])
def types(request: pytest.FixtureRequest, fmu: Fmus) -> Iterator[Opened]:
    """Each output is its input."""
    with opened(fmu("types", request.param)) as one:
        yield one


def single(x: float) -> float:
    return float(struct.unpack("f", struct.pack("f", x))[0])


TEXTS: list[Any] = ["", "plain", "Größe 丂 🎼", "%s %d #r1#"]
GOOD: dict[str, list[Any]] = {
    "float64": [0.0, -1.5, 1e308, math.inf, 7],
    "int32": [0, -(2**31), 2**31 - 1],
    "boolean": [True, False],
    "string": TEXTS,
    "enumeration": [3, 7, 1],
}
GOOD3: dict[str, list[Any]] = {
    "float32": [0.5, single(0.1), -math.inf],
    "int8": [-128, 127],
    "uint8": [0, 255],
    "int16": [-32768, 32767],
    "uint16": [65535],
    "uint32": [2**32 - 1],
    "int64": [-(2**63), 2**63 - 1],
    "uint64": [2**63 - 1],
    "binary": ["", "00", "ff00aa", "00" * 200],
}
BAD: list[tuple[str, Any, str]] = [
    ("int32", 2**31, "from -2147483648 to 2147483647"),
    ("int32", 1.5, "needs an integer"),
    ("int32", math.nan, "needs an integer"),
    ("float64", "1.5", "needs a number"),
    ("string", 3, "needs a text"),
    ("string", "a\0b", "ends at a character 0"),
]
BAD3: list[tuple[str, Any, str]] = [
    ("int8", 128, "Int8 goes from -128 to 127"),
    ("uint8", -1, "UInt8 goes from 0 to 255"),
    ("uint16", 65536, "UInt16"),
    ("int64", 2**63, "Int64"),
    ("uint64", 2**63, "UInt64"),
    ("uint64", -1, "UInt64 goes from 0"),
    ("float32", 1e39, "Float32"),
    ("binary", "abc", "hexadecimal"),
    ("binary", 5, "hexadecimal"),
]


def test_every_type_comes_back(types: Opened) -> None:
    one = types.begun()
    for name, values in (GOOD if types.version == 2 else GOOD | GOOD3).items():
        write, read = one.writer(types[f"{name}_in"]), one.reader(types[f"{name}_out"])
        for value in values:
            write(value)
            found = read()
            assert found == value
            assert isinstance(found, (float, type(value)))


def test_not_a_number_comes_back(types: Opened) -> None:
    one = types.begun()
    one.writer(types["float64_in"])(math.nan)
    found = one.reader(types["float64_out"])()
    assert isinstance(found, float)
    assert math.isnan(found)


def test_what_does_not_fit_never_reaches_the_fmu(types: Opened) -> None:
    one = types.begun()
    for name, value, words in BAD if types.version == 2 else BAD + BAD3:
        before = one.reader(types[f"{name}_out"])()
        with pytest.raises(FmuError, match=f"'{name}_in' cannot be .*{words}"):
            one.writer(types[f"{name}_in"])(value)
        assert one.reader(types[f"{name}_out"])() == before


def test_the_numbers_of_fmpy(types: Opened) -> None:
    from fmpy import read_model_description
    from fmpy.simulation import instantiate_fmu

    judge = instantiate_fmu(str(types.folder), read_model_description(types.folder), "CoSimulation")
    one = types.instance()
    if types.version == 2:
        kinds = {"float64": "Real", "int32": "Integer", "boolean": "Boolean", "string": "String"}
    else:
        names = (
            "Float64",
            "Float32",
            "Int8",
            "UInt8",
            "Int16",
            "UInt16",
            "Int32",
            "UInt32",
            "Int64",
            "String",
        )
        kinds = {name.lower(): name for name in names}
    for name, kind in kinds.items():
        for value in (GOOD | GOOD3)[name]:
            getattr(judge, f"set{kind}")([types[f"{name}_in"].reference], [value])
            one.writer(types[f"{name}_in"])(value)
            (theirs,) = getattr(judge, f"get{kind}")([types[f"{name}_out"].reference])
            theirs = theirs.decode() if isinstance(theirs, bytes) else theirs
            assert one.reader(types[f"{name}_out"])() == theirs
    judge.freeInstance()


@pytest.fixture
def space(fmu: Fmus) -> Iterator[Opened]:
    """x' = A x + B u, y = C x + D u, with n states, m inputs and r outputs."""
    with opened(fmu("space", 3)) as one:
        yield one


def test_arrays_are_tuples_row_by_row(space: Opened) -> None:
    one = space.instance()
    one.writer(space["A"])([0.0, 1.0, 2.0, 3.0])
    one.writer(space["B"])((1, 0))
    one.enter_initialization(0.0, None, None)
    one.exit_initialization()
    one.writer(space["u"])([10.0])
    assert one.reader(space["A"])() == (0.0, 1.0, 2.0, 3.0)
    assert one.reader(space["x"])() == (1.0, 2.0)
    assert one.reader(space["der(x)"])() == (2.0 + 10.0, 2.0 + 6.0)
    assert one.reader(space["y"])() == (1.0,)


def test_arrays_of_another_size(space: Opened) -> None:
    one = space.instance()
    one.enter_configuration()
    one.writer(space["n"])(3)
    one.writer(space["r"])(2)
    one.exit_configuration()
    one.writer(space["A"], 9)([0.0] * 9)
    one.writer(space["C"], 6)([1.0, 0.0, 0.0, 0.0, 1.0, 0.0])
    one.writer(space["x"], 3)([4.0, 5.0, 6.0])
    one.enter_initialization(0.0, None, None)
    one.exit_initialization()
    assert one.reader(space["y"], 2)() == (4.0, 5.0)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1.0, 2.0], "'u' has 1 cells, and 2 values are given"),
        (1.0, "needs an array of 1 values"),
        ("1", "needs an array of 1 values"),
        (["1"], "'u' cannot be .*needs numbers"),
    ],
)
def test_arrays_that_do_not_fit(space: Opened, value: Any, words: str) -> None:
    one = space.begun()
    with pytest.raises(FmuError, match=words):
        one.writer(space["u"])(value)


def test_cells_of_arrays_are_checked_one_by_one(fmu: Fmus) -> None:
    with opened(fmu("types", 3)) as types:
        one = types.begun()
        for name, good, bad in (
            ("int8", 5, 300),
            ("string", "ä", 1),
            ("binary", "00ff", "x"),
            ("boolean", True, None),
            ("float32", 0.5, 1e39),
        ):
            array = {"dimensions": (Dimension(1),), "shape": (1,)}
            write = one.writer(replace(types[f"{name}_in"], **array))
            read = one.reader(replace(types[f"{name}_out"], **array))
            write([good])
            assert read() == (good,)
            if bad is not None:
                with pytest.raises(FmuError, match=f"'{name}_in' cannot be"):
                    write([bad])
