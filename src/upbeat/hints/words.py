"""A configuration in words: the table of variants with reasons, and what changes in the file."""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Iterator

from upbeat.core.errors import InvalidInput
from upbeat.engine.experiment import Experiment
from upbeat.hints.configure import Configuration, Tried
from upbeat.master.settings import settings_of
from upbeat.scenario.files.toml import with_value, without

ROWS = 30
"""So many variants are printed; all of them are in the data."""
HEAD = ("", "hints", "robust", "error", "work", "stability", "variant", "")


def described(found: Configuration) -> str:
    """The recommendation, the table it rests on, why these variants, and what was left out."""
    lines = [found.reason, "", *([*_table(found), ""] if found.tried else [])]
    ended = "; interrupted" if found.interrupted else ""
    lines += [
        f"{len(found.tried)} of {found.variants:,} variants were looked at, with {found.work:,} calls of "
        f"units and steps of their solvers in {found.seconds:.0f} s{ended}."
    ]
    if found.best is not None and found.best.hints:
        lines += ["", "Hints and properties:"]
        lines += [
            f"  • {one.name}: {one.verdict}{f' ({one.reason})' if one.reason else ''}"
            for one in found.best.hints
        ]
    reasons = [*found.notes, *(found.best.variant.reasons if found.best is not None else ())]
    if reasons:
        lines += ["", "Why:", *(f"  • {text}" for text in dict.fromkeys(reasons))]
    if found.undone:
        lines += ["", "Not come to:", *(f"  • {text}" for text in found.undone)]
    return "\n".join(lines)


def _table(found: Configuration) -> Iterator[str]:
    rows = [HEAD, *(_row(one, one is found.best) for one in found.tried[:ROWS])]
    columns = [k for k in range(len(HEAD)) if any(row[k] for row in rows[1:])]
    widths = [max(len(row[k]) for row in rows) for k in range(len(HEAD))]
    for row in rows:
        cells = [row[k].rjust(widths[k]) if k in (2, 3, 4) else row[k].ljust(widths[k]) for k in columns]
        yield ("  " + "  ".join(cells)).rstrip()
    if len(found.tried) > ROWS:
        yield f"  … and {len(found.tried) - ROWS} more (--json has all)"


def _row(one: Tried, best: bool) -> tuple[str, ...]:
    measured = one.state == "measured"
    why = one.why if measured else f"{one.state}: {one.why}" if one.why else one.state
    finite = one.error is not None and math.isfinite(one.error)
    return (
        "→" if best else "",
        f"{one.satisfied}/{len(one.hints)}" if one.hints else "",
        f"{one.robustness:.2f}" if math.isfinite(one.robustness) else "",
        f"{one.error:.1e}" if finite else "events" if one.error is not None else "",
        f"{one.work:,}" if one.work is not None else "",
        one.stability,
        str(one.variant),
        why if len(why) <= 100 else f"{why[:98]} …",
    )


def configured(text: str, given: Experiment, found: Configuration) -> str:
    """The text of a scenario file with the master that is recommended. Nothing else in it changes, comments
    and order stay."""
    if found.best is None or found.best.made is None:
        raise InvalidInput(f"there is nothing to write: {found.reason}")
    old, new = settings_of(given.master), settings_of(found.improved().master)
    content = tomllib.loads(text)
    said = content.get("master", {})
    for key in said.keys() - new.keys():
        if key in old and not (key == "pace" and "step" in new):
            text = without(text, ("master", key))
    for key, value in new.items():
        if old.get(key) == value and key in said:
            continue
        if key == "step" and "pace" in said:  # a number is a fixed pace in either place
            text = with_value(text, ("master", "pace"), value)
        elif key == "ports":
            for port, kind in value.items():
                if said.get("ports", {}).get(port) != kind:
                    text = with_value(text, ("master", "ports", port), kind)
        elif old.get(key) != value:
            text = with_value(text, ("master", key), value)
    for unit, texts in found.best.made.adapts.items():
        before = content["units"][unit].get("adapt", [])
        listed = before if isinstance(before, list) else [before]
        text = with_value(text, ("units", unit, "adapt"), [*listed, *texts])
    return text


def difference(before: str, after: str, names: tuple[str, str]) -> str:
    """What is different, as a unified diff."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="", n=1)
    return "\n".join(lines)
