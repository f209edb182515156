// The classes of the Python module that are units yet to be made: tables of equations, addresses, FMUs, Python's own.
#pragma once

#include <nanobind/nanobind.h>

namespace upbeat {

// Adds them to the module.
void bind_units(nanobind::module_& module);

}  // namespace upbeat
