"""reproduce/two_mass.py: starts from the command line, and events at the start."""

from __future__ import annotations

import pytest

from moving_models import TWO


def test_an_event_at_the_start_is_in_the_reference() -> None:
    """The upper mass touches the ceiling, and moves up."""
    assert TWO.Reference((-0.55, 3.0, -8.8, 3.0)).events[0] == ("ceiling", 0.0)


def test_a_start_that_begins_with_a_minus(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[object] = []

    def stop(start: object) -> None:
        begun.append(start)
        raise KeyboardInterrupt

    monkeypatch.setattr(TWO, "Reference", stop)
    monkeypatch.setattr("sys.argv", ["two_mass.py", "--x0", "-0.7,3.5,-8.8,3", "--n", "0"])
    with pytest.raises(KeyboardInterrupt):
        TWO.main()
    assert begun == [(-0.7, 3.5, -8.8, 3.0)]


@pytest.mark.parametrize("words", [["--x0", "1,2"], ["--x0", "-a"], ["--x0", "1,2,3,nan"], ["--n", "-1"]])
def test_what_makes_no_sense_is_refused(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["two_mass.py", *words])
    with pytest.raises(SystemExit) as exit:
        TWO.main()
    assert exit.value.code == 2
    assert f"argument {words[0]}: '{words[1]}' is not" in capsys.readouterr().err
