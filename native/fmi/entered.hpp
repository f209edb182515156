// What the units of FMUs have in common on their way into the engine.
#pragma once

#include <algorithm>
#include <vector>

#include "calls.hpp"
#include "fmi/fmu.hpp"

namespace upbeat::fmi {

// The derivatives of an output by an input: column by column, or row by row where there are only adjoint ones.
template <class F>
class Slopes {
 public:
  explicit Slopes(const FmuTables& tables)
      : adjoint_(tables.adjoint), seed_(widest_of(tables)), found_(widest_of(tables)) {}

  bool find(F& fmu, const Variable& output, const Variable& input, Cell* to) {
    const std::int32_t rows = output.cells;
    const std::int32_t columns = input.cells;
    for (std::int32_t k = 0; k < (adjoint_ ? rows : columns); ++k) {
      std::fill(seed_.begin(), seed_.end(), 0.0);
      seed_[static_cast<std::size_t>(k)] = 1.0;
      if (adjoint_) {
        if (!fmu.adjoint(output, input, seed_.data(), found_.data())) return false;
        std::transform(found_.begin(), found_.begin() + columns, to + k * columns, real);
      } else {
        if (!fmu.directional(output, input, seed_.data(), found_.data())) return false;
        for (std::int32_t i = 0; i < rows; ++i) to[i * columns + k].r = found_[static_cast<std::size_t>(i)];
      }
    }
    return true;
  }

 private:
  bool adjoint_;
  std::vector<double> seed_, found_;
};

// A new unit as the engine calls it; `events`: whether it has instants of its own.
template <class Unit, class Tables>
upbeat_unit entered(const Tables& tables, bool events) {
  upbeat_unit unit = Calls<Unit>::table(new Unit(tables));
  if (events) Calls<Unit>::has_events(unit);
  if (tables.saves) Calls<Unit>::goes_back(unit);
  if (tables.saves && tables.serialises) Calls<Unit>::packs(unit);
  unit.slope = Calls<Unit>::slope;
  unit.message = Calls<Unit>::message;
  return unit;
}

}  // namespace upbeat::fmi
