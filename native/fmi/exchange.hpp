// An FMU for model exchange as a unit: it gives derivatives and indicators, one of our solvers integrates them and
// locates its events. The twin of upbeat.units.fmi.exchange, bit for bit.
#pragma once

#include "fmi/fmu.hpp"
#include "solver.hpp"

namespace upbeat::fmi {

// What model exchange needs beyond the tables of an instance. Inputs that wait for event mode are `discrete`.
struct ExchangeTables : FmuTables {
  std::size_t states = 0;
  std::size_t indicators = 0;
  bool completes = true;            // it wants to know of each accepted step
  std::vector<double> input_start;  // of the real inputs, cell by cell, in the order of the ports
  std::vector<std::int64_t> held_start;  // of the other inputs
  SolverTables solver;
  // The number of the first port that shows an indicator: each has two, one that falls where it does and one where it
  // rises. -1: nobody looks at them.
  std::int32_t shown = -1;
};

// Why no unit can be made from these tables, or an empty text.
std::string problem_in(const ExchangeTables& tables);

// The unit as the engine enters it. The table owns the FMU's instance from now on: `destroy` terminates and frees
// it. The tables must be sound (see `problem_in`).
upbeat_unit make_exchange(const ExchangeTables& tables);

}  // namespace upbeat::fmi
