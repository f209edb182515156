"""The server of the studio: what the page asks for, over HTTP and a websocket of this machine.

It keeps no drafts: the page sends the text that it is about. Scenarios are looked at, run and judged in other
processes (`processes`), so that nothing a model does can end or block it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import secrets
import socket
import webbrowser
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from upbeat.core.errors import InvalidInput, MissingExtra, UpbeatError
from upbeat.studio.child import finite
from upbeat.studio.edits import edited
from upbeat.studio.jobs import Jobs
from upbeat.studio.processes import Died, Looker
from upbeat.studio.project import Changed, Missing, Project, Refused
from upbeat.studio.rows import MAX_SIGNALS, alike, difference, packed
from upbeat.studio.runs import Runs
from upbeat.version import __version__

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
    from starlette.staticfiles import StaticFiles
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
    from starlette.websockets import WebSocket, WebSocketDisconnect

    from upbeat.studio.live import Live
except ImportError:
    raise MissingExtra("studio", "upbeat studio") from None

PAGE = Path(__file__).parent / "page"
LARGEST_BODY = 10_000_000
LARGEST_UPLOAD = 500_000_000
LARGEST_MESSAGE = 1 << 16
"""From the page, by websocket."""
MAX_CONNECTIONS = 500
MAX_EVENTS = 5000
"""Of one answer."""


@dataclass
class Studio:
    """What the server serves: a project, and what runs in it."""

    project: Project
    file: str | None = None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    port: int = 0
    looker: Looker = field(init=False)
    runs: Runs = field(init=False)
    jobs: Jobs = field(init=False)

    def __post_init__(self) -> None:
        self.looker = Looker(self.project)
        self.runs = Runs(self.project)
        self.jobs = Jobs(self.project, self.runs)

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    async def close(self) -> None:
        """End all that runs."""
        await self.jobs.close()
        await self.runs.close()
        await self.looker.close()


# ----------------------------------------------------------------------------------------------------
# Who may ask: a browser that was given the token, on this machine, on a page of this server.


class Guard:
    """Refuses whoever has no token, and pages of others that talk through somebody's browser.

    A page of a stranger can send requests to this server, and with a name of its own that points here even
    read the answers: so the Host must be this machine's and the Origin, where there is one, this server's.
    """

    def __init__(self, app: ASGIApp, studio: Studio) -> None:
        self._app = app
        self._studio = studio

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await self._refuse(scope, receive, send, *refusal)
            return
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
            return
        await self._app(scope, receive, self._with_headers(send))

    def _refusal(self, scope: Scope, headers: Mapping[str, str]) -> tuple[int, str, str | None] | None:
        hosts = {f"127.0.0.1:{self._studio.port}", f"localhost:{self._studio.port}"}
        if headers.get("host") not in hosts:
            return 403, "this server answers to 127.0.0.1 and localhost only", None
        origin = headers.get("origin")
        if origin is not None and origin not in {f"http://{host}" for host in hosts}:
            return 403, "this server answers to its own page only", None
        path = scope["path"]
        if path == "/" and "token=" in scope.get("query_string", b"").decode("latin-1"):
            return None  # which looks at the token itself
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return 403, "this server answers to its own page only", _AGAIN
        given = headers.get("x-upbeat-token") or self._cookie(headers.get("cookie", ""))
        if not given or not secrets.compare_digest(given.encode(), self._studio.token.encode()):
            return 403, "this browser has not been let in", _AGAIN
        return None

    def _cookie(self, text: str) -> str:
        for part in text.split(";"):
            name, _, value = part.strip().partition("=")
            if name == cookie_name(self._studio):
                return value
        return ""

    async def _refuse(
        self, scope: Scope, receive: Receive, send: Send, status: int, what: str, hint: str | None
    ) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 4403, "reason": what})
            return
        await _refusal(status, what, hint)(scope, receive, self._with_headers(send))

    def _with_headers(self, send: Send) -> Send:
        own = f"ws://127.0.0.1:{self._studio.port} ws://localhost:{self._studio.port}"
        policy = (
            f"default-src 'self'; connect-src 'self' {own}; img-src 'self' data: blob:; object-src 'none'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        more = [
            (b"content-security-policy", policy.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"x-frame-options", b"DENY"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"cache-control", b"no-store"),
        ]

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in more}
                kept = [pair for pair in message.get("headers", ()) if pair[0].lower() not in known]
                message = {**message, "headers": [*kept, *more]}
            await send(message)

        return sending


_AGAIN = "Open the address that upbeat studio has printed, with its token."


def cookie_name(studio: Studio) -> str:
    """Cookies of one host are shared by all its ports: two studios must not overwrite each other's."""
    return f"upbeat-{studio.port}"


