// A nested scenario as Python hands it over: tables, the units inside, and what gives its numbers their names.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "nested.hpp"
#include "read.hpp"

namespace upbeat {

inline void require_pace(const ProgramTables& program) {
  if (program.pace.limit < 0) throw std::invalid_argument("this program does not say how far its steps go");
}

// Lives until a machine takes over the units inside.
struct Inner {
  ProgramTables program;
  std::vector<std::string> strings;
  NestedTables tables;
  nb::list units;
  nb::object names;

  Inner(nb::handle given, const std::vector<Kernel>& kernels, nb::list entered,
        const std::vector<std::tuple<std::int32_t, std::int32_t, std::int32_t>>& ports, nb::object named)
      : program(read_program(given, kernels)),
        strings(nb::cast<std::vector<std::string>>(given.attr("strings"))),
        units(std::move(entered)),
        names(std::move(named)) {
    require(upbeat::problem_in(program, units.size()));
    for (const auto& [unit, place, cells] : ports) tables.ports.push_back({unit, place, cells});
    tables.units = nb::cast<std::vector<std::string>>(given.attr("units"));
    tables.exchange = nb::cast<std::int32_t>(given.attr("blocks")["exchange"]);
    tables.takes_inputs = nb::cast<bool>(given.attr("takes_inputs"));
    require(problem_in(tables, program, units.size()));
    require_pace(program);
  }

  // The unit, once those inside have been entered. Its texts become texts of the whole run.
  upbeat_unit made(std::vector<upbeat_unit> entered, Strings& pool, double start) const {
    ProgramTables own = program;
    for (std::size_t i = 0; i < own.start.size(); ++i) {
      if (own.kinds[i] == Kind::String) own.start[i].i = pool.intern(strings.at(static_cast<std::size_t>(own.start[i].i)));
    }
    auto machine = std::make_unique<Machine>(std::move(own), std::move(entered), start);
    return Nested::make(std::move(machine), tables, start, &pool);
  }

  void close() {
    for (const nb::handle unit : units) {
      if (nb::hasattr(unit, "close")) unit.attr("close")();
    }
  }
};

}  // namespace upbeat
