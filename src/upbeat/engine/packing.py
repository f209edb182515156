"""The state of a machine as bytes: one format for both engines, refused by machines of another program.

    head | body | checksum

The head is the same for all states of one program: a mark, the version of the format, what the program is
about (readable, for messages) and a fingerprint of everything that gives the body its meaning. The
body is laid out as native/src/packing.cpp says. No value of a unit is interpreted here, and nothing is
ever executed: what a unit's own bytes mean is between it and itself.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from upbeat.core.abilities import Model
from upbeat.core.errors import ModelError
from upbeat.core.plain import Reader, chunk, with_checksum, without_checksum
from upbeat.core.ports import Kind, Value
from upbeat.engine.machine import text_of
from upbeat.master.dataflow import held_slots
from upbeat.master.program import Program
from upbeat.units.process import bare

MARK = b"UPBEAT state\n"
VERSION = 2

_NUMBERS = {Kind.REAL: "<d", Kind.INTEGER: "<q", Kind.BOOLEAN: "<q"}


class Contents(NamedTuple):
    """What a body holds: cells, and for each unit its own time and its state as it wrote it."""

    cells: list[Value]
    clocks: list[float]
    states: list[bytes]


class Packing:
    """Writes and reads the states of machines of one program."""

    def __init__(self, program: Program, models: Mapping[str, Model]) -> None:
        layout = program.layout
        self._kinds = [register.kind for register in layout.registers for _ in range(register.size)]
        self._units = tuple(models)
        if slots := held_slots(program, models):
            # `save` does not cover them either: an engine may forget a slot between two steps.
            raise ModelError(
                f"this program restores slot {slots[0]} in a step that has not saved it: its state cannot be "
                "turned into bytes. Save within the step, or keep what is needed in registers."
            )
        about = json.dumps({"units": self._units, "cells": layout.cells}, separators=(",", ":")).encode()
        self._head = MARK + VERSION.to_bytes(4, "little") + chunk(about) + fingerprint(program, models)

    def sealed(self, body: bytes) -> bytes:
        """The body with head and checksum."""
        return with_checksum(self._head + body)

    def opened(self, data: bytes) -> bytes:
        """The body of bytes that belong to this program and are whole; `ModelError` says what is wrong."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise ModelError(f"a state is bytes, not {type(data).__name__}")
        data = bytes(data)
        try:
            if not data.startswith(MARK):
                raise ValueError("they do not begin as one")
            reader = Reader(without_checksum(data))
            reader.take(len(MARK))
            version = int.from_bytes(reader.take(4), "little")
            if version != VERSION:
                raise ValueError(
                    f"they have version {version} of the format, and this Upbeat reads {VERSION}"
                )
            about = json.loads(reader.chunk())
            if not data.startswith(self._head):
                raise ValueError(self._difference(about))
            return data[len(self._head) : -4]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ModelError(f"these bytes are not a state of this scenario: {error}") from None

    def _difference(self, about: dict[str, list[str]]) -> str:
        theirs = tuple(about["units"])
        if theirs != self._units:
            return f"they are of the units {_listed(theirs)}; here there are {_listed(self._units)}"
        return "the units have the same names, but other ports, other states or another master"

    def written(self, contents: Contents) -> bytes:
        """The body of these contents."""
        texts: dict[str, int] = {}
        cells = []
        for value, kind in zip(contents.cells, self._kinds, strict=True):
            if kind is Kind.STRING:
                cells.append(texts.setdefault(str(value), len(texts)).to_bytes(8, "little"))
            else:
                cells.append(struct.pack(_NUMBERS[kind], float(value) if kind is Kind.REAL else int(value)))
        counts = len(cells), len(contents.clocks), len(texts)
        parts = [struct.pack("<3Q", *counts), *cells, struct.pack(f"<{counts[1]}d", *contents.clocks)]
        parts += [chunk(text.encode()) for text in texts]
        parts += [chunk(state) for state in contents.states]
        return b"".join(parts)

    def read(self, body: bytes) -> Contents:
        """The contents of a body; `ModelError` if it is none of this program."""
        reader = Reader(body)
        try:
            counts = reader.word(), reader.word()
            texts = reader.word()
            if counts != (len(self._kinds), len(self._units)) or texts > len(self._kinds):
                raise ValueError("they have another number of cells or units")
            raw = [reader.take(8) for _ in self._kinds]
            clocks = [float(struct.unpack("<d", reader.take(8))[0]) for _ in self._units]
            known = [reader.chunk().decode() for _ in range(texts)]
            states = [reader.chunk() for _ in self._units]
            reader.finish()
            cells = [_cell(word, kind, known) for word, kind in zip(raw, self._kinds, strict=True)]
        except ValueError as error:
            raise ModelError(f"these bytes are not a state of this scenario: {error}") from None
        return Contents(cells, clocks, states)


def _cell(word: bytes, kind: Kind, texts: Sequence[str]) -> Value:
    if kind is Kind.STRING:
        number = int.from_bytes(word, "little")
        if number >= len(texts):
            raise ValueError("a string is missing")
        return texts[number]
    value: float | int = struct.unpack(_NUMBERS[kind], word)[0]
    if kind is Kind.BOOLEAN and value not in (0, 1):
        raise ValueError("a truth value is neither true nor false")
    return bool(value) if kind is Kind.BOOLEAN else value


def fingerprint(program: Program, models: Mapping[str, Model]) -> bytes:
    """Sixteen bytes that differ where a state means something else: registers, units, ports, states.

    Start values and parameters are left out on purpose: going on from a state with another parameter is a
    fair thing to do. So are the blocks: what a register holds is said by its name.
    """
    registers = [[r.name, r.kind.value, r.size] for r in program.layout.registers]
    units = [
        [
            name,
            type(bare(model)).__qualname__,
            [[p.name, p.causality.value, p.kind.value, p.size, p.labels.written] for p in model.ports],
            getattr(model, "remembers", ()),
        ]
        for name, model in models.items()
    ]
    text = json.dumps([registers, units], separators=(",", ":"))
    from hashlib import blake2b  # see `upbeat.engine.checkpoint`

    return blake2b(text.encode(), digest_size=16).digest()


def foreign(unit: str, reason: str | BaseException) -> ModelError:
    """The error for bytes that a unit does not take."""
    if isinstance(reason, BaseException):
        reason = str(reason) if isinstance(reason, ModelError) else text_of(reason)
    return ModelError(f"unit '{unit}' does not take these bytes: {reason}")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
