"""The entry point: reads the command line, calls one command, turns errors into exit codes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from upbeat.cli import (
    check,
    console,
    explain,
    export,
    failure,
    fmu_log,
    fmu_options,
    importing,
    last_words,
    plot,
    probe,
    profile,
    resume,
    run,
    schedule,
    stability,
    terminated,
)
from upbeat.cli.exits import Exit, exit_for
from upbeat.core.errors import UpbeatError
from upbeat.version import __version__

_EPILOG = """exit codes:
  0  done                         4  the run failed (results so far are kept)
  1  a defect of Upbeat itself    5  an optional part is not installed
  2  wrong command line           6  standard output could not be written
  3  wrong scenario, file or      130  interrupted by Ctrl-C (results so far are kept)
     value; nothing was run       143  ended by SIGTERM (results so far are kept)
"""

TRACEBACK = "UPBEAT_TRACEBACK"
"""Set this in the environment to see where a defect of Upbeat itself happened."""


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
    for command in (
        run,
        resume,
        check,
        explain,
        stability,
        profile,
        schedule,
        plot,
        probe,
        importing,
        export,
    ):
        command.add_to(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    console.prepare()
    options = _parsed(arguments)
    fmu_log.prepare(all_messages=getattr(options, "fmu_log", False))
    with console.to_ourselves(getattr(options, "json", False)):
        return _guarded(options)


def _guarded(options: argparse.Namespace) -> int:
    """The exit code of a command, whatever happens to it or to its output."""
    try:
        with terminated.orderly(), last_words.spoken():
            return _call(options)
    except BrokenPipeError:
        console.hush("stdout")  # somebody closed our output (`| head`): that is no failure
        return Exit.OK
    except console.OutputLost as lost:
        console.hush("stdout")
        console.complain(f"upbeat: cannot write to standard output: {lost}")
        return Exit.OUTPUT


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options; names may stand before, between and behind them, which argparse alone does not allow."""
    top = parser()
    options, rest = top.parse_known_args(arguments)
    if rest and (not hasattr(options, "names") or any(word.startswith("-") for word in rest)):
        top.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        options.names += rest
    if wrong := fmu_options.misplaced(options):
        top.error(wrong)
    options.words = list(sys.argv[1:] if arguments is None else arguments)
    return options


class Defect(Exception):
    """What nobody expected, in words; the traceback is for those who ask for it."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(
            f"a defect of Upbeat itself, not of your files ({type(cause).__name__}: {cause}). Please report "
            f"it, with the file and what you typed; {TRACEBACK}=1 in the environment shows where it happened."
        )


def _call(options: argparse.Namespace) -> int:
    try:
        return int(options.call(options))
    except (UpbeatError, KeyboardInterrupt) as error:
        failure.tell(error, as_json=getattr(options, "json", False))
        return exit_for(error)
    except (BrokenPipeError, console.OutputLost):
        raise
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        failure.tell(Defect(error), as_json=getattr(options, "json", False))
        return Exit.INTERNAL


if __name__ == "__main__":
    sys.exit(main())
