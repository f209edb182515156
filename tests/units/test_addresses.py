"""Units entered by address. The C functions are callbacks, so that no compiler is needed here."""

from __future__ import annotations

import ast
import ctypes

import pytest

from upbeat.core.abilities import Ability, Serialise
from upbeat.core.errors import ModelError
from upbeat.units import NativeUnit, ports
from upbeat.units.addresses import SIGNATURES, NativeFailure

PORTS = ports(
    {"u": 0.0, "w": {"size": 2}, "n": {"kind": "integer"}},
    {"y": {}, "pair": {"size": 2}, "on": {"kind": "boolean"}, "count": {"kind": "integer"}},
    {"gain": 2.0, "flag": True, "more": [3.0, 4.0]},
)
U, W, N, Y, PAIR, ON, COUNT = range(7)
POINTER = 16


class Library:
    """What a C library would be: the state of one unit, and functions that take a pointer to it."""

    def __init__(self):
        self.state, self.saved, self.log, self.alive = {}, {}, [], False
        self.text = ctypes.create_string_buffer(b"beyond the end of the world")
        kinds = {**SIGNATURES, "message": ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)}
        self.keep = {name: kind(getattr(self, name)) for name, kind in kinds.items()}

    def functions(self, *without):
        return {
            name: ctypes.cast(f, ctypes.c_void_p).value
            for name, f in self.keep.items()
            if name not in without
        }

    def create(self, name, start, parameters):
        self.log.append((name, start, parameters[0].r, parameters[1].i, parameters[2].r, parameters[3].r))
        self.state = {"u": 0.0, "w": (0.0, 0.0), "n": 0, "gain": parameters[0].r}
        self.alive = True
        return POINTER

    def get(self, unit, port, to):
        assert unit == POINTER
        if port == Y:
            to[0].r = self.state["gain"] * self.state["u"]
        elif port == PAIR:
            to[0].r, to[1].r = self.state["w"]
        elif port == ON:
            to[0].i = int(self.state["u"] > 1)
        elif port == COUNT:
            to[0].i = self.state["n"]
        else:
            return 1
        return 0

    def set(self, unit, port, cells, count):
        if port == U:
            self.state["u"] = sum(cells[k].r * 10**k for k in range(count))
        elif port == W:
            self.state["w"] = (cells[2 * count - 2].r, cells[2 * count - 1].r)
        elif port == N:
            self.state["n"] = cells[0].i
        return 0

    def advance(self, unit, t, to, early, reached):
        if early:
            reached[0] = t + (to - t) / 2
        return 3 if to > 10.0 else 0

    def jump(self, unit, again):
        again[0] = 1
        return 0

    def save(self, unit, slot):
        self.saved[slot] = dict(self.state)
        return 0

    def restore(self, unit, slot):
        self.state = dict(self.saved[slot])
        return 0

    def due(self, unit, time):
        time[0] = 7.5
        return 0

    def slope(self, unit, output, port, to):
        if (output, port) == (Y, U):
            to[0].r = self.state["gain"]
        elif (output, port) == (PAIR, W):
            to[0].r, to[1].r, to[2].r, to[3].r = 1.0, 2.0, 3.0, 4.0
        else:
            return 5
        return 0

    def pack(self, unit, slot, to, size):
        data = repr(self.saved[slot]).encode()
        if size[0] >= len(data):
            ctypes.memmove(to, data, len(data))
        size[0] = len(data)
        return 0

    def unpack(self, unit, slot, data, size):
        text = ctypes.string_at(data, size).decode()
        if not text.startswith("{"):
            return 4
        self.saved[slot] = ast.literal_eval(text)
        return 0

    def message(self, unit):
        return ctypes.addressof(self.text)

    def destroy(self, unit):
        assert self.alive
        self.alive = False


@pytest.fixture
def library():
    return Library()


@pytest.fixture
def unit(library):
    unit = NativeUnit(PORTS, library.functions()).instantiate("box", 0.5)
    yield unit
    unit.close()


def test_parameters_reach_create(library):
    model = NativeUnit(PORTS, library.functions()).with_values({"gain": 7.0, "flag": False})
    unit = model.instantiate("box", 0.5)
    assert library.log == [(b"box", 0.5, 7.0, 0, 3.0, 4.0)]
    unit.close()
    assert not library.alive
    unit.close()  # once is enough, twice does no harm


def test_values_of_every_kind(unit):
    unit.set("u", (1.0, 2.0, 3.0))
    assert unit.get("y") == 2.0 * 321.0
    unit.set("u", (4.0,))
    assert (unit.get("y"), unit.get("on")) == (8.0, True)
    unit.set("w", ((1.0, 2.0), (3.0, 4.0)))
    assert unit.get("pair") == (3.0, 4.0)
    unit.set("n", (-(2**62),))
    assert unit.get("count") == -(2**62)


def test_slopes_row_by_row(unit):
    assert unit.slope("y", "u") == [2.0]
    assert unit.slope("pair", "w") == [1.0, 2.0, 3.0, 4.0]
    with pytest.raises(NativeFailure, match="beyond the end of the world"):
        unit.slope("y", "w")


