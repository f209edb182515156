// Small kernels, units and programs for the tests.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "machine.hpp"
#include "ode.hpp"
#include "upbeat/opcodes.h"

namespace upbeat {

// A kernel whose work array is [inputs | constants | one temporary per row].
inline KernelTables kernel_of(std::int32_t inputs, std::vector<double> constants, std::vector<Operation> code,
                              std::vector<std::int32_t> results) {
  KernelTables kernel;
  kernel.inputs = inputs;
  kernel.size = inputs + static_cast<std::int32_t>(constants.size() + code.size());
  kernel.constants = std::move(constants);
  kernel.code = std::move(code);
  kernel.results = std::move(results);
  return kernel;
}

inline std::shared_ptr<const KernelTables> shared(KernelTables kernel) {
  return std::make_shared<const KernelTables>(std::move(kernel));
}

// A unit in plain C style: y = u after the next advance, with a counter of what was called.
struct Echo {
  double u = 1.0;
  double y = 0.0;
  double time = 0.0;
  double early_at = 1e300;
  int fail_after = -1;
  int jumps = 0;
  int destroyed = 0;
  struct {
    double u, y, time;
  } kept[4] = {};

  upbeat_unit table() {
    upbeat_unit unit{};
    unit.size = sizeof unit;
    unit.self = this;
    unit.get = [](void* self, int, Cell* to) {
      to->r = static_cast<Echo*>(self)->y;
      return 0;
    };
    unit.set = [](void* self, int, const Cell* from, int count) {
      auto& echo = *static_cast<Echo*>(self);
      echo.u = from[0].r;
      for (int k = 1; k < count; ++k) echo.u += 1000.0 * k * from[k].r;
      return 0;
    };
    unit.advance = [](void* self, double, double to, int early, double* reached) {
      auto& echo = *static_cast<Echo*>(self);
      if (echo.fail_after == 0) return 7;
      --echo.fail_after;
      echo.y = echo.u;
      if (early && echo.early_at < to) *reached = echo.early_at;
      echo.time = *reached;
      return 0;
    };
    unit.jump = [](void* self, int* again) {
      *again = --static_cast<Echo*>(self)->jumps > 0;
      return 0;
    };
    unit.save = [](void* self, int slot) {
      auto& echo = *static_cast<Echo*>(self);
      echo.kept[slot] = {echo.u, echo.y, echo.time};
      return 0;
    };
    unit.restore = [](void* self, int slot) {
      auto& echo = *static_cast<Echo*>(self);
      echo.u = echo.kept[slot].u;
      echo.y = echo.kept[slot].y;
      echo.time = echo.kept[slot].time;
      return 0;
    };
    unit.message = [](void*) -> const char* { return "it broke"; };
    unit.destroy = [](void* self) { ++static_cast<Echo*>(self)->destroyed; };
    return unit;
  }
};

inline Row row(Op op, std::vector<std::int32_t> operands = {}) {
  Row made{};
  made[0] = static_cast<std::int32_t>(op);
  for (std::size_t i = 0; i < operands.size(); ++i) made[i + 1] = operands[i];
  return made;
}

// Cells 0 (now) and 1 (next), then `more` real ones at 0.
inline ProgramTables program_of(std::size_t more, std::vector<Row> code) {
  ProgramTables tables;
  tables.start.assign(2 + more, real(0.0));
  tables.kinds.assign(2 + more, Kind::Real);
  tables.code = std::move(code);
  tables.code.push_back(row(Op::End));
  tables.entries = {0};
  tables.now = 0;
  tables.next = 1;
  return tables;
}

// The same with a pace: its cells come last, and its block `propose`. What else it has is up to the caller.
inline ProgramTables paced(ProgramTables tables, const std::vector<Row>& propose) {
  PaceTables& pace = tables.pace;
  const auto cell = [&tables] {
    tables.start.push_back(real(0.0));
    tables.kinds.push_back(Kind::Real);
    return static_cast<std::int32_t>(tables.start.size() - 1);
  };
  for (std::int32_t* const to : {&pace.limit, &pace.until, &pace.block, &pace.again, &pace.fired, &pace.reason}) *to = cell();
  for (int i = 0; i < 3; ++i) cell();
  pace.steps = {0};
  pace.reasons = {{false, 0, false}, {false, 0, false}};
  pace.propose = static_cast<std::int32_t>(tables.entries.size());
  tables.entries.push_back(static_cast<std::int32_t>(tables.code.size()));
  tables.code.insert(tables.code.end(), propose.begin(), propose.end());
  tables.code.push_back(row(Op::End));
  return tables;
}

// Steps of one size on the grid from `origin` on.
inline ProgramTables on_grid(ProgramTables tables, double step, double origin = 0.0) {
  const auto grid = static_cast<std::int32_t>(tables.start.size());
  for (const double number : {origin, step, 0.0, 0.0, std::nan("")}) {
    tables.start.push_back(real(number));
    tables.kinds.push_back(Kind::Real);
  }
  const std::int32_t limit = grid + 5;  // the first of the cells that come now
  return paced(std::move(tables), {row(Op::Grid, {grid, 0, limit, limit + 1})});
}

// Cells computed by a kernel; its number among the expressions of the program.
inline std::int32_t add_expression(ProgramTables& tables, KernelTables kernel, std::vector<std::int32_t> from, std::vector<std::int32_t> to) {
  tables.kernels.push_back(std::move(kernel));
  tables.expressions.push_back({static_cast<std::int32_t>(tables.kernels.size() - 1), std::move(from), std::move(to)});
  return static_cast<std::int32_t>(tables.expressions.size() - 1);
}

}  // namespace upbeat
