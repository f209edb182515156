"""The FMUs that SSPs of these tests are made of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Pack = Callable[..., Path]


@pytest.fixture
def ssp(tmp_path: Path, fmu: Callable[[str, int], Path]) -> Pack:
    """``ssp(text, {"x.ssv": …})``: an archive, with the FMUs of tests/fmus that `text` names."""
    from ssp_maker import pack

    models = [("linear", 2), ("gain", 2), ("gain", 3), ("linear", 3), ("types", 2), ("space", 3)]

    def made(text: str, files: dict[str, Path | str | bytes] | None = None, name: str = "system.ssp") -> Path:
        needed = {f"resources/{model}{version}.fmu": fmu(model, version) for model, version in models}
        used = {key: path for key, path in needed.items() if key in text}
        return pack(tmp_path / name, text, used | (files or {}))

    return made
