"""Who may ask the studio, and for what: other pages, other machines, other folders, too much of anything."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from studio_server import Studio

TANK = """upbeat = 1
[units.tank]
states = { h = "q - h" }
inputs = { q = 1.0 }
outputs = ["h"]
[master]
step = 0.01
[run]
until = 1.0
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    outer = tmp_path_factory.mktemp("outer")
    folder = outer / "project"
    folder.mkdir()
    (folder / "tank.toml").write_text(TANK)
    (outer / "secret.toml").write_text(TANK + "# secret\n")
    (folder / "link.toml").symlink_to(outer / "secret.toml")
    (folder / "way").symlink_to(outer)
    (folder / ".hidden.toml").write_text(TANK)
    return folder


@pytest.fixture(scope="module")
def studio(folder: Path) -> Iterator[Studio]:
    made = Studio(folder)
    yield made
    assert made.close() == 0


def test_the_token_lets_a_browser_in_by_a_cookie(studio: Studio) -> None:
    host = {"Host": f"127.0.0.1:{studio.port}"}
    status, headers, _ = studio.request("GET", f"/?token={studio.token}", headers=host)
    assert status == 303
    assert headers["location"] == "/"
    cookie = headers["set-cookie"]
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    name = cookie.partition(";")[0]
    status, headers, body = studio.request("GET", "/", headers={**host, "Cookie": name})
    assert status == 200
    assert b"<html" in body.lower()
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert studio.request("GET", "/api/project", headers={**host, "Cookie": name})[0] == 200


@pytest.mark.parametrize("token", ["", "wrong", "é", "x" * 5000])
def test_a_wrong_token_is_refused(studio: Studio, token: str) -> None:
    host = {"Host": f"127.0.0.1:{studio.port}"}
    query = f"/?token={token}" if token.isascii() else "/?token=%C3%A9"
    assert studio.request("GET", query, headers=host)[0] == 403
    encoded = {"X-Upbeat-Token": token} if token.isascii() else {"X-Upbeat-Token": "\xe9"}
    assert studio.request("GET", "/api/project", headers=encoded)[0] == 403
    assert studio.request("GET", "/main.js", headers=host)[0] == 403
    assert studio.request("GET", "/", headers=host)[0] == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_pages_of_others_are_refused(studio: Studio, headers: dict[str, str]) -> None:
    given = {key: value.format(port=studio.port) for key, value in headers.items()}
    status, _, body = studio.request(
        "POST", "/api/runs", {"path": "tank.toml", "text": TANK}, {"X-Upbeat-Token": studio.token, **given}
    )
    assert status == 403
    assert json.loads(body)["error"]
    assert studio.ask("GET", "/api/runs") == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Upbeat-Token": "wrong"},
        {"X-Upbeat-Token": "{token}", "Origin": "http://evil.example"},
        {"X-Upbeat-Token": "{token}", "Host": "evil.example"},
    ],
)
def test_websockets_are_refused_likewise(studio: Studio, headers: dict[str, str]) -> None:
    given = {key: value.format(token=studio.token) for key, value in headers.items()}
    address = f"ws://127.0.0.1:{studio.port}/api/live?run=none"
    host = given.pop("Host", None)
    if host is not None:
        with socket.create_connection(("127.0.0.1", studio.port)) as plain:
            plain.sendall(
                f"GET /api/live?run=none HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\n"
                "Connection: Upgrade\r\n"
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
                f"X-Upbeat-Token: {studio.token}\r\n\r\n".encode()
            )
            assert b" 403 " in plain.recv(1000)
        return
    with pytest.raises((InvalidStatus, ConnectionClosed)), connect(address, additional_headers=given) as live:
        live.recv(timeout=10)


