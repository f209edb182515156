"""Descriptions written by hand: everything in them arrives, everything wrong with them is reported."""

from __future__ import annotations

import struct

import pytest

import fmu_texts
from upbeat.core.errors import InvalidInput, ModelError
from upbeat.units.fmi.description import (
    BaseUnit,
    Causality,
    ClockInterval,
    DefaultExperiment,
    DependencyKind,
    Dimension,
    DisplayUnit,
    Initial,
    IntervalVariability,
    Item,
    ModelDescription,
    Type,
    Unknown,
    Variability,
    parse_description,
)

DEPENDENT, CONSTANT = DependencyKind.DEPENDENT, DependencyKind.CONSTANT


def read(text: str) -> ModelDescription:
    return parse_description(text.encode())


@pytest.fixture(scope="module")
def two() -> ModelDescription:
    return read(fmu_texts.FMI2)


@pytest.fixture(scope="module")
def three() -> ModelDescription:
    return read(fmu_texts.FMI3)


def test_nothing_is_wrong_with_them(two: ModelDescription, three: ModelDescription) -> None:
    assert two.warnings == ()
    assert three.warnings == ()


def test_head(two: ModelDescription, three: ModelDescription) -> None:
    assert (two.version, two.written_version, two.name, two.token) == (2, "2.0", "Tank", "{8c4e}")
    assert (two.description, two.author, two.model_version) == ("a tank", "A. Person", "1.2")
    assert (two.copyright, two.license, two.tool) == ("none", "free", "by hand")
    assert two.date == "2024-01-01T00:00:00Z"
    assert two.structured_names
    assert two.event_indicator_count == 2
    assert two.experiment == DefaultExperiment(0.5, 10.0, 1e-6, 0.01)
    assert two.log_categories == (("logEvents", ""), ("logAll", "everything"))
    assert (three.version, three.written_version, three.token) == (3, "3.0.2", "{42}")
    assert three.experiment == DefaultExperiment()
    assert three.event_indicator_count == 2  # one array of two


def test_abilities_of_fmi_2(two: ModelDescription) -> None:
    cs, me = two.co_simulation, two.model_exchange
    assert cs is not None
    assert me is not None
    assert (cs.model_identifier, me.model_identifier) == ("tank", "tank_me")
    assert (cs.saves_state, cs.serialises_state) == (True, True)
    assert (me.saves_state, me.serialises_state) == (True, False)
    assert cs.variable_step
    assert cs.interpolates_inputs
    assert cs.asynchronous
    assert cs.only_once_per_process
    assert cs.without_memory_functions
    assert cs.needs_execution_tool
    assert cs.output_derivative_order == 2
    assert cs.source_files == ("tank.c", "more.c")
    assert not cs.directional_derivatives
    assert me.directional_derivatives
    assert not me.completed_integrator_step
    assert two.scheduled_execution is None


def test_abilities_of_fmi_3(three: ModelDescription) -> None:
    cs, me, se = three.co_simulation, three.model_exchange, three.scheduled_execution
    assert cs is not None
    assert me is not None
    assert se is not None
    assert se.model_identifier == "all_se"
    assert me.completed_integrator_step
    assert me.evaluates_discrete_states
    assert not me.saves_state
    assert (cs.fixed_internal_step, cs.output_derivative_order, cs.input_smoothness) == (0.001, 1, -1)
    flags = ("saves_state", "serialises_state", "variable_step", "intermediate_update", "may_return_early")
    flags += ("early_return_on_demand", "event_mode", "directional_derivatives", "adjoint_derivatives")
    flags += ("per_element_dependencies", "evaluates_discrete_states")
    assert [flag for flag in flags if not getattr(cs, flag)] == []
    assert not cs.interpolates_inputs


