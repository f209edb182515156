"""Whether there is a native engine: an answer whose truth is its truth."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import upbeat as up
from upbeat.core.errors import InvalidInput
from upbeat.engine.native import machine as native


def test_what_cannot_be_loaded_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "find_spec", lambda name: object())
    monkeypatch.delattr(up, "_native", raising=False)
    monkeypatch.setitem(sys.modules, "upbeat._native", None)
    found = native.available()
    assert not found
    assert "cannot be loaded" in found.why
    decay = up.Scenario({"u": up.Ode({"x": "-x"})})
    with pytest.raises(InvalidInput, match="cannot be loaded"):
        up.simulate(decay, pace=0.1, until=1.0, engine="native")


def test_fmus_need_the_core_and_say_so(
    fmu: Callable[[str, int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = up.Fmu(fmu("linear", 2))  # its description is read without
    monkeypatch.delattr(up, "_native", raising=False)
    monkeypatch.setitem(sys.modules, "upbeat._native", None)
    words = r"FMUs are native code and need Upbeat's native core.*pip install"
    assert any(re.search(words, problem) for problem in model.problems)
    with pytest.raises(up.UpbeatError, match=words):
        up.simulate(up.Scenario({"a": model}), pace=0.1, until=1.0, engine="interpret")


def test_what_was_never_built_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "find_spec", lambda name: None)
    found = native.available()
    assert not found
    assert "no C++ compiler" in found.why