@pytest.mark.parametrize(
    "path",
    [
        "../secret.toml",
        "/etc/passwd",
        "way/secret.toml",
        "link.toml",
        "./tank.toml",
        "a/../../secret.toml",
        "..\\secret.toml",
        ".hidden.toml",
        ".upbeat/lock",
        "",
        "tank.toml\0",
        "x" * 2000,
    ],
)
def test_only_the_folder_is_read_and_written(studio: Studio, folder: Path, path: str) -> None:
    from urllib.parse import quote

    query = quote(path, safe="")
    for address in (f"/api/file?path={query}", f"/api/file/raw?path={query}", f"/api/places?path={query}"):
        status, _, body = studio.request("GET", address)
        assert status in (400, 403, 404), (address, body)
        assert b"# secret" not in body
    for address, method, body in (
        ("/api/file", "PUT", {"path": path, "text": "upbeat = 1", "version": None}),
        ("/api/view", "POST", {"path": path, "text": TANK}),
        ("/api/runs", "POST", {"path": path, "text": TANK}),
        ("/api/probe", "POST", {"path": path}),
        ("/api/jobs", "POST", {"what": "explain", "path": path, "text": TANK}),
    ):
        if address == "/api/jobs" and not path:
            continue  # a judgement needs no file
        assert studio.request(method, address, body)[0] in (400, 403), address
    assert (folder.parent / "secret.toml").read_text().endswith("# secret\n")
    assert sorted(entry.name for entry in folder.parent.iterdir()) == ["project", "secret.toml"]


def test_a_scenario_does_not_reach_beyond_the_folder_either(studio: Studio) -> None:
    text = '[units.a]\nscenario = "../secret.toml"\n[run]\nuntil = 1\n[master]\nstep = 0.1\n'
    view = studio.view("tank.toml", text)
    assert [one["line"] for one in view["problems"]] == [2]
    assert "outside of the project folder" in view["problems"][0]["message"]
    assert view["units"]["a"]["problems"] == 1
    run = studio.finished(studio.start("tank.toml", text))
    assert run["state"] == "failed"
    assert "outside of the project folder" in run["failure"]["message"]
    assert run["failure"]["unit"] == "a"
    inside = studio.ask("POST", "/api/view", {"path": "tank.toml", "text": text, "inside": ["a"]}, status=400)
    assert "outside" in inside["error"]


def test_nor_do_studies_and_adaptations(studio: Studio, folder: Path) -> None:
    """Whatever names a file: the table of a study, an adaptation inside another one, an FMU in it."""
    (folder.parent / "secret.csv").write_text("tank.flow\n1\n")
    text = TANK + '\n[study]\ntable = "../secret.csv"\n[study.outputs]\nx = "mean(tank.level)"\n'
    assert "outside of the project folder" in studio.view("tank.toml", text)["problems"][0]["message"]
    (folder / "study.toml").write_text(text)
    assert "outside of the project folder" in str(studio.job("study", "study.toml")["error"])
    examples = Path(__file__).parents[2] / "examples" / "power_window"
    for file in examples.glob("*.sa"):
        shutil.copy(file, folder)
    shutil.copy(examples / "power_window.toml", folder)
    assert studio.view("power_window.toml")["problems"] == []
    shutil.copy(folder / "lazy_sa.sa", folder.parent)
    (folder.parent / "beyond.fmu").write_bytes(b"")
    whole = (folder / "controller_sa.sa").read_text(), (folder / "window_sa.sa").read_text()
    (folder / "controller_sa.sa").write_text(whole[0].replace('"lazy_sa.sa"', '"../lazy_sa.sa"'))
    (folder / "window_sa.sa").write_text(whole[1].replace('"window.fmu"', '"../beyond.fmu"'))
    said = [one["message"] for one in studio.view("power_window.toml")["problems"]]
    assert any("'lazy_sa.sa' lies outside" in one for one in said)
    assert any("'beyond.fmu' lies outside" in one for one in said)
    for name in ("secret.csv", "lazy_sa.sa", "beyond.fmu"):
        (folder.parent / name).unlink()


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"path": 5}', b"1e999"]
)
@pytest.mark.parametrize("address", ["/api/view", "/api/edit", "/api/runs", "/api/jobs", "/api/targets"])
def test_malformed_requests_are_answered(studio: Studio, address: str, body: bytes) -> None:
    status, _, found = studio.request("POST", address, body)
    assert status in (400, 403)
    assert json.loads(found)["error"]


