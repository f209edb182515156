"""Model descriptions written by hand, one per version of FMI, with something of everything."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "fmus"

FMI2 = (_FOLDER / "tank.fmi2.xml").read_text(encoding="utf-8")
FMI3 = (_FOLDER / "all.fmi3.xml").read_text(encoding="utf-8")
