"""FMUs and SSPs: archives that cannot be trusted, wrong values, crashes and hangs."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

from tools.evidence.bad.case import Case

DESCRIPTION = """<?xml version="1.0"?>
<fmiModelDescription fmiVersion="2.0" modelName="a" guid="{1}">
<CoSimulation modelIdentifier="a"/>
<ModelVariables>
<ScalarVariable name="y" valueReference="0" causality="output"><Real/></ScalarVariable>
</ModelVariables>
<ModelStructure><Outputs><Unknown index="1"/></Outputs></ModelStructure>
</fmiModelDescription>
"""
BOMB = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x "xxxxxxxxxx"><!ENTITY y "&x;&x;&x;">]><a>&y;</a>'


def _packed(**files: str) -> Callable[[Path], None]:
    """An archive ``a.fmu`` with these texts; a name has / for every ``__``."""

    def prepare(folder: Path) -> None:
        with zipfile.ZipFile(folder / "a.fmu", "w") as archive:
            for name, text in files.items():
                archive.writestr(name.replace("__", "/").replace("_", "."), text)

    return prepare


def _climbing(folder: Path) -> None:
    with zipfile.ZipFile(folder / "a.fmu", "w") as archive:
        archive.writestr("modelDescription.xml", DESCRIPTION)
        archive.writestr("../../evil.txt", "out")


def _linked(folder: Path) -> None:
    with zipfile.ZipFile(folder / "a.fmu", "w") as archive:
        archive.writestr("modelDescription.xml", DESCRIPTION)
        link = zipfile.ZipInfo("resources/secret")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")


def _huge(folder: Path) -> None:
    with zipfile.ZipFile(folder / "a.fmu", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("modelDescription.xml", DESCRIPTION)
        archive.writestr("resources/zeros.bin", bytes(200_000_000))


GAIN = (("gain.fmu", "gain", 2),)

CASES = (
    Case("an FMU that does not exist", ("run", "gone.fmu"), ("gone.fmu", "no such file")),
    Case("an FMU that is no archive", ("run", "a.fmu"), ("a.fmu", "zip"), files={"a.fmu": b"nothing"}),
    Case(
        "an archive without a description",
        ("run", "a.fmu"),
        ("a.fmu", "modelDescription.xml"),
        prepare=_packed(readme_txt="hello"),
    ),
    Case(
        "an archive that writes outside of its folder",
        ("run", "a.fmu"),
        ("a.fmu", "../../evil.txt"),
        prepare=_climbing,
    ),
    Case("an archive with a link", ("run", "a.fmu"), ("a.fmu", "resources/secret", "link"), prepare=_linked),
    Case("an archive of 200 kB that holds 200 MB", ("run", "a.fmu"), ("a.fmu", "zeros.bin"), prepare=_huge),
    Case(
        "a description with entities",
        ("run", "a.fmu"),
        ("a.fmu",),
        prepare=_packed(modelDescription_xml=BOMB),
    ),
    Case(
        "an FMU without a library for this machine",
        ("run", "a.fmu", "--until", "1"),
        ("unit 'a'", "no library for this machine"),
        exit=4,
        prepare=_packed(modelDescription_xml=DESCRIPTION),
    ),
    Case(
        "a variable that does not exist",
        ("run", "gain.fmu", "--set", "gain.gian=3"),
        ("--set gain.gian", "gain"),
        fmus=GAIN,
    ),
    Case(
        "a connection that does not exist",
        ("run", "gain.fmu", "--connect", "gain.v=gain.y"),
        ("--connect", "gain.v", "u"),
        fmus=GAIN,
    ),
    Case(
        "options for FMUs with a scenario file",
        ("run", "s.toml", "--connect", "a.u=b.y"),
        ("--connect is for FMUs",),
        exit=2,
        files={"s.toml": '[units.a]\nstates = { x = "1" }\n[master]\nstep = 0.1\n[run]\nuntil = 1\n'},
    ),
    Case(
        "an FMU that crashes, in a process of its own",
        ("run", "crash.fmu", "--isolation", "process", "--out", "r.csv"),
        ("unit 'crash'", "signal 11", "the results so far are in r.csv"),
        exit=4,
        fmus=(("crash.fmu", "crash", 2),),
        kept="r.csv",
    ),
    Case(
        "an FMU that hangs, in a process of its own",
        ("run", "hang.fmu", "--isolation", "process", "--deadline", "1", "--out", "r.csv"),
        ("unit 'hang'", "no answer within 1 s", "the results so far are in r.csv"),
        exit=4,
        fmus=(("hang.fmu", "hang", 2),),
        kept="r.csv",
    ),
    Case(
        "an FMU that cannot go back as it says it can",
        (
            "python",
            'liar = up.Scenario({"liar": up.Fmu("liar.fmu")})\n'
            "up.simulate(liar, step=0.01, until=0.1, coupling=up.Iterated())",
        ),
        ("liar",),
        fmus=(("liar.fmu", "forget", 2),),
    ),
    Case("an SSP that is no archive", ("run", "a.ssp"), ("a.ssp",), files={"a.ssp": b"nothing"}),
    Case(
        "an export of units that are no FMUs",
        ("export", "s.toml", "out.ssp"),
        ("units › a", "SSP knows FMUs only"),
        files={"s.toml": '[units.a]\nstates = { x = "1" }\n[master]\nstep = 0.1\n[run]\nuntil = 1\n'},
    ),
)
