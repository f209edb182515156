"""FMUs that misbehave: what each status becomes, and that no run leaves anything behind."""

from __future__ import annotations

import logging
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

import upbeat as up
from fmu_opened import opened
from upbeat.units.fmi.instance import FmuError, Stepped

Fmus = Callable[[str, int], Path]
BOTH = pytest.mark.parametrize("version", [2, 3])


@BOTH
def test_an_error_can_be_survived(version: int, fmu: Fmus) -> None:
    with opened(fmu("fail", version)) as fail:
        one = fail.begun()
        one.step(0.0, 0.5, True)
        with pytest.raises(FmuError, match=f"fmi{version}DoStep failed") as caught:
            one.step(0.5, 0.5, True)
        assert (caught.value.fatal, caught.value.discarded) == (False, False)
        assert one.reader(fail["x"])() == pytest.approx(0.6065306597)
        one.terminate()


@BOTH
def test_after_a_fatal_error_nothing_is_called(version: int, fmu: Fmus) -> None:
    # It aborts the process if it is called again, even if only to be freed.
    with opened(fmu("doom", version)) as doom:
        one = doom.begun()
        read = one.reader(doom["x"])
        with pytest.raises(FmuError, match=f"fmi{version}DoStep failed for good") as caught:
            one.step(0.5, 0.5, True)
        assert caught.value.fatal
        for call in (read, one.terminate, lambda: one.step(1, 1, True)):
            with pytest.raises(
                FmuError, match=f"cannot be called: the FMU failed for good in fmi{version}DoStep"
            ):
                call()
        one.free()


@BOTH
def test_after_a_fatal_error_no_sister_is_called(version: int, fmu: Fmus, tmp_path: Path) -> None:
    path = tmp_path / "its.fmu"  # a library of its own: a fatal one stays doomed
    path.write_bytes(fmu("doom", version).read_bytes())
    model = up.Fmu(path, rollback="trust", locals=["x"])
    one, sister = (cast(Any, model.instantiate(name, 0.0)) for name in ("one", "sister"))
    for unit in (one, sister):
        unit.advance(0.0, 0.5)
    state = sister.save()
    with pytest.raises(FmuError, match="failed for good"):
        one.advance(0.5, 1.0)
    for call in (
        lambda: sister.get("x"),
        sister.save,
        lambda: sister.restore(state),
        lambda: sister.advance(0.5, 0.6),
        lambda: model.instantiate("third", 0.0),
    ):
        with pytest.raises(FmuError, match=rf"failed for good in fmi{version}DoStep before") as caught:
            call()
        assert caught.value.fatal
    sister.close()
    one.close()


def test_pending_is_refused(fmu: Fmus) -> None:
    with (
        opened(fmu("pend", 2)) as pend,
        pytest.raises(FmuError, match="asynchronous steps are not supported"),
    ):
        pend.begun().step(0.5, 0.5, True)


@BOTH
def test_a_warning_is_told_once(version: int, fmu: Fmus, caplog: pytest.LogCaptureFixture) -> None:
    with opened(fmu("warn", version)) as warn, caplog.at_level(logging.WARNING, "upbeat.fmu"):
        one = warn.begun()
        for k in range(5):
            assert one.step(k * 0.1, 0.1, True).reached == pytest.approx(k * 0.1 + 0.1)
    ours = [message for message in caplog.messages if "DoStep gave a warning" in message]
    assert len(ours) == 1


@BOTH
def test_the_end_may_be_asked_for(version: int, fmu: Fmus) -> None:
    with opened(fmu("stop", version)) as stop:
        one = stop.begun()
        assert not one.step(0.0, 0.5, True).terminate
        assert one.step(0.5, 0.5, True).terminate


@BOTH
def test_a_part_of_a_step(version: int, fmu: Fmus) -> None:
    with opened(fmu("partial", version)) as partial:
        one = partial.begun(**({"early_return": True} if version == 3 else {}))
        ended = one.step(0.0, 0.1, True)
        assert (ended.reached, ended.early) == (0.03, True)
        assert one.step(0.03, 0.03, True) == Stepped(0.06)


@BOTH
def test_a_second_instance_that_is_refused(version: int, fmu: Fmus) -> None:
    with opened(fmu("once", version)) as once:
        first = once.instance()
        with pytest.raises(FmuError, match=r"gave no instance.*refused"):
            once.instance()
        first.free()
        once.instance()


@BOTH
def test_declared_but_not_there(version: int, fmu: Fmus) -> None:
    one: Any = up.Fmu(fmu("hollow", version), rollback="trust").instantiate("one", 0.0)
    with pytest.raises(FmuError, match=r"has no fmi.GetFMU.tate, though it declares canGetAndSetFMU.tate"):
        one.save()
    assert one.advance(0.0, 0.1) == 0.1
    one.close()


def test_intermediate_updates(fmu: Fmus) -> None:
    # x' = -2 x + u, x(0) = 1, and u is set to the time at the start of each of the ten inner steps.
    one: Any = up.Fmu(fmu("smooth", 3), locals=["x"]).instantiate("one", 0.0)
    one.set("u", [0.0, 1.0])
    assert one.advance(0.0, 1.0) == 1.0
    x, decay = 1.0, math.exp(-0.2)
    for k in range(10):
        x = decay * x + (1 - decay) / 2 * k / 10
    assert one.get("x") == pytest.approx(x, abs=1e-5)
    one.close()


GROWTH = """
import gc, resource, sys
from pathlib import Path
import upbeat as up

def resident():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])

model = up.Fmu(sys.argv[1], logging=True, rollback="trust")
def life():
    one = model.instantiate("one", 0.0)
    one.set("u", [1.0])
    one.save()
    one.restore(one.from_bytes(one.to_bytes(one.save())))
    one.advance(0.0, 0.1)
    one.get("y")
    one.close()
for _ in range(200):
    life()
gc.collect()
before = resident()
for _ in range(1000):
    life()
gc.collect()
print(resident() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is measured as Linux tells it")
@BOTH
def test_a_thousand_lives_leave_nothing_behind(version: int, fmu: Fmus) -> None:
    command = [sys.executable, "-c", GROWTH, str(fmu("linear", version))]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert int(done.stdout) < 1024  # kB
