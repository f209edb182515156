// An FMU for co-simulation as a unit. The twin of upbeat.units.fmi.cosimulation.
#pragma once

#include "fmi/fmu.hpp"

namespace upbeat::fmi {

// The unit as the engine enters it. The table owns the FMU's instance from now on: `destroy` terminates and frees
// it. The tables must be sound (see `problem_in`).
upbeat_unit make_cosimulation(const FmuTables& tables);

}  // namespace upbeat::fmi
