"""Enumerations: labels, and the codes that are their values."""

from __future__ import annotations

import pickle

import pytest

from upbeat.core.errors import ExpressionError, ModelError
from upbeat.core.expr import Number, labelled, parse
from upbeat.core.names import Labels
from upbeat.core.ports import Causality, Kind, Port
from upbeat.units.shorthand import port_spec, read_port

HEAT = Port("mode", Causality.INPUT, Kind.INTEGER, items=("off", "heat", "cool"), codes=(1, 4, -2))


def test_codes_count_from_zero_unless_given() -> None:
    assert Port("p", Causality.INPUT, Kind.INTEGER, items=("a", "b")).codes == (0, 1)
    assert Port("p", Causality.INPUT).codes == ()
    assert HEAT.codes == (1, 4, -2)


def test_the_value_is_the_code() -> None:
    assert [HEAT.value(label) for label in HEAT.items] == [1, 4, -2]
    assert HEAT.values(4) == (4,)
    assert HEAT.accept("cool") == [-2]
    with pytest.raises(ModelError, match=r"0 is not a code of off, heat, cool \(1, 4, -2\)"):
        HEAT.value(0)
    with pytest.raises(ModelError, match="'hot' is not one of off, heat, cool"):
        HEAT.value("hot")


@pytest.mark.parametrize(
    ("items", "codes", "message"),
    [
        (("a", "b"), (1,), "port 'p': there are 2 labels, but 1 codes"),
        ((), (1,), "there are 0 labels, but 1 codes"),
        (("a", "b"), (3, 3), "port 'p': the codes of items must differ from each other: 3, 3"),
        (("a", "a"), (), "items must differ from each other: a, a"),
        (("a",), (1.5,), "whole number"),
        (("a",), (True,), "whole number"),
        (("a",), (2**63,), "64 bits"),
    ],
)
def test_codes_that_do_not_fit(items: tuple[str, ...], codes: tuple[int, ...], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Port("p", Causality.INPUT, Kind.INTEGER, items=items, codes=codes)


def test_labels_are_values() -> None:
    labels = Labels(("off", "heat"), (1, 4))
    assert labels == Labels(("off", "heat"), (1, 4)) != Labels(("off", "heat"))
    assert labels != ("off", "heat")
    assert Labels(("off", "heat")) == ("off", "heat")
    assert Labels(("off", "heat")) == ("off", "heat")
    assert hash(labels) == hash(("off", "heat"))
    assert pickle.loads(pickle.dumps(labels)).codes == (1, 4)
    assert Labels(labels).codes == (1, 4)
    assert (labels.label(4), labels.label(0)) == ("heat", None)
    assert (str(labels), str(Labels(labels, (0, 1)))) == ("off = 1, heat = 4", "off, heat")


def test_shorthand_has_a_table_of_codes() -> None:
    port = read_port("mode", {"items": {"off": 1, "heat": 4}, "start": "heat"}, Causality.INPUT)
    assert (port.items, port.codes, port.start) == (Labels(("off", "heat"), (1, 4)), (1, 4), (4,))
    assert port_spec(port) == {"start": "heat", "items": {"off": 1, "heat": 4}}
    assert read_port("mode", port_spec(port), Causality.INPUT) == port
    assert port_spec(read_port("mode", {"items": ["off"]}, Causality.INPUT)) == {"items": ["off"]}


def test_labels_in_expressions_are_their_codes() -> None:
    expr = parse("a.mode == 'cool'", enums={"a.mode": HEAT.items})
    assert expr == parse("a.mode == -2")
    assert parse("a.mode[1] != 'heat'", enums={"a.mode": HEAT.items}) == parse("a.mode[1] != 4")
    with pytest.raises(ExpressionError, match="'hot' is not one of its labels"):
        parse("a.mode == 'hot'", enums={"a.mode": HEAT.items})


def test_what_is_an_enumeration_for_certain() -> None:
    known = {"m": HEAT.items, "n": Labels(HEAT.items, (0, 1, 2))}
    for text, fits in {"m": True, "n": False, "4": True, "0": False, "m if m > 0 else 1": True}.items():
        assert labelled(parse(text), HEAT.items, lambda name: known.get(name, ())) is fits, text
    assert not labelled(parse("m > 0"), HEAT.items, lambda name: ()), "0 is no code"
    assert labelled(parse("m > 0"), ("a", "b"), lambda name: ())
    assert labelled(Number(-2.0), HEAT.items, lambda name: ())
