"""What FMUs claim of their states is put to the test, and masters hear of it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fmu_exports import python_fmu
from fmu_slow_trial import quick
from fmu_trials import finds
from upbeat import Fixed, Fmu, Iterated, Jacobi, Master, MasterError, Nested, Scenario, simulate
from upbeat.core.abilities import Ability, doubt
from upbeat.core.errors import InvalidInput
from upbeat.units.fmi import claims, known
from upbeat.units.fmi.claims import Claim, Verdict, check, checked
from upbeat.units.fmi.trial import attempt

Made = Callable[[str, int], Path]
BOTH = pytest.mark.parametrize("version", [2, 3])
WAYS = pytest.mark.parametrize("interface", ["co-simulation", "model-exchange"])


# ------------------------------------------------------------------------ the throw-away process


def test_a_trial_that_goes_well() -> None:
    trial = attempt(finds, {"number": 4, "how": ""})
    assert trial.found["number"] == 5
    assert not Path(trial.found["tmp"]).exists()
    assert (trial.why, trial.hung) == ("", False)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("crash", "it was killed by signal 11 (Segmentation fault) while ending"),
        ("exit", "it ended its process with exit code 7, saying: good bye while ending"),
        ("error", "it failed (no such luck) while ending"),
    ],
)
def test_a_trial_that_fails_keeps_what_it_found(how: str, why: str) -> None:
    trial = attempt(finds, {"number": 4, "how": how})
    assert trial.found == {"number": 5}
    assert trial.why == why


def test_a_trial_that_hangs_is_ended() -> None:
    trial = attempt(finds, {"number": 4, "how": "hang"}, deadline=4.0)
    assert trial.hung
    assert trial.why.startswith("it gave no answer within 4 s")


# ------------------------------------------------------------------------ the claims


def test_the_start_of_python_does_not_count() -> None:
    trial = attempt(quick, {}, deadline=2.5)
    assert (trial.found, trial.failure) == ({"number": 1}, "")


@BOTH
@WAYS
@pytest.mark.parametrize("name", ["linear", "ball"])
def test_honest_ones(fmu: Made, name: str, version: int, interface: Any) -> None:
    found = checked(Fmu(fmu(name, version), interface=interface))
    assert found.rollback == found.serialise == Claim(Verdict.EXACT)


@pytest.mark.parametrize("name", ["clocks", "space", "types", "stairs", "smooth"])
def test_honest_ones_of_fmi_3(fmu: Made, name: str) -> None:
    found = checked(Fmu(fmu(name, 3)))
    assert found.rollback == found.serialise == Claim(Verdict.EXACT)


@BOTH
def test_one_that_forgets(fmu: Made, version: int) -> None:
    """w' = x from x = 1 with u = 1/4 (its second value) for two steps of 0.01."""
    found = checked(Fmu(fmu("forget", version)))
    assert found.rollback is not None
    assert found.rollback.verdict is Verdict.FAILS
    assert found.rollback.why.startswith("after going back 'w' is 0 instead of 0.0198")
    assert found.serialise is not None
    assert found.serialise.verdict is Verdict.FAILS


@BOTH
@WAYS
def test_one_that_comes_back_nearly(fmu: Made, version: int, interface: Any) -> None:
    found = checked(Fmu(fmu("approximate", version), interface=interface))
    for claim in (found.rollback, found.serialise):
        assert claim is not None
        assert claim.verdict is Verdict.APPROXIMATE
        assert claim.error == pytest.approx(5e-7, rel=1e-3)


@BOTH
def test_one_that_crashes(fmu: Made, version: int) -> None:
    found = checked(Fmu(fmu("savecrash", version)))
    why = "it was killed by signal 11 (Segmentation fault) while saving its state"
    assert found.rollback == found.serialise == Claim(Verdict.FAILS, why=why)


@BOTH
def test_one_that_lacks_the_functions(fmu: Made, version: int) -> None:
    found = checked(Fmu(fmu("hollow", version)))
    assert found.rollback is not None
    assert f"the FMU has no fmi{version}GetFMU" in found.rollback.why


def test_nothing_is_checked_that_is_not_declared(fmu: Made) -> None:
    assert checked(Fmu(fmu("bare", 2))) == claims.Claims()


def test_one_that_does_not_like_other_inputs(fmu: Made) -> None:
    found = checked(Fmu(fmu("picky", 2)))
    assert found.rollback == found.serialise == Claim(Verdict.EXACT)


def test_the_settings_of_the_unit_count(fmu: Made) -> None:
    """It crashes from the beginning, unless it is told to do so later."""
    early, late = Fmu(fmu("fail", 3), parameters={"at": 0.0}), Fmu(fmu("fail", 3))
    first, _ = check(early)
    assert first.rollback is not None
    assert first.rollback.why.endswith("while running its first steps")
    assert check(late)[0].rollback == Claim(Verdict.EXACT)