def test_units_and_types(two: ModelDescription, three: ModelDescription) -> None:
    flow, bar, celsius = two.units
    assert flow.base == BaseUnit((("m", 3), ("s", -1)))
    assert bar.base == BaseUnit((("kg", 1), ("m", -1), ("s", -2)), 1e5)
    assert bar.display == (DisplayUnit("psi", 14.5037738),)
    assert celsius.base == BaseUnit((("K", 1),), 1.0, 273.15)
    assert three.units[0].display == (DisplayUnit("l/km", inverse=True),)
    pressure, mode = two.types
    assert (pressure.type, pressure.description) == (Type.FLOAT64, "absolute")
    assert mode.items == (Item("off", 1), Item("on", 3, "runs"))
    assert {t.name: t.type for t in three.types} == {
        "Economy": Type.FLOAT64,
        "Gear": Type.ENUMERATION,
        "Fast": Type.CLOCK,
        "Blob": Type.BINARY,
    }


def test_a_variable_inherits_from_its_type(two: ModelDescription, three: ModelDescription) -> None:
    p = two.by_name["p"].properties
    assert (p.quantity, p.unit, p.display_unit) == ("Pressure", "bar", "psi")
    assert (p.min, p.max, p.nominal) == (0.0, 100.0, 10.0)
    assert two.by_name["mode"].items[1].name == "on"
    v = three.by_name["v"].properties
    assert (v.unit, v.relative) == ("km/l", True)
    blob = three.by_name["bin"].properties
    assert (blob.mime_type, blob.max_size) == ("image/png", 100)


def test_variables_of_fmi_2(two: ModelDescription) -> None:
    level = two.by_name["level"]
    assert (level.type, level.reference, level.causality) == (Type.FLOAT64, 2, Causality.OUTPUT)
    assert (level.variability, level.initial, level.start) == (Variability.CONTINUOUS, Initial.EXACT, (1.0,))
    assert level.reinit
    assert two.by_name["der(level)"].derivative_of == "level"
    assert two.states == ("level",)
    assert not two.by_name["inflow"].multiple_set_per_instant
    assert two.by_name["label"].start == ("a & b",)
    assert two.by_name["count"].start == (-7,)
    assert two.by_name["time"].initial is None
    full = two.by_name["full"]
    assert (full.type, full.initial, full.start) == (Type.BOOLEAN, Initial.CALCULATED, None)


def test_aliases(two: ModelDescription, three: ModelDescription) -> None:
    assert [v.name for v in two.variables if v.alias_of] == ["height"]
    assert two.by_name["height"].alias_of == "level"
    assert two.by_name["count"].alias_of is None, "the same number, but another type"
    assert two.by_name["mode"].alias_of is None
    pos, speed = three.by_name["pos"], three.by_name["speed"]
    assert (pos.alias_of, pos.description, pos.reference) == ("x", "the same", 18)
    assert (speed.alias_of, speed.properties.display_unit) == ("v", "l/km")


def test_start_values_of_every_type(three: ModelDescription) -> None:
    starts = {v.name: v.start for v in three.variables}
    single = struct.unpack("f", struct.pack("f", 0.1))[0]
    assert starts["A"] == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    assert starts["f"] == (single,) * 3
    bits = {"i8": -(2**7), "u8": 2**8 - 1, "i16": -(2**15), "u16": 2**16 - 1}
    bits |= {"i32": -(2**31), "u32": 2**32 - 1, "i64": -(2**63), "u64": 2**64 - 1}
    assert {name: starts[name] for name in bits} == {name: (value,) for name, value in bits.items()}
    assert starts["b"] == (True, False)
    assert starts["s"] == ("one two", "")
    assert starts["bin"] == (b"\x00\xff\xa1",)
    assert starts["gear"] == (-1,)
    assert starts["tick"] is None


def test_arrays(three: ModelDescription) -> None:
    a = three.by_name["A"]
    assert a.dimensions == (Dimension(parameter="n"), Dimension(size=2))
    assert (a.shape, a.cells) == ((3, 2), 6)
    assert three.by_name["x"].shape == ()
    assert three.by_name["x"].cells == 1


