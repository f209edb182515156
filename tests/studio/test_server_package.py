"""What is installed: the whole page, and nothing that it would have to fetch from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "src" / "upbeat" / "studio" / "page"
FILES = sorted(path for path in PAGE.rglob("*") if path.is_file())


def test_all_that_the_page_loads_is_there() -> None:
    loaded = {"index.html"}
    waiting = ["index.html"]
    while waiting:
        name = waiting.pop()
        text = (PAGE / name).read_text(encoding="utf-8")
        pattern = r'(?:src|href)="([^"#$]+)"' if name.endswith(".html") else r'^(?:import|\}).*?"([^"]+)";?$'
        for other in re.findall(pattern, text, re.M):
            if not other.startswith("data:"):
                path = (PAGE / name).parent.joinpath(other).resolve().relative_to(PAGE).as_posix()
                assert (PAGE / path).is_file(), f"{name} loads {other}"
                if path not in loaded and path.endswith(".js"):
                    waiting.append(path)
                loaded.add(path)
    assert {"main.js", "style.css"} <= loaded


def test_nothing_is_fetched_from_elsewhere() -> None:
    for path in FILES:
        if path.suffix in (".js", ".html", ".css") and path.parent == PAGE:
            text = path.read_text(encoding="utf-8").replace("http://www.w3.org/", "")
            assert not re.search(r"https?://(?!127\.0\.0\.1|localhost)", text), path.name


def test_the_page_is_small() -> None:
    """2 MB for a first look are allowed, and this is all there is."""
    assert sum(path.stat().st_size for path in FILES) < 2_000_000


def test_what_others_have_written_has_its_licence() -> None:
    licences = {path.stem for path in (PAGE / "vendor").glob("*.LICENSE")}
    others = {path.stem for path in (PAGE / "vendor").glob("*.js")}
    assert licences >= {part for name in others for part in name.split("-")}


def test_the_wheel_has_the_page(tmp_path: Path) -> None:
    line = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
    ]
    subprocess.run([*line, str(ROOT)], check=True, env={**os.environ, "UPBEAT_NATIVE": "off"})
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {f"upbeat/studio/page/{path.relative_to(PAGE).as_posix()}" for path in FILES} <= names
