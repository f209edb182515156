// How hard a solver has worked. The twin of upbeat.units.solving.effort.
#pragma once

#include <cstdint>

namespace upbeat {

struct Effort {
  std::int64_t steps = 0;        // that stand
  std::int64_t rejected = 0;     // made again with a shorter length
  std::int64_t stops = 0;        // ended early, where an indicator changed its sign or an FMU asked for an event
  std::int64_t evaluations = 0;  // of the derivatives
};

}  // namespace upbeat