def test_clocks(three: ModelDescription) -> None:
    tick = three.by_name["tick"].properties.clock
    assert tick == ClockInterval(IntervalVariability.CONSTANT, 0.01, 0.5, can_be_deactivated=True, priority=2)
    hit = three.by_name["hit"].properties.clock
    assert hit == ClockInterval(IntervalVariability.TRIGGERED)
    fraction = three.by_name["frac"].properties.clock
    assert fraction == ClockInterval(IntervalVariability.FIXED, None, 0.0, True, 1000, 10, 1)
    z = three.by_name["z"]
    assert (z.clocks, z.previous) == (("tick", "hit"), "z_old")


def test_structure(two: ModelDescription, three: ModelDescription) -> None:
    assert two.structure.outputs == (
        Unknown("level", ()),
        Unknown("count", None),
        Unknown("full", (("inflow", DependencyKind.DISCRETE), ("level", DEPENDENT))),
    )
    assert two.structure.derivatives == (Unknown("der(level)", (("inflow", CONSTANT),)),)
    assert two.structure.initial_unknowns[1] == Unknown(
        "der(level)", (("inflow", DEPENDENT), ("p", DEPENDENT))
    )
    assert three.structure.outputs[0] == Unknown("v", (("x", CONSTANT), ("f", DEPENDENT)))
    assert three.structure.clocked_states == (Unknown("z"),)
    assert three.structure.event_indicators == (Unknown("ind", (("x", DEPENDENT),)),)
    assert three.states == ("x",)


# ------------------------------------------------------------------------------------- what is wrong

ERRORS = [
    (2, 'guid="{8c4e}"', "", "'guid' is missing"),
    (2, 'fmiVersion="2.0"', 'fmiVersion="1.0"', "FMI 1.0"),
    (2, 'fmiVersion="2.0"', "", "does not say its FMI version"),
    (2, "<Real derivative=", "<Reel derivative=", "of what kind"),
    (2, 'derivative="3"', 'derivative="33"', "there is no variable number 33"),
    (2, 'derivative="3"', 'derivative="8"', "both must be real"),
    (2, 'derivative="3"', "", "of which state"),
    (2, 'start="-7"', 'start="1.5"', "'1.5' is not an integer"),
    (2, 'start="-7"', 'start="2147483648"', "is not between"),
    (2, 'start="0.25"', 'start="1_0"', "'1_0' is not a number"),
    (2, 'name="count"', 'name="level"', "two variables of this name"),
    (2, 'valueReference="9"', 'valueReference="-1"', "is not between"),
    (2, 'valueReference="9"', "", "'valueReference' is missing"),
    (2, 'declaredType="Mode" ', 'declaredType="Pressure" ', "is Float64, not Enumeration"),
    (2, 'causality="input"', 'causality="imput"', "Did you mean 'input'"),
    (2, 'causality="input"', 'causality="structuralParameter"', "FMI 2 has no structural"),
    (2, 'index="7"', 'index="0"', "there is no variable number 0"),
    (2, 'index="7"', "", "'index' is missing"),
    (2, 'dependencies="2 3"', 'dependencies="2"', "1 dependencies, but 2 kinds"),
    (2, "discrete dependent", "discrete whatever", "'whatever' is not one of"),
    (2, 'modelIdentifier="tank"', 'modelIdentifier="../tank"', "cannot be the name of a library"),
    (2, 'modelIdentifier="tank"', "", "'modelIdentifier' is missing"),
    (2, 'canSerializeFMUstate="true"', 'canSerializeFMUstate="maybe"', "neither true nor false"),
    (2, 'factor="1e5"', 'factor="0"', "converts nothing"),
    (2, '<Item name="off" value="1"/>', '<Item name="off"/>', "an item has no value"),
    (2, 'stopTime="10"', 'stopTime="INF"', "not a finite number"),
    (3, 'instantiationToken="{42}"', "", "'instantiationToken' is missing"),
    (3, 'valueReference="22"', 'valueReference="18"', "the value reference 18 of 'x'"),
    (3, 'start="1 2 3 4 5 6"', 'start="1 2 3"', "6 cells cannot have 3 start values"),
    (3, 'start="-128"', 'start="-129"', "is not between -128 and 127"),
    (3, 'start="-128"', 'start="1 2"', "a scalar has one start value, not 2"),
    (3, 'start="0.1 0.1 0.1"', 'start="1e39"', "too large for 32 bits"),
    (3, 'value="00ffA1"', 'value="0x"', "hexadecimal"),
    (3, '<Dimension start="2"/></Float64>', "<Dimension/></Float64>", "either a start or a valueReference"),
    (3, '<Dimension valueReference="1"/>', '<Dimension valueReference="8"/>', "not a structural"),
    (3, '<Dimension start="2"/></Float64>', '<Dimension start="99999999"/></Float64>', "at most 100,000"),
    (3, 'clocks="16 17"', 'clocks="16 18"', "'x' is not a clock"),
    (3, 'clocks="16 17"', 'clocks="16 99"', "value reference 99"),
    (3, 'intervalVariability="triggered"', "", "a clock needs intervalVariability"),
    (3, 'intervalDecimal="0.01"', "", "interval of a constant clock is missing"),
    (3, 'intervalDecimal="0.01"', 'intervalDecimal="-1"', "positive"),
    (3, 'resolution="1000"', "", "needs a resolution"),
    (3, 'Alias name="pos"', 'Alias name="z"', "'z' is not a new name"),
    (3, 'valueReference="17" causality="output"', 'valueReference="17" causality="parameter"',
     "a clock is an input, an output or local"),
]  # fmt: skip


