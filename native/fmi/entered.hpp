// What the units of FMUs have in common on their way into the engine.
#pragma once

#include <algorithm>
#include <vector>

#include "fmi/fmu.hpp"

namespace upbeat::fmi {

inline std::size_t widest_of(const FmuTables& tables) {
  std::size_t widest = 1;
  for (const PortTables& port : tables.ports) widest = std::max(widest, static_cast<std::size_t>(port.cells));
  return widest;
}

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
  upbeat_unit unit{};
  unit.size = sizeof unit;
  unit.self = new Unit(tables);
  unit.get = [](void* self, int port, Cell* to) { return static_cast<Unit*>(self)->get(port, to); };
  unit.set = [](void* self, int port, const Cell* coefficients, int count) {
    return static_cast<Unit*>(self)->set(port, coefficients, count);
  };
  unit.advance = [](void* self, double t, double to, int early, double* reached) {
    return static_cast<Unit*>(self)->advance(t, to, early, reached);
  };
  unit.message = [](void* self) { return static_cast<Unit*>(self)->message(); };
  unit.destroy = [](void* self) { delete static_cast<Unit*>(self); };
  unit.slope = [](void* self, int output, int input, Cell* to) { return static_cast<Unit*>(self)->slope(output, input, to); };
  if (events) {
    unit.jump = [](void* self, int* again) { return static_cast<Unit*>(self)->jump(again); };
    unit.due = [](void* self, double* time) { return static_cast<Unit*>(self)->due(time); };
  }
  if (tables.saves) {
    unit.save = [](void* self, int slot) { return static_cast<Unit*>(self)->save(slot); };
    unit.restore = [](void* self, int slot) { return static_cast<Unit*>(self)->restore(slot); };
  }
  if (tables.saves && tables.serialises) {
    unit.pack = [](void* self, int slot, void* to, std::uint64_t* size) { return static_cast<Unit*>(self)->pack(slot, to, size); };
    unit.unpack = [](void* self, int slot, const void* from, std::uint64_t size) {
      return static_cast<Unit*>(self)->unpack(slot, from, size);
    };
  }
  return unit;
}

}  // namespace upbeat::fmi
