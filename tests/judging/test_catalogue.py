"""The references of the problems in reproduce/problems/catalogue.py against what others found for them."""

from __future__ import annotations

import numpy as np
from problems import catalogue

FACTS = {
    "masses": (0.540727037, 1.659957243, 4.631695285, 5.289556203),
    "ceiling": (4.900693539,),
}


def test_events_of_the_two_masses_are_those_of_the_matrix_exponential():
    events = catalogue.two_masses().events
    for name, times in FACTS.items():
        np.testing.assert_allclose(events[name], times, atol=2e-9)


def test_switches_of_the_thermostat_are_the_printed_ones():
    (times,) = catalogue.thermostat().events.values()
    np.testing.assert_allclose(times[:4], (1.05361, 2.05444, 4.06115, 5.06198), atol=5e-6)


def test_runs_start_where_the_references_do_and_come_closer_with_shorter_steps():
    for case in catalogue.cases().values():
        if case.kind in ("aliasing", "chaotic"):
            continue
        errors = []
        for step in (case.step, case.step / 4):
            trace = case.with_step(step).run().one_sided()  # references know the values after jumps
            true = case.reference(trace.time)
            if errors == []:
                assert all(abs(trace[name][0] - true[name][0]) < 1e-12 for name in true), case.name
            errors.append(max(np.abs(trace[name] - true[name]).max() for name in true))
        assert errors[1] < 0.4 * errors[0] or errors[1] < 1e-9, (case.name, errors)
