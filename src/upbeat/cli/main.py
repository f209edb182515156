"""The entry point: reads the command line, calls one command, turns errors into exit codes."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from upbeat.cli import console, exits, fmu_options
from upbeat.cli.exits import Exit, exit_for
from upbeat.core.errors import FAULTS, FileProblem, UpbeatError
from upbeat.version import __version__

_EPILOG = """exit codes:
  0  done                         4    the run failed (results so far are kept)
  1  a defect of Upbeat itself    5    an optional part is not installed
  2  wrong command line           6    standard output could not be written
  3  wrong scenario, file or      130  interrupted by Ctrl-C (results so far are kept)
     value; nothing was run       143  ended by SIGTERM (results so far are kept)
"""

TRACEBACK = "UPBEAT_TRACEBACK"
"""Set this in the environment to see where a defect of Upbeat itself happened."""


COMMANDS = {
    "run": "run a scenario file or FMUs",
    "studio": "look, change, run and compare in the browser",
    "resume": "go on with a run from its checkpoint",
    "check": "find all problems of a scenario file",
    "adapt": "check an adaptation in a .sa file, or show it written out",
    "explain": "show units, order, loops, program and engine",
    "stability": "say before a run whether its coupling is stable",
    "trust": "say how good a result is, signal by signal",
    "step": "say which step size, coupling and inputs to take",
    "configure": "find a good master, from hints and from what the units declare",
    "discover": "find the conditions of events that are not declared",
    "explore": "run a study: sweeps, samples, and answers from them",
    "profile": "measure how long outputs, inputs and states take",
    "schedule": "show the time chart of a step on several cores",
    "plot": "draw signals and step sizes",
    "report": "write the report of a run as one page",
    "probe": "find out what an FMU can do",
    "import": "make a scenario file of an SSP",
    "export": "make an FMU or C of a scenario, or an SSP of one of FMUs",
}
_MODULES = {"import": "importing"}  # the others have the name of their command


class Command(argparse.ArgumentParser):
    """One command. Its module is loaded when it is called, so that all others cost nothing."""

    module = ""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self.module:
            module, self.module = _loaded(f"upbeat.cli.{self.module}"), ""
            _, _, what = (module.__doc__ or "").partition(": ")
            self.description = what[:1].upper() + what[1:]
            module.add_to(self)
            self.usage = f"{self.prog} [options] {' '.join(map(_word, self._get_positional_actions()))}"
        return super().parse_known_args(args, namespace)


def _loaded(name: str) -> ModuleType:
    """A module with all that it needs. All of it stays, so there is no garbage to look for in it."""
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()
        gc.enable()


def _word(action: argparse.Action) -> str:
    if action.nargs == "?":
        return f"[{action.metavar}]"
    return f"[{action.metavar} ...]" if action.nargs else str(action.metavar)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="upbeat",
        description="Couple simulation models and run them together.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("-V", "--version", action="version", version=f"upbeat {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Command)
    for name, what in COMMANDS.items():
        commands.add_parser(name, help=what).module = _MODULES.get(name, name)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    console.prepare()
    try:
        options = _parsed(arguments)
    except KeyboardInterrupt as error:  # while the modules of the command were loaded
        words = sys.argv[1:] if arguments is None else arguments
        exits.report_error(error, as_json="--json" in words)
        return exit_for(error)
    console.route_messages(all_of_fmus=getattr(options, "fmu_log", False))
    with console.to_ourselves(getattr(options, "json", False)):
        return _guarded(options)


def _guarded(options: argparse.Namespace) -> int:
    """The exit code of a command, whatever happens to it or to its output."""
    try:
        with exits.orderly(), exits.spoken():
            return _call(options)
    except BrokenPipeError:
        console.hush("stdout")  # our output was closed (`| head`): that is no failure
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
    """An unexpected failure, in words; the traceback is for those who ask for it."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(
            f"a defect of Upbeat itself, not of your files ({type(cause).__name__}: {cause}). Please report "
            f"it, with the file and what you typed; {TRACEBACK}=1 in the environment shows where it happened."
        )


def _call(options: argparse.Namespace) -> int:
    try:
        return int(options.call(options))
    except (UpbeatError, KeyboardInterrupt) as error:
        exits.report_error(error, as_json=getattr(options, "json", False))
        return exit_for(error)
    except (BrokenPipeError, console.OutputLost):
        raise
    except FAULTS as error:
        if os.environ.get(TRACEBACK):
            raise
        shown: Exception = Defect(error)
        if isinstance(error, OSError) and error.filename is not None:  # about a file
            shown = FileProblem(f"cannot use '{error.filename}': {error.strerror}")
        exits.report_error(shown, as_json=getattr(options, "json", False))
        return exit_for(shown) if isinstance(shown, FileProblem) else Exit.INTERNAL


if __name__ == "__main__":
    sys.exit(main())
