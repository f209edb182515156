"""Two masses as FMUs with their events inside, which cannot be set back: what the pace makes of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upbeat as up
from moving_models import load

TWO = load()


@pytest.fixture(scope="module")
def box() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(TWO.__file__).parent))
        from problems import black_boxes

        yield black_boxes
        sys.modules.pop("problems.black_boxes")


@pytest.fixture(scope="module")
def reference() -> Any:
    return TWO.Reference(TWO.START)


def masses(box: Any, fmu: Callable[[str, int], Path]) -> up.Scenario:
    fmus = {name: fmu(name, 2) for name in ("upper", "lower")}
    scenario: up.Scenario = box.black_boxes(fmus, TWO.START, TWO.EVENTS)
    return scenario


def test_they_cannot_be_set_back_and_know_no_derivatives(box: Any, fmu: Callable[[str, int], Path]) -> None:
    for model in masses(box, fmu).units.values():
        assert not {up.Ability.ROLLBACK, up.Ability.SLOPES} & model.abilities


def test_looking_ahead_finds_all_events_and_is_far_better(
    engine: str, box: Any, fmu: Callable[[str, int], Path], reference: Any
) -> None:
    found = {}
    for name, pace in TWO.box_paces().items():
        trace = up.simulate(masses(box, fmu), pace=pace, until=TWO.UNTIL, engine=engine)
        found[name] = TWO.judged(trace, reference, box.happened(trace))
        if name != "fixed":  # both masses have noticed every collision
            assert np.array_equal(trace["upper.hits"], trace["lower.hits"])
    assert found["fixed"]["missed"] > 3
    for name in ("lookahead", "lookahead_auto"):
        assert (found[name]["missed"], found[name]["spurious"]) == (0, 0)
        assert found[name]["steps"] <= 290
        assert found[name]["e_rms"] <= found["fixed"]["e_rms"] / 15