@pytest.mark.parametrize(("version", "old", "new", "message"), ERRORS)
def test_errors(version: int, old: str, new: str, message: str) -> None:
    text = fmu_texts.FMI2 if version == 2 else fmu_texts.FMI3
    assert old in text
    with pytest.raises(ModelError) as caught:
        read(text.replace(old, new, 1))
    assert message in str(caught.value)


# Against the standard, but the FMU can be run: `upbeat check` refuses it, a run warns.
VIOLATIONS = [
    (2, 'declaredType="Mode" ', 'declaredType="Mood" ', "'Mood' is not defined"),
    (2, 'declaredType="Mode" ', "", "needs a declaredType"),
    (2, 'variability="tunable"', 'variability="discrete"', "exclude each other"),
    (2, 'initial="approx"', 'initial="exact"', "it can be 'calculated' or 'approx'"),
    (2, 'Integer start="-7"', "Integer", "a start value is missing"),
    (3, 'name="i8"', 'name="i8" variability="continuous"', "only real variables"),
]


@pytest.mark.parametrize(("version", "old", "new", "message"), VIOLATIONS)
def test_violations(version: int, old: str, new: str, message: str) -> None:
    text = fmu_texts.FMI2 if version == 2 else fmu_texts.FMI3
    assert old in text
    assert not read(text).violations
    found = read(text.replace(old, new, 1)).violations
    assert message in str(found[0])
    assert found[0].line > 0


def test_all_errors_come_together_with_their_lines() -> None:
    text = fmu_texts.FMI2.replace('start="-7"', 'start="x"').replace('index="7"', 'index="70"')
    with pytest.raises(ModelError) as caught:
        read(text)
    assert len(caught.value.complaints) == 2
    line = next(n for n, row in enumerate(text.splitlines(), 1) if 'name="count"' in row)
    assert f"line {line}: variable 'count': start: 'x' is not an integer" in str(caught.value)
    assert "modelDescription.xml: 2 problems" in str(caught.value)


