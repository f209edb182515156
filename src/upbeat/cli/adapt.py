"""`upbeat adapt`: checks an adaptation in a .sa file, and shows it with all conventions written out."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from upbeat.adapt.sa.loading import Layer, checked
from upbeat.adapt.sa.showing import text_of
from upbeat.cli.console import say
from upbeat.cli.exits import Exit, exit_for
from upbeat.core.errors import InvalidInput, problems_of


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.sa", type=Path, help="adaptations in the baseSA language")
    parser.add_argument("--check", action="store_true", help="only say whether all is well (the default)")
    parser.add_argument(
        "--explicit", action="store_true", help="show every adaptation with all that conventions add"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output instead")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> Exit:
    try:
        found = checked(options.file)
    except InvalidInput as error:
        if not options.json:
            raise
        say(json.dumps({"ok": False, "problems": [problem.data() for problem in problems_of(error)]}))
        return exit_for(error)
    texts = [text_of(one.explicit.it) for layer in found for one in layer.all()]
    if options.json:
        data: dict[str, Any] = {
            "ok": True,
            "problems": [],
            "adaptations": [_summary(layer) for layer in found],
        }
        say(json.dumps(data | ({"explicit": "\n".join(texts)} if options.explicit else {})))
    elif options.explicit:
        say("\n".join(texts).rstrip())
    else:
        for layer in found:
            about = _summary(layer)
            units, inputs, outputs = (
                ", ".join(about[key]) or "none" for key in ("units", "inputs", "outputs")
            )
            say(f"{options.file}: {about['kind']} {about['name']} around {units}")
            say(f"  inputs: {inputs}; outputs: {outputs}")
        if not found:
            say(f"{options.file}: no problems, and no adaptation in it")
    return Exit.OK


def _summary(layer: Layer) -> dict[str, Any]:
    it = layer.explicit.it
    kind = f"{'delayed' if it.reactive is False else 'reactive'} {'moore' if it.mealy is False else 'mealy'}"
    return {
        "type": it.type,
        "name": it.name,
        "kind": kind,
        "units": [unit.name for unit in it.inner],
        "inputs": [port.name for port in layer.explicit.inputs],
        "outputs": [port.name for port in layer.explicit.outputs],
        "parameters": [one.name for one in it.params],
    }
