// How much work a solver has done. The same as SolverStatistics of upbeat.units.solving.integrate.
#pragma once

#include <cstdint>

namespace upbeat {

struct SolverStatistics {
  std::int64_t steps = 0;        // that stand
  std::int64_t rejected = 0;     // made again with a shorter length
  std::int64_t stops = 0;        // ended early, where an indicator changed its sign or an FMU asked for an event
  std::int64_t evaluations = 0;  // of the derivatives

  // That of two solvers of one unit.
  SolverStatistics& operator+=(const SolverStatistics& other) {
    steps += other.steps;
    rejected += other.rejected;
    stops += other.stops;
    evaluations += other.evaluations;
    return *this;
  }
};

}  // namespace upbeat
