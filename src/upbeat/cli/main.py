"""The entry point: reads the command line, calls one command, turns errors into exit codes."""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from upbeat.cli import check, explain, plot, run
from upbeat.cli.exits import Exit, exit_for
from upbeat.core.errors import ScenarioError, UnitError, UpbeatError
from upbeat.version import __version__

_EPILOG = """exit codes:
  0  done                         4  the run failed (results so far are kept)
  1  a defect of Upbeat itself    5  an optional part is not installed
  2  wrong command line         130  interrupted by Ctrl-C (results so far are kept)
  3  wrong scenario, file or value
"""


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="upbeat",
        description="Couple simulation models and run them together.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"upbeat {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in (run, check, explain, plot):
        command.add_to(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = parser().parse_args(arguments)
    try:
        return int(options.call(options))
    except BrokenPipeError:
        # Somebody closed our output (`| head`): that is no failure, but Python must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except (UpbeatError, KeyboardInterrupt) as error:
        _tell(error, as_json=getattr(options, "json", False))
        return exit_for(error)


def _tell(error: BaseException, *, as_json: bool) -> None:
    """Say what went wrong: on standard error for people, as one object on standard output for programs."""
    if as_json:
        print(json.dumps({"ok": False, "error": _as_data(error)}))
        return
    cause = error.__cause__ if isinstance(error, UnitError) else None
    if cause is not None and cause.__traceback__ is not None:
        _show_users_traceback(cause)
    print(f"upbeat: {error}" if str(error) else "upbeat: interrupted", file=sys.stderr)


def _show_users_traceback(cause: BaseException) -> None:
    """The traceback of an exception in somebody's unit, without the frames of Upbeat around it."""
    frames = traceback.extract_tb(cause.__traceback__)
    package = Path(__file__).parents[1]
    own = [frame for frame in frames if package not in Path(frame.filename).parents]
    if own:
        print("Traceback of the unit:", file=sys.stderr)
        print("".join(traceback.format_list(own)), end="", file=sys.stderr)


def _as_data(error: BaseException) -> dict[str, Any]:
    data: dict[str, Any] = {"kind": type(error).__name__, "message": str(error), "exit": int(exit_for(error))}
    if isinstance(error, ScenarioError):
        data["problems"] = [
            {"line": p.line, "where": list(p.where), "what": p.what, "hint": p.hint} for p in error.problems
        ]
    if isinstance(error, UnitError):
        data |= {"unit": error.unit, "call": error.call, "time": error.time}
    return data


if __name__ == "__main__":
    sys.exit(main())