@BOTH
def test_lags_made_in_python(fmu_folder: Path, version: int) -> None:
    found = checked(Fmu(python_fmu(version, fmu_folder)))
    assert found.rollback == Claim(Verdict.EXACT)


# ------------------------------------------------------------------------ what is remembered


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "upbeat"


def test_findings_last(fmu: Made, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Fmu(fmu("savecrash", 2))
    tried = []
    monkeypatch.setattr(claims, "check", lambda model: tried.append(model) or check(model))
    first = checked(model)
    (file,) = (path for path in cache.rglob("*") if path.is_file())
    assert json.loads(file.read_text())["fmu"] == "savecrash2.fmu"
    known.forget()
    assert checked(model) == first
    assert len(tried) == 1
    file.write_text("{")  # damaged: asked again
    known.forget()
    assert checked(model) == first
    assert len(tried) == 2


def test_a_deadline_that_passed_does_not_last(
    fmu: Made, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        claims,
        "check",
        lambda model: (claims.Claims(Claim(Verdict.FAILS, why="it hung")), claims.Holds.FOR_NOW),
    )
    assert checked(Fmu(fmu("linear", 2))).rollback == Claim(Verdict.FAILS, why="it hung")
    assert not cache.exists()


def test_a_failure_that_has_nothing_to_do_with_states_is_not_held_against_it(fmu: Made, cache: Path) -> None:
    """With other parameters it comes further."""
    assert doubt(Fmu(fmu("fail", 3), parameters={"at": 0.0}), Ability.ROLLBACK)
    assert not cache.exists()
    assert not doubt(Fmu(fmu("fail", 3)), Ability.ROLLBACK)


def test_a_cache_that_cannot_be_written_is_no_harm(fmu: Made, cache: Path) -> None:
    cache.write_text("in the way")
    known.remember(
        fmu("linear", 2), "claims-co-simulation", {"rollback": ["exact", 0.0, ""], "serialise": None}
    )
    assert checked(Fmu(fmu("linear", 2))).rollback == Claim(Verdict.EXACT)


# ------------------------------------------------------------------------ masters


def scenario(model: Any) -> Scenario:
    return Scenario({"a": model, "b": model}, {"a.u": "b.y", "b.u": "a.y"})


ITERATED = Master(Fixed(0.1), Iterated(Jacobi()))


@pytest.mark.supports(
    "fmi2",
    "Claims of rollback and serialised states",
    "checked in a throw-away process before they are relied on",
)
@pytest.mark.supports(
    "fmi3",
    "Claims of rollback and serialised states",
    "checked in a throw-away process before they are relied on",
)
@BOTH
def test_a_master_that_goes_back_wants_the_truth(fmu: Made, version: int) -> None:
    model = Fmu(fmu("savecrash", version))
    assert Ability.ROLLBACK in model.abilities
    with pytest.raises(MasterError) as error:
        ITERATED.program(scenario(model))
    text = str(error.value)
    assert "unit 'a': savecrash" in text
    assert "signal 11" in text
    assert 'rollback = "trust"' in text
    assert "the coupling repeats steps" in text
    Master(Fixed(0.1)).program(scenario(model))  # does not need it
    ITERATED.program(scenario(Fmu(fmu("savecrash", version), rollback="trust")))
    with pytest.raises(MasterError, match="does not have: can be set back"):
        ITERATED.program(scenario(Fmu(fmu("savecrash", version), rollback="never")))


def test_one_that_comes_back_nearly_is_a_warning(
    fmu: Made, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "_warned", set())
    with caplog.at_level(logging.WARNING, "upbeat.fmu"):
        ITERATED.program(scenario(Fmu(fmu("approximate", 2))))
    (message,) = caplog.messages
    assert message.startswith(
        "approximate2.fmu can be set back to an earlier state (rollback) only approximately"
    )
    assert "5e-07 off" in message


def test_nests_are_no_hiding_place(fmu: Made) -> None:
    inside = Scenario({"a": Fmu(fmu("savecrash", 2))}, outputs={"y": "a.y"})
    nest = Nested(inside, Master(Fixed(0.1)))
    finding = doubt(nest, Ability.ROLLBACK)
    assert finding is not None
    assert finding.startswith("its unit 'a': savecrash2.fmu declares")
    assert doubt(nest, Ability.NEXT_EVENT) is None


def test_checkpoints_want_the_truth_too(fmu: Made, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there can be no checkpoints"):
        simulate(scenario(Fmu(fmu("forget", 2))), until=1.0, pace=0.1, checkpoint=tmp_path / "kept")