def test_advance_and_jump(unit, library):
    assert unit.advance(0.5, 1.0, False) == 1.0
    assert unit.advance(1.0, 2.0, True) == 1.5
    assert unit.jump() is True
    plain = NativeUnit(PORTS, library.functions("jump", "destroy", "message")).instantiate("box", 0.0)
    assert plain.jump() is False
    with pytest.raises(NativeFailure, match="advance returned status 3"):
        plain.advance(0.0, 11.0, False)


def test_failure_tells_the_units_own_message(unit):
    with pytest.raises(NativeFailure, match="beyond the end of the world"):
        unit.advance(0.0, 11.0, False)


def test_rollback_reuses_slots_that_nobody_holds(unit, library):
    unit.set("u", (1.0,))
    first = unit.save()
    unit.set("u", (2.0,))
    second = unit.save()
    unit.restore(first)
    assert unit.get("y") == 2.0
    unit.restore(second)
    unit.restore(second)
    assert unit.get("y") == 4.0
    for _ in range(50):
        second = unit.save()
    unit.restore(first)
    assert unit.get("y") == 2.0
    assert len(library.saved) <= 3


def test_states_as_bytes(unit, library):
    unit.set("u", (1.5,))
    data = unit.to_bytes(unit.save())
    assert ast.literal_eval(data.decode()) == library.state
    unit.set("u", (2.0,))
    unit.restore(unit.from_bytes(data))
    assert unit.get("y") == 3.0
    with pytest.raises(NativeFailure, match="beyond the end of the world"):
        unit.from_bytes(b"something else")


def test_abilities(library):
    packing, others = ("pack", "unpack"), ("save", "restore", "slope", "due")
    every = {Ability.NATIVE, Ability.ROLLBACK, Ability.SLOPES, Ability.NEXT_EVENT}
    assert NativeUnit(PORTS, library.functions()).abilities == every | {Ability.SERIALISE}
    assert NativeUnit(PORTS, library.functions(*packing)).abilities == every
    assert NativeUnit(PORTS, library.functions(*packing, *others)).abilities == {Ability.NATIVE}
    with_packing, without = (NativeUnit(PORTS, library.functions(*names)) for names in ((), packing))
    assert isinstance(with_packing.instantiate("a", 0.0), Serialise)
    assert not isinstance(without.instantiate("b", 0.0), Serialise)
    assert NativeUnit(PORTS, library.functions()) == NativeUnit(PORTS, library.functions())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda u: u.get("u"), r"there is no output 'u'\. The outputs are: count, on, pair, y"),
        (lambda u: u.set("y", (1.0,)), r"there is no input 'y'"),
        (lambda u: u.set("w", ((1.0,),)), "has 2 cells, but was given 1 values"),
        (lambda u: u.set("n", (1, 2)), "polynomials of degree 0 to 0, not 2"),
        (lambda u: u.set("u", (1.0,) * 7), "polynomials of degree 0 to 5, not 7"),
    ],
)
def test_wrong_calls(unit, call, message):
    with pytest.raises(ModelError, match=message):
        call(unit)


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({}, r"create: the address of this function is missing"),
        ({"create": 1, "get": 1, "set": 1, "advance": 0}, "advance: an address is a positive integer, not 0"),
        ({"create": 1, "get": 1, "set": 1, "advance": 1.5}, "positive integer, not 1.5"),
        ({"create": 1, "get": 1, "set": 1, "advance": 1, "sav": 1}, "sav: there is no such function.*'save'"),
        ({"create": 1, "get": 1, "set": 1, "advance": 1, "save": 1}, "save and restore come together"),
        ({"create": 1, "get": 1, "set": 1, "advance": 1, "unpack": 1}, "pack and unpack come together"),
        (dict.fromkeys(("create", "get", "set", "advance", "pack", "unpack"), 1), "give save and restore"),
    ],
)
def test_problems(functions, message):
    with pytest.raises(ModelError, match=message):
        NativeUnit(PORTS, functions)


def test_strings_and_unknown_values_are_refused(library):
    with pytest.raises(ModelError, match="a native unit has no strings"):
        NativeUnit(ports({"s": "text"}), library.functions())
    with pytest.raises(ModelError, match=r"no value 'gian' to set\. Did you mean 'gain'"):
        NativeUnit(PORTS, library.functions()).with_values({"gian": 1.0})


def test_a_unit_that_cannot_be_made(library):
    nothing = SIGNATURES["create"](lambda name, start, parameters: None)
    functions = {**library.functions(), "create": ctypes.cast(nothing, ctypes.c_void_p).value}
    with pytest.raises(NativeFailure, match="create gave no unit for 'box'"):
        NativeUnit(PORTS, functions).instantiate("box", 0.0)


def test_start_values_of_inputs_are_told(library):
    model = NativeUnit(PORTS, library.functions()).with_values({"u": 1.5, "w": [2.0, 3.0], "n": 7})
    unit = model.instantiate("one", 0.0)
    assert (unit.get("y"), unit.get("pair"), unit.get("count")) == (3.0, (2.0, 3.0), 7)
    unit.close()