@pytest.mark.parametrize(
    "edits",
    [
        None,
        [None],
        [{}],
        [{"op": "explode"}],
        [{"op": "set", "at": []}],
        [{"op": "set", "at": ["units", "tank"], "value": None}],
        [{"op": "set", "at": ["units", None], "value": 1}],
        [{"op": "set", "at": ["run", "until"], "toml": "1\nx = 2"}],
        [{"op": "rename_unit", "unit": "tank", "to": "a b"}],
        [{"op": "rename_unit", "unit": "tnak", "to": "b"}],
        [{"op": "connect", "from": "a.y", "to": "b"}],
        [{"op": "add_unit", "name": "x"}],
        [{"op": "add_unit", "name": "x", "block": "pdi"}],
        [{"op": "set", "at": ["units", "tank", "k"], "value": 10**30}],
    ],
)
def test_malformed_edits_are_answered(studio: Studio, edits: object) -> None:
    found = studio.ask("POST", "/api/edit", {"text": TANK, "edits": edits}, status=400)
    assert found["error"]


def test_bodies_have_a_size(studio: Studio) -> None:
    big = json.dumps({"path": "tank.toml", "text": "#" * 10_500_000}).encode()
    status, _, body = studio.request("POST", "/api/view", big)
    assert status == 413
    assert "at most 10 MB" in json.loads(body)["error"]


def test_messages_have_a_size(studio: Studio) -> None:
    run = studio.start("tank.toml", TANK)
    studio.finished(run)
    address = f"ws://127.0.0.1:{studio.port}/api/live?run={run}"
    with connect(address, additional_headers={"X-Upbeat-Token": studio.token}) as live:
        live.send(json.dumps({"signals": ["x" * 100_000]}))
        with contextlib.suppress(ConnectionClosed):
            for _ in range(20):
                live.recv(timeout=10)
        assert live.close_code == 1009  # too large
    assert studio.ask("GET", "/api/project")["folder"] == "project"


@pytest.mark.parametrize(
    "message", ["", "{", "[1]", '{"signals": 5}', '{"signals": [1]}', '{"points": "x"}', "[" * 9999]
)
def test_malformed_subscriptions_are_answered(studio: Studio, message: str) -> None:
    run = studio.start("tank.toml", TANK)
    with connect(
        f"ws://127.0.0.1:{studio.port}/api/live?run={run}",
        additional_headers={"X-Upbeat-Token": studio.token},
    ) as live:
        live.send(message)
        for _ in range(50):
            found = live.recv(timeout=10)
            if isinstance(found, str) and json.loads(found)["kind"] == "error":
                return
    raise AssertionError("no answer")


def test_a_run_that_is_not_there(studio: Studio) -> None:
    assert "there is no run" in studio.ask("GET", "/api/runs/nothing", status=404)["error"]
    with connect(
        f"ws://127.0.0.1:{studio.port}/api/live?run=nothing",
        additional_headers={"X-Upbeat-Token": studio.token},
    ) as live:
        assert json.loads(live.recv(timeout=10))["kind"] == "error"


def test_a_hundred_connections(studio: Studio) -> None:
    """Idle ones, and ones that begin a request and never end it, keep nobody else from being answered."""
    run = studio.start("tank.toml", TANK)
    with contextlib.ExitStack() as stack:
        for number in range(100):
            plain = stack.enter_context(socket.create_connection(("127.0.0.1", studio.port)))
            if number % 2:
                plain.sendall(b"POST /api/view HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n")
        for _ in range(20):
            stack.enter_context(
                connect(
                    f"ws://127.0.0.1:{studio.port}/api/live?run={run}",
                    additional_headers={"X-Upbeat-Token": studio.token},
                )
            )
        answers: list[int] = []
        asking = [
            threading.Thread(target=lambda: answers.append(studio.request("GET", "/api/project")[0]))
            for _ in range(100)
        ]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join(60)
        assert answers == [200] * 100


