"""The words of the language: its functions, where what is known, and how problems are told."""

from __future__ import annotations

import re

from upbeat.adapt.sa.parsing import bad
from upbeat.adapt.sa.tree import Literal, Place, Ref
from upbeat.core.errors import ScenarioError

MAX_ROUNDS = 1_000_000
"""The most rounds of all loops around a statement together."""
MAX_WRITTEN = 1_000
"""The same in a rule, where every round is written out."""

TRUE, SIZE, TIME = Literal(True), Ref("H"), Ref("t")
BUILT_IN = {
    **dict.fromkeys(("floor", "ceil", "abs", "sqrt", "exp", "log", "sin", "cos", "tan"), (1, 1)),
    **{"round": (1, 1), "min": (2, 99), "max": (2, 99), "is_close": (4, 4), "is_set": (1, 1)},
    **{"do_step": (2, 3), "get_next_time_step": (1, 1), "elapsed": (1, 1), "last_execution_time": (1, 1)},
    **{"save_state": (1, 1), "rollback": (1, 1), "discard": (1, 1)},
}
"""The functions, and how many arguments each takes."""
OF_UNITS = {"do_step", "get_next_time_step", "elapsed", "last_execution_time", "save_state", "rollback"}
STEPPING = {"do_step", "save_state", "rollback", "discard"}
TIMES = {"In": (), "MapIn": ("t", "H", "h", "dt"), "MapOut": ("t", "H", "h", "dt")}
MOMENTS = ("t", "H", "h", "dt")
PLACES = {
    "In": "the first part of in rules",
    "MapIn": "the second part of in rules",
    "Ctrl": "control rules",
    "MapOut": "the first part of out rules",
    "Out": "the second part of out rules",
}


def refused(at: Place, what: str, hint: str = "") -> ScenarioError:
    """The error with this one problem."""
    return ScenarioError([bad(at, what, hint)])


def variable(prefix: str, *names: str) -> str:
    """A name for what the conventions add: ``stored_windowsa_speed``, ``INIT_WINDOWSA_SPEED``."""
    text = "_".join((prefix, *names))
    text = text.upper() if prefix.isupper() else text.lower()
    return re.sub(r"__+", "_", text)