# ----------------------------------------------------------------------------------------------------
# Requests and answers.

Handler = Callable[[Studio, Request], Awaitable[Response]]


class TooLarge(InvalidInput):
    """A request with more in it than any of ours."""


def _refusal(status: int, what: str, hint: str | None = None, **more: Any) -> Response:
    return JSONResponse({"error": what, "hint": hint, **more}, status_code=status)


def _answer(data: Mapping[str, Any] | list[Any], status: int = 200) -> Response:
    text = json.dumps(finite(data), default=str, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return Response(text.encode("utf-8", "replace"), status, media_type="application/json")


async def body(request: Request, limit: int = LARGEST_BODY) -> bytes:
    """The body of a request, of which no more is read than there may be."""
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > limit:
            raise TooLarge(f"a request has at most {limit / 1e6:.0f} MB")
    return bytes(found)


async def given(request: Request) -> dict[str, Any]:
    """The JSON table in a request."""
    data = await body(request)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the request is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidInput("the request must be a JSON table")
    return found


def _guarded(studio: Studio, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """A handler whose failures are sentences."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(studio, request)
        except Changed as error:
            return _refusal(409, str(error), text=error.text, version=error.version)
        except Missing as error:
            return _refusal(404, str(error))
        except Refused as error:
            return _refusal(403, str(error))
        except TooLarge as error:
            return _refusal(413, str(error))
        except Died as error:
            return _refusal(500, str(error), "The studio goes on: try again.")
        except UpbeatError as error:
            what, _, hint = str(error).partition("\n")
            return _refusal(400, what, hint.strip() or None)
        except (ClientDisconnect, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001  # a defect is answered, and does not end the server
            return _refusal(500, f"a defect of the studio ({type(error).__name__}: {error})")

    return handle


def _status(answer: Mapping[str, Any]) -> int:
    return 400 if "error" in answer and "hint" in answer else 200


# ----------------------------------------------------------------------------------------------------
# The page.


async def _start(studio: Studio, request: Request) -> Response:
    """The page; a browser that comes with the token is given a cookie and shown it without."""
    if (token := request.query_params.get("token")) is None:
        return Response((PAGE / "index.html").read_bytes(), media_type="text/html; charset=utf-8")
    if not secrets.compare_digest(token.encode(), studio.token.encode()):
        return _refusal(403, "the token is not that of this studio", _AGAIN)
    answer = Response(status_code=303, headers={"location": "/"})
    answer.set_cookie(cookie_name(studio), studio.token, httponly=True, samesite="strict", path="/")
    return answer


# ----------------------------------------------------------------------------------------------------
# Files and scenarios.


async def _project(studio: Studio, request: Request) -> Response:
    files = await asyncio.to_thread(studio.project.files)
    return _answer(
        {
            "folder": studio.project.folder.name,
            "files": files,
            "open": studio.file,
            "python": studio.project.python,
            "version": __version__,
        }
    )


async def _file(studio: Studio, request: Request) -> Response:
    path = request.query_params.get("path")
    text, version = await asyncio.to_thread(studio.project.read, path)
    return _answer({"path": path, "text": text, "version": version})


async def _save(studio: Studio, request: Request) -> Response:
    asked = await given(request)
    version = await asyncio.to_thread(
        studio.project.write, asked.get("path"), asked.get("text"), asked.get("version")
    )
    return _answer({"version": version})


async def _raw(studio: Studio, request: Request) -> Response:
    """A file to keep: it is never shown as a page of ours."""
    path = studio.project.path(request.query_params.get("path"))
    if not path.is_file():
        raise Missing(f"there is no file '{request.query_params.get('path')}'")
    from starlette.responses import FileResponse

    return FileResponse(path, filename=path.name, media_type="application/octet-stream")


async def _upload(studio: Studio, request: Request) -> Response:
    path = studio.project.place_for(request.query_params.get("name"))
    folder = studio.project.own() / "uploads"
    folder.mkdir(exist_ok=True)
    part = folder / f"{secrets.token_hex(8)}.part"
    size = 0
    try:
        with part.open("xb") as file:
            async for piece in request.stream():
                size += len(piece)
                if size > LARGEST_UPLOAD:
                    raise TooLarge(f"an upload has at most {LARGEST_UPLOAD / 1e6:.0f} MB")
                await asyncio.to_thread(file.write, piece)
        if path.suffix.lower() in (".fmu", ".ssp"):
            await asyncio.to_thread(_check_archive, part, path.name)
        kept = await asyncio.to_thread(studio.project.take, part, path)
    finally:
        part.unlink(missing_ok=True)
    return _answer({"path": studio.project.name(kept)})


def _check_archive(part: Path, name: str) -> None:
    """Refuse what only looks like an archive, or would unpack to something harmful."""
    from upbeat.core.errors import FileProblem
    from upbeat.units.fmi.archive import Limits, unpack

    try:
        unpack(part, Limits(total=4 * LARGEST_UPLOAD)).close()
    except FileProblem as error:
        raise FileProblem(str(error).replace(str(part), name)) from None


async def _places(studio: Studio, request: Request) -> Response:
    path = request.query_params.get("path")
    if request.method == "PUT":
        asked = await given(request)
        await asyncio.to_thread(studio.project.set_places, path, asked.get("places"))
    return _answer({"places": await asyncio.to_thread(studio.project.places, path)})


def _about(studio: Studio, asked: Mapping[str, Any], op: str) -> dict[str, Any]:
    """A question about the text of a scenario, for the process that looks at them."""
    path, text = studio.project.path(asked.get("path")), asked.get("text")
    if not isinstance(text, str):
        raise InvalidInput("text must be that of the scenario")
    where = {"file": str(path), "root": str(studio.project.folder), "python": studio.project.python}
    return {**asked, **where, "op": op, "text": text}


async def _view(studio: Studio, request: Request) -> Response:
    asked = await given(request)
    question = _about(studio, asked, "view")
    if not asked.get("places") and not asked.get("inside"):
        question["places"] = await asyncio.to_thread(studio.project.places, asked.get("path"))
    answer = await studio.looker.ask(question)
    if answer.get("path") is not None:
        inner = Path(answer["path"])
        inside = inner.resolve().is_relative_to(studio.project.folder)
        answer["path"] = studio.project.name(inner.resolve()) if inside else None
    return _answer(answer, _status(answer))


async def _edit(studio: Studio, request: Request) -> Response:
    asked = await given(request)
    text, added = await asyncio.to_thread(edited, asked.get("text"), asked.get("edits"))
    return _answer({"text": text, "names": added})


async def _targets(studio: Studio, request: Request) -> Response:
    answer = await studio.looker.ask(_about(studio, await given(request), "targets"))
    return _answer(answer, _status(answer))


async def _expression(studio: Studio, request: Request) -> Response:
    answer = await studio.looker.ask(_about(studio, await given(request), "expression"))
    return _answer(answer, _status(answer))


async def _library(studio: Studio, request: Request) -> Response:
    answer = await studio.looker.ask({"op": "library"})
    return _answer(answer, _status(answer))


async def _probe(studio: Studio, request: Request) -> Response:
    """An FMU is tried out in a process of its own, which may take its time."""
    path = studio.project.path((await given(request)).get("path"))
    prober = Looker(studio.project)
    try:
        answer = await prober.ask({"op": "probe", "file": str(path)}, patience=300.0)
    finally:
        await prober.close()
    return _answer(answer, _status(answer))


# ----------------------------------------------------------------------------------------------------
# Runs and judgements.


async def _runs(studio: Studio, request: Request) -> Response:
    if request.method == "GET":
        return _answer(await asyncio.to_thread(studio.runs.all))
    run = await studio.runs.start(await given(request))
    return _answer({"id": run.id}, 201)


async def _run(studio: Studio, request: Request) -> Response:
    run = await asyncio.to_thread(studio.runs.get, request.path_params["id"])
    if request.method == "GET":
        return _answer(await asyncio.to_thread(run.whole, studio.project))
    if request.method == "DELETE":
        await studio.runs.remove(run)
        return _answer({})
    return _answer(await studio.runs.do(run, await given(request)))


def _names(request: Request) -> list[str]:
    """The signals that are asked for: ``signals=a,b``, or one by one where a name has a comma."""
    found = request.query_params.getlist("signals")
    names = [name for text in found for name in (text.split(",") if len(found) == 1 else [text]) if name]
    if len(names) > MAX_SIGNALS:
        raise InvalidInput(f"at most {MAX_SIGNALS} signals can be asked for at a time")
    return names


def _time(request: Request, name: str) -> float | None:
    text = request.query_params.get(name)
    if text in (None, "", "null"):
        return None
    return _real(text, name)


def _real(text: str | None, name: str) -> float:
    try:
        found = float(text or "")
    except ValueError:
        found = math.nan
    if math.isnan(found):
        raise InvalidInput(f"{name} must be a number, not '{text}'")
    return found


def _points(request: Request) -> int:
    return int(min(max(_real(request.query_params.get("points", "2000"), "points"), 4), 1e6))


def _binary(header: dict[str, Any], columns: Any) -> Response:
    return Response(packed(header, columns), media_type="application/octet-stream")


async def _data(studio: Studio, request: Request) -> Response:
    run = await asyncio.to_thread(studio.runs.get, request.path_params["id"])

    like = request.query_params.get("like")
    other = None if like is None else await asyncio.to_thread(studio.runs.get, like)

    def find() -> Response:
        run.rows.update()
        names, window = _names(request), (_time(request, "from"), _time(request, "to"))
        if other is None:
            return _binary(*run.rows.window(names, *window, _points(request)))
        other.rows.update()
        shared = alike(other.rows, run.rows, names)
        if names and not shared:
            raise InvalidInput(f"the runs '{run.id}' and '{like}' have none of these signals in common")
        header, (time, *columns) = run.rows.window([*shared], *window, _points(request))
        return _binary(
            header, [time, *(said(one) for said, one in zip(shared.values(), columns, strict=True))]
        )

    return await asyncio.to_thread(find)


async def _events(studio: Studio, request: Request) -> Response:
    run = await asyncio.to_thread(studio.runs.get, request.path_params["id"])

    def find() -> Response:
        run.rows.update()
        found, more = run.rows.events_between(_time(request, "from"), _time(request, "to"), MAX_EVENTS)
        return _answer({"events": found, "more": more})

    return await asyncio.to_thread(find)


async def _steps(studio: Studio, request: Request) -> Response:
    run = await asyncio.to_thread(studio.runs.get, request.path_params["id"])
    return _answer({"steps": await asyncio.to_thread(studio.runs.step_sizes, run)})


async def _difference(studio: Studio, request: Request) -> Response:
    a = await asyncio.to_thread(studio.runs.get, request.query_params.get("a"))
    b = await asyncio.to_thread(studio.runs.get, request.query_params.get("b"))

    def find() -> Response:
        a.rows.update()
        b.rows.update()
        return _binary(*difference(a.rows, b.rows, _names(request), _points(request)))

    return await asyncio.to_thread(find)


async def _jobs(studio: Studio, request: Request) -> Response:
    job = await studio.jobs.start(await given(request))
    return _answer({"id": job.id}, 201)


async def _job(studio: Studio, request: Request) -> Response:
    job = studio.jobs.get(request.path_params["id"])
    if request.method == "DELETE":
        await studio.jobs.remove(job)
        return _answer({})
    return _answer(job.data())


# ----------------------------------------------------------------------------------------------------

_ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", "/", _start),
    ("GET", "/api/project", _project),
    ("GET", "/api/file", _file),
    ("PUT", "/api/file", _save),
    ("GET", "/api/file/raw", _raw),
    ("POST", "/api/upload", _upload),
    ("GET,PUT", "/api/places", _places),
    ("GET", "/api/library", _library),
    ("POST", "/api/probe", _probe),
    ("POST", "/api/view", _view),
    ("POST", "/api/edit", _edit),
    ("POST", "/api/targets", _targets),
    ("POST", "/api/expression", _expression),
    ("GET,POST", "/api/runs", _runs),
    ("GET,POST,DELETE", "/api/runs/{id}", _run),
    ("GET", "/api/runs/{id}/data", _data),
    ("GET", "/api/runs/{id}/events", _events),
    ("GET", "/api/runs/{id}/steps", _steps),
    ("GET", "/api/difference", _difference),
    ("POST", "/api/jobs", _jobs),
    ("GET,DELETE", "/api/jobs/{id}", _job),
]


def app(studio: Studio) -> ASGIApp:
    """All of it, as an ASGI application."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await studio.looker.warm()
        await studio.runs.warm()
        try:
            yield
        finally:
            await studio.close()

    routes: list[BaseRoute] = [
        Route(path, _guarded(studio, handler), methods=methods.split(","))
        for methods, path, handler in _ROUTES
    ]
    routes.append(WebSocketRoute("/api/live", partial(_live, studio)))
    routes.append(Route("/favicon.ico", _no_icon))
    routes.append(Mount("/", StaticFiles(directory=PAGE)))
    return Guard(Starlette(routes=routes, lifespan=lifespan), studio)


async def _live(studio: Studio, socket: WebSocket) -> None:
    """A run while it goes on, for as long as the page looks."""
    await socket.accept()
    try:
        run = await asyncio.to_thread(studio.runs.get, socket.query_params.get("run"))
    except UpbeatError as error:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await socket.send_json({"kind": "error", "error": str(error)})
            await socket.close(4404)
        return
    await Live(studio.runs, studio.project, run, socket).serve()


async def _no_icon(request: Request) -> Response:
    return Response(status_code=204)


def listening(port: int) -> socket.socket:
    """A socket of this machine at a port that is free; 0 for any."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        made.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(
            f"cannot listen at port {port}: {reason}. Give another one (--port 0: any that is free)"
        ) from None
    made.listen(128)
    return made


def port_of(folder: Path) -> int:
    """The same each time: a browser finds what it has kept for an address, such as what was not saved."""
    return 20_000 + zlib.crc32(os.fsencode(folder)) % 12_000


def serve(studio: Studio, port: int | None, ready: Callable[[Studio], None], *, browser: bool) -> None:
    """Serve until Ctrl-C, at the folder's own port if none is given; `ready` is told when the address is
    known."""
    try:
        bound = listening(port_of(studio.project.folder) if port is None else port)
    except InvalidInput:
        if port is not None:
            raise
        bound = listening(0)
    studio.port = bound.getsockname()[1]
    config = uvicorn.Config(
        app(studio),
        log_level="error",
        access_log=False,
        server_header=False,
        ws_max_size=LARGEST_MESSAGE,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=1 << 16,
    )
    ready(studio)
    if browser:
        with contextlib.suppress(webbrowser.Error, OSError):
            webbrowser.open(studio.address)
    try:
        with contextlib.suppress(KeyboardInterrupt):  # which is how it is meant to end
            uvicorn.Server(config).run(sockets=[bound])
    finally:
        bound.close()