def test_two_writers_the_second_is_told(studio: Studio, folder: Path) -> None:
    (folder / "both.toml").write_text(TANK)
    mine = studio.ask("GET", "/api/file?path=both.toml")
    theirs = studio.ask("GET", "/api/file?path=both.toml")
    theirs["text"] += "# theirs\n"
    version = studio.ask("PUT", "/api/file", theirs)["version"]
    found = studio.ask("PUT", "/api/file", mine | {"text": mine["text"] + "# mine\n"}, status=409)
    assert found["text"].endswith("# theirs\n")
    assert found["version"] == version
    assert (folder / "both.toml").read_text().endswith("# theirs\n")
    assert studio.ask("PUT", "/api/file", {**mine, "version": version})["version"] == mine["version"]
    assert studio.request("PUT", "/api/file", {"path": "both.toml", "text": "", "version": None})[0] == 409


def test_many_writers_one_of_each_round_wins(studio: Studio, folder: Path) -> None:
    (folder / "many.toml").write_text(TANK)
    for turn in range(3):
        before = studio.ask("GET", "/api/file?path=many.toml")
        statuses: list[int] = []
        writers = [
            threading.Thread(
                target=lambda number=number, turn=turn, before=before, statuses=statuses: statuses.append(
                    studio.request("PUT", "/api/file", before | {"text": f"{TANK}# {turn} {number}\n"})[0]
                )
            )
            for number in range(8)
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(60)
        assert sorted(statuses) == [200] + [409] * 7


def test_only_scenarios_are_written(studio: Studio, folder: Path) -> None:
    for name in ("evil.py", "run.sh", "x.html", "conf"):
        body = {"path": name, "text": "x", "version": None}
        assert "not '" in studio.ask("PUT", "/api/file", body, status=403)["error"]
        assert not (folder / name).exists()


def test_line_ends_and_rights_stay(studio: Studio, folder: Path) -> None:
    file = folder / "dos.toml"
    file.write_bytes(TANK.replace("\n", "\r\n").encode())
    file.chmod(0o640)
    read = studio.ask("GET", "/api/file?path=dos.toml")
    studio.ask("PUT", "/api/file", read | {"text": TANK.replace("0.01", "0.02")})
    assert file.read_bytes() == TANK.replace("0.01", "0.02").replace("\n", "\r\n").encode()
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_server_that_is_killed_while_it_saves_leaves_the_file_whole(tmp_path: Path) -> None:
    """Old or new, and never a part of either, however often it is killed."""
    file = tmp_path / "big.toml"
    texts = [TANK + f"# {letter}" * 300_000 + "\n" for letter in "ab"]
    file.write_text(texts[0])
    for number in range(2):
        studio = Studio(tmp_path)
        read = studio.ask("GET", "/api/file?path=big.toml")
        stop = threading.Event()

        def save(
            studio: Studio = studio, version: str = read["version"], stop: threading.Event = stop
        ) -> None:
            with contextlib.suppress(OSError, ValueError, AssertionError, Exception):
                for turn in range(1, 1000):
                    body = {"path": "big.toml", "text": texts[turn % 2], "version": version}
                    version = json.loads(studio.request("PUT", "/api/file", body)[2])["version"]
                    if stop.is_set():
                        return

        writing = threading.Thread(target=save)
        writing.start()
        time.sleep(0.3 + 0.13 * number)
        os.kill(studio.process.pid, signal.SIGKILL)
        stop.set()
        writing.join(30)
        studio.close()
        assert file.read_text() in texts
        assert studio.process.returncode == -signal.SIGKILL


def test_uploads_are_limited_and_looked_into(studio: Studio, folder: Path, tmp_path: Path) -> None:
    def upload(name: str, data: bytes, status: int = 200) -> dict[str, str]:
        found: dict[str, str] = studio.ask("POST", f"/api/upload?name={name}", data, status)
        return found

    assert upload("signals.csv", b"time,q\n0,1\n") == {"path": "signals.csv"}
    assert upload("signals.csv", b"time,q\n0,1\n") == {"path": "signals.csv"}  # the same once more
    assert upload("signals.csv", b"time,q\n0,2\n") == {"path": "signals_2.csv"}
    assert (folder / "signals.csv").read_bytes() == b"time,q\n0,1\n"
    for name in ("evil.py", "x.sh", "..%2Fx.csv", "a%2Fb.csv", ".x.csv", ""):
        upload(name, b"x", 403)
    assert "not a zip archive" in upload("fake.fmu", b"not a zip", 400)["error"]
    slip = tmp_path / "slip.fmu"
    with zipfile.ZipFile(slip, "w") as archive:
        archive.writestr("../../evil.txt", "x")
    assert "evil" in upload("slip.fmu", slip.read_bytes(), 400)["error"]
    bomb = tmp_path / "bomb.fmu"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", b"\0" * (200 << 20))
    upload("bomb.fmu", bomb.read_bytes(), 400)
    assert not list(folder.glob("*.fmu"))
    assert not list((folder / ".upbeat" / "uploads").iterdir())


def test_python_needs_permission(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "from pathlib import Path\nPath('ran').write_text('ran')\nimport upbeat as up\n"
        "def unit():\n    return up.Function(outputs={'y': '1.0'})\n"
    )
    text = '[units.a]\nkind = "python"\npython = "model:unit"\n[run]\nuntil = 1\n[master]\nstep = 0.1\n'
    (tmp_path / "a.toml").write_text(text)
    studio = Studio(tmp_path)
    try:
        assert studio.ask("GET", "/api/project")["python"] is False
        view = studio.view("a.toml")
        assert view["problems"]
        assert studio.finished(studio.start("a.toml"))["state"] == "failed"
        assert not list(tmp_path.glob("**/ran"))
    finally:
        studio.close()


def test_the_address_is_of_this_machine_only(studio: Studio) -> None:
    others = [
        info[4][0]
        for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
        if not str(info[4][0]).startswith("127.")
    ]
    for other in others:
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((str(other), studio.port), timeout=5)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["nothing.toml"], "there is no file"),
        (["--port", "70000"], "a port is a number"),
        (["x.ssp"], "upbeat import"),
        (["x.fmu"], "open its folder"),
    ],
)
def test_wrong_arguments(tmp_path: Path, arguments: list[str], what: str) -> None:
    for name in ("x.ssp", "x.fmu"):
        (tmp_path / name).touch()
    done = command(tmp_path, *arguments)
    assert done.returncode == 3
    assert what in done.stderr


def test_without_its_packages_it_says_what_to_type(tmp_path: Path) -> None:
    code = "import sys; sys.modules['uvicorn'] = None; from upbeat.cli.main import main; sys.exit(main())"
    line = [sys.executable, "-c", code, "studio"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 5
    assert "pip install 'upbeat[studio]'" in done.stderr


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "upbeat.cli.main", "studio", *arguments, "--no-browser"]
    return subprocess.run(line, capture_output=True, text=True, cwd=folder, timeout=60, check=False)


def test_a_folder_has_its_own_port(tmp_path: Path) -> None:
    """Where the browser finds again what was not saved; beside a studio of the same folder it is another."""
    first = Studio(tmp_path)
    beside = Studio(tmp_path)
    first.close()
    again = Studio(tmp_path)
    beside.close()
    again.close()
    assert again.port == first.port != beside.port


def test_a_port_that_is_taken(studio: Studio, tmp_path: Path) -> None:
    done = command(tmp_path, "--port", str(studio.port))
    assert done.returncode == 3
    assert "--port 0" in done.stderr
