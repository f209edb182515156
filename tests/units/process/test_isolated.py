"""Units in processes of their own: the same results, and failures that do not spread."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upbeat as up
from isolated_models import broken, counter, echo, slow
from upbeat.units.process.wire import RecordReader, RecordSender


def alone(model: Any, **settings: Any) -> up.Trace:
    return up.simulate(up.Scenario({"ball": model}), pace=0.25, until=5.0, **settings)


def failure(model: Any, **settings: Any) -> up.UnitError:
    with pytest.raises(up.UnitError) as caught:
        alone(model, **settings)
    return caught.value


# -------------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("deed", "words"),
    [
        ("abort", "its process died of signal 6 (SIGABRT)"),
        ("segfault", "its process died of signal 11 (SIGSEGV)"),
        ("exit:3", "its process exited with code 3"),
        ("raise:boom", "ValueError: boom"),
    ],
)
def test_a_failure_is_told_and_results_are_kept(engine: str, deed: str, words: str) -> None:
    error = failure(up.Isolated(counter(deed)), engine=engine)
    assert (error.unit, error.call, error.time) == ("ball", "advance(1.25, 1.5)", 1.25)
    assert error.reason.startswith(words)
    assert error.trace is not None
    assert error.trace.outcome is up.Outcome.FAILED
    np.testing.assert_array_equal(error.trace["ball.y"], np.arange(6.0))  # at 0, 0.25, … 1.25


def test_what_a_unit_raises_reads_as_without_isolation(engine: str) -> None:
    model = counter("raise:boom")
    assert str(failure(model, engine=engine)) == str(failure(up.Isolated(model), engine=engine))


@pytest.mark.parametrize("deed", ["hang", "hang in C"])
def test_a_hung_unit_is_killed(engine: str, deed: str) -> None:
    error = failure(up.Isolated(counter(deed), deadline=0.3), engine=engine)
    assert str(error) == (
        "unit 'ball' failed in advance(1.25, 1.5) at t = 1.25: "
        "no answer within 0.3 s (hung); its process was killed"
    )
    assert error.trace is not None
    assert len(error.trace.time) == 6


def test_the_last_output_is_in_the_error(engine: str) -> None:
    error = failure(up.Isolated(counter("print:farewell")), engine=engine)
    assert "died of signal 6" in error.reason
    assert "farewell on stdout\n    farewell on stderr" in error.reason


def test_log_records_survive_a_crash(engine: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="upbeat.fmu"):
        failure(up.Isolated(counter("log:hot")), engine=engine)
    (record,) = [record for record in caplog.records if record.name == "upbeat.fmu.ball"]
    assert record.getMessage() == "hot, and gone"
    assert record.levelno == logging.WARNING
    assert (record.unit, record.time, record.category) == ("ball", 0.5, "logAll")  # type: ignore[attr-defined]


def test_all_output_is_handed_on(engine: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="upbeat.output"):
        failure(up.Isolated(counter("print:bye")), engine=engine)
    lines = [record.getMessage() for record in caplog.records if record.name == "upbeat.output.ball"]
    assert [line for line in lines if line.startswith("bye")] == ["bye on stdout", "bye on stderr"]


def test_a_unit_that_cannot_be_made(engine: str) -> None:
    error = failure(up.Isolated(broken()), engine=engine)
    assert str(error) == "unit 'ball' failed in instantiate at t = 0: RuntimeError: no licence"


def test_a_slow_unit_has_time_until_the_deadline(engine: str) -> None:
    scenario = up.Scenario({"slow": up.Isolated(slow(0.2), deadline=30.0)})
    assert up.simulate(scenario, pace=1.0, until=2.0, engine=engine)["slow.y"].tolist() == [1.0, 1.0, 1.0]


def test_log_records_of_any_length_arrive(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    texts = ["first", "long" * 1_000_000, "last"]
    with (tmp_path / "records").open("w+b", buffering=0) as file, caplog.at_level("INFO", "upbeat.fmu"):
        for text in texts:
            record = {"name": "upbeat.fmu.one", "levelno": logging.INFO, "msg": text}
            RecordSender(file.fileno(), lambda: None).emit(logging.makeLogRecord(record))
        RecordReader(file.fileno()).hand_on()
    assert [record.getMessage() for record in caplog.records] == texts


def test_what_stays_in_the_other_process_is_no_ability(fmu: Callable[[str, int], Path]) -> None:
    ball = up.Fmu(fmu("ball", 3), interface="model-exchange")
    assert up.Ability.INDICATORS in ball.abilities
    assert up.Ability.INDICATORS not in up.Isolated(ball).abilities


# -------------------------------------------------------------------- restarts


@pytest.mark.parametrize("deed", ["abort", "hang"])
def test_a_restart_gives_the_same_results(
    engine: str, deed: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = counter(f"once:{tmp_path / 'mark'}:{deed}", at=7)
    trace = alone(up.Isolated(model, deadline=1.0, restart=2, keep_every=3), engine=engine)
    np.testing.assert_array_equal(trace["ball.y"], np.arange(21.0))
    (warning,) = [record for record in caplog.records if record.name == "upbeat.process"]
    assert "Restarted (1 of 2)" in warning.getMessage()


@pytest.mark.parametrize("keep_every", [1, 4, 100])
def test_a_restart_comes_back_to_saved_states(engine: str, keep_every: int, tmp_path: Path) -> None:
    """An iterated coupling sets units back again and again."""

    def run(ball: Any) -> up.Trace:
        lens = up.Function(inputs=["y"], outputs={"g": "1 + 0.01*y"})
        scenario = up.Scenario({"ball": ball, "lens": lens}, {"ball.gain": "lens.g", "lens.y": "ball.y"})
        return up.simulate(
            scenario, pace=0.25, until=3.0, coupling=up.Iterated(up.GaussSeidel()), engine=engine
        )

    whole = run(counter())
    model = counter(f"once:{tmp_path / 'mark'}:abort", at=7)
    mended = run(up.Isolated(model, restart=1, keep_every=keep_every))
    assert (tmp_path / "mark").exists()
    np.testing.assert_array_equal(whole["ball.y"], mended["ball.y"])


def test_restarts_come_to_an_end(engine: str) -> None:
    error = failure(up.Isolated(counter("abort"), restart=2), engine=engine)
    assert error.reason.startswith(
        "its process died of signal 6 (SIGABRT), after it had been restarted 2 time(s)"
    )


def test_a_restart_from_a_state_that_is_refused(engine: str, tmp_path: Path) -> None:
    """It must not go on from the beginning instead, as if nothing had been."""
    model = counter(f"once:{tmp_path / 'mark'}:abort, no way back")
    error = failure(up.Isolated(model, restart=1, keep_every=1), engine=engine)
    assert "did not come to the same state: ValueError: there is no way back" in str(error)


def test_restart_needs_states_as_bytes() -> None:
    with pytest.raises(up.ModelError, match="SERIALISE"):
        up.Isolated(counter(abilities=()), restart=1)


# -------------------------------------------------------------------- all that ports can carry


def test_strings_and_other_kinds_travel(engine: str) -> None:
    kinds = {
        "s": {"kind": "string", "value": "grün"},
        "b": {"kind": "boolean", "value": True},
        "i": {"kind": "integer", "value": -(2**62)},
        "v": {"size": 3, "value": [1.0, -0.0, 1e300]},
        "w": {"kind": "string", "size": 2, "value": ["", "x" * 200_000]},
    }
    first, second = up.Isolated(echo(**kinds)), up.Isolated(echo(**kinds))
    connections = {f"b.in_{name}": f"a.out_{name}" for name in kinds}
    scenario = up.Scenario({"a": first, "b": second}, connections)
    with up.start(scenario, pace=1.0, until=3.0, engine=engine) as run:
        while not run.finished:
            run.step()
        found = {name: run[f"b.out_{name}"] for name in kinds}
    assert found["s"] == "grün"
    assert found["b"] is True
    assert found["i"] == -(2**62)
    assert repr(tuple(found["v"])) == repr((1.0, -0.0, 1e300))  # type: ignore[arg-type]
    assert found["w"] == ("", "x" * 200_000)


def test_huge_arrays_travel(engine: str) -> None:
    start = [float(k) for k in range(100_000)]
    scenario = up.Scenario({"a": up.Isolated(echo(v={"size": 100_000, "value": start}))})
    with up.start(scenario, pace=1.0, until=1.0, engine=engine, record=[]) as run:
        run.step()
        assert list(run["a.out_v"]) == start  # type: ignore[arg-type]


# -------------------------------------------------------------------- the model


def test_it_looks_like_its_model() -> None:
    model = up.Ode(states={"x": "-k*x + u"}, inputs=["u"], parameters={"k": 2.0})
    isolated = up.Isolated(model, deadline=3.0)
    assert isolated.ports == model.ports
    assert isolated.abilities == model.abilities - {up.Ability.MOVES}  # one thread talks to the process
    assert isolated.with_values({"k": 3.0}) == up.Isolated(model.with_values({"k": 3.0}), deadline=3.0)
    with pytest.raises(up.ModelError, match="k, u, x"):
        isolated.with_values({"q": 3.0})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"deadline": 0.0}, "positive"),
        ({"deadline": "10 s"}, "expected seconds"),
        ({"restart": -1}, "at least 0"),
        ({"keep_every": 0}, "at least 1"),
    ],
)
def test_bad_terms_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(up.ModelError, match=words):
        up.Isolated(counter(), **arguments)


def test_what_cannot_be_isolated_is_refused() -> None:
    with pytest.raises(up.ModelError, match="already"):
        up.Isolated(up.Isolated(counter()))
    with pytest.raises(up.ModelError, match="addresses"):
        up.Isolated(up.NativeUnit([], {"create": 1, "get": 1, "set": 1, "advance": 1}))
    with pytest.raises(
        up.UnitError, match=r"its function is a lambda .test_isolated.py, line .* cannot be sent to another"
    ):
        alone(up.Isolated(up.PythonFunction(lambda t, u: {"y": 1.0}, outputs=["y"])))


def test_a_wrong_port_is_named() -> None:
    unit = up.Isolated(counter()).instantiate("ball", 0.0)
    try:
        with pytest.raises(up.ModelError, match="no output 'z'"):
            unit.get("z")
        with pytest.raises(up.ModelError, match="no input 'y'"):
            unit.set("y", [1.0])
    finally:
        unit.close()