WARNINGS = [
    (2, 'modelName="Tank"', "", "'modelName' is missing"),
    (2, 'fmiVersion="2.0"', 'fmiVersion="2.0.4"', "is read as FMI 2.0"),
    (3, 'fmiVersion="3.0.2"', 'fmiVersion="3.1-beta"', "is read as FMI 3.0"),
    (2, 'start="0.25"', "", "an input needs a start value"),
    (2, "<Boolean/>", '<Boolean start="true"/>', "has no start value: ignored"),
    (2, 'variability="tunable"', "", "taken as fixed"),
    (2, 'variability="discrete"><Boolean', 'variability="continuous"><Boolean',
     "taken as discrete"),
    (2, 'unit="m3/s" start', 'unit="gal" start', "the unit 'gal' is not defined"),
    (2, 'displayUnit="psi"', 'displayUnit="kPa"', "the display unit 'kPa' is not defined"),
    (2, '<Unknown index="7"/>', "", "not in ModelStructure"),
    (2, '<Unknown index="7"/>', '<Unknown index="7"/><Unknown index="7"/>', "listed twice"),
    (2, '<Unknown index="7"/>', '<Unknown index="7"/><Unknown index="5"/>', "but is none"),
    (2, 'min="0" max="5"', 'min="2" max="5"', "below min"),
    (2, 'min="0" max="5"', 'min="7" max="5"', "both are ignored"),
    (2, 'nominal="10"', 'nominal="0"', "says nothing"),
    (2, 'stopTime="10"', 'stopTime="0"', "not after the start"),
    (2, 'canInterpolateInputs="true"', 'canInterpolateInputs="True"', "small letters"),
    (2, 'modelIdentifier="tank"', 'modelIdentifier="tank-2"', "not an identifier"),
    (2, 'declaredType="Mode" start="3"', 'declaredType="Mode" start="2"', "not one of"),
    (2, '<Item name="off" value="1"/>', '<Item name="off" value="3"/>', "same value"),
    (2, 'causality="input"', 'causality="input" initial="exact"', "no 'initial' for an input"),
    (3, 'start="3"', 'start="0"', "should start above 0"),
]  # fmt: skip


@pytest.mark.parametrize(("version", "old", "new", "message"), WARNINGS)
def test_sloppiness_is_tolerated(version: int, old: str, new: str, message: str) -> None:
    text = fmu_texts.FMI2 if version == 2 else fmu_texts.FMI3
    assert old in text
    text = text.replace(old, new, 1)
    if new == 'start="0"':
        text = text.replace('start="1 2 3 4 5 6"', 'start="1"').replace('start="0.1 0.1 0.1"', 'start="1"')
    warnings = [str(note) for note in read(text).warnings]
    assert [note for note in warnings if message in note], warnings


def test_what_nobody_knows_is_passed_over() -> None:
    text = fmu_texts.FMI3.replace("<ModelVariables>", '<ModelVariables><Complex128 name="i" strange="1"/>')
    text = text.replace('modelName="All"', 'modelName="All" xmlns:t="urn:t" t:extra="1" other="2"')
    text = text.replace("<ModelStructure>", "<t:Thing/><ModelStructure>")
    assert read(text) == read(fmu_texts.FMI3)


def test_a_small_one_is_enough() -> None:
    found = read('<fmiModelDescription fmiVersion="2.0" guid=""><CoSimulation modelIdentifier="m"/>'
                 "</fmiModelDescription>")  # fmt: skip
    assert found.variables == ()
    assert [note.what for note in found.warnings] == [
        "the attribute 'modelName' is missing",
        "ModelVariables is missing",
        "ModelStructure is missing: every output may depend on every input",
    ]


def test_it_must_be_runnable_and_a_description() -> None:
    with pytest.raises(ModelError, match="neither CoSimulation nor ModelExchange"):
        read('<fmiModelDescription fmiVersion="3.0" instantiationToken="t"/>')
    with pytest.raises(InvalidInput, match="not a model description: it begins with <svg>"):
        read("<svg/>")


def test_a_flood_of_warnings_is_cut() -> None:
    many = "".join(
        f'<ScalarVariable name="u{n}" valueReference="{n}" causality="input"><Real/></ScalarVariable>'
        for n in range(600)
    )
    found = read(
        '<fmiModelDescription fmiVersion="2.0" modelName="m" guid=""><CoSimulation modelIdentifier="m"/>'
        f"<ModelVariables>{many}</ModelVariables><ModelStructure/></fmiModelDescription>"
    )
    assert len(found.warnings) == 501
    assert found.warnings[-1].what == "… and 100 warnings more"
