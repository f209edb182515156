// A nested scenario as Python hands it over: tables, the units inside, and what gives its numbers their names.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nested.hpp"
#include "read.hpp"

namespace upbeat {

// A pace by its name, parameters and texts (see `make_pace`), with the numbers of the step blocks.
struct PaceTables {
  std::string name;
  std::vector<double> parameters;
  std::vector<std::string> texts;
  std::vector<std::int32_t> blocks;

  // For a program; checked against it.
  std::unique_ptr<Pace> made(const ProgramTables& program) const {
    for (const std::int32_t block : blocks) {
      if (block < 0 || static_cast<std::size_t>(block) >= program.entries.size()) {
        throw std::out_of_range("there is no such block");
      }
    }
    std::unique_ptr<Pace> pace = make_pace(name, parameters, blocks, texts);
    if (!pace) throw std::invalid_argument("there is no pace '" + name + "' with these parameters");
    if (pace->sees() >= static_cast<std::int64_t>(program.start.size())) throw std::out_of_range("there is no such cell");
    return pace;
  }
};

// Lives until a machine takes over the units inside.
struct Inner {
  ProgramTables program;
  std::vector<std::string> strings;
  PaceTables pace;
  NestedTables tables;
  nb::list units;
  nb::object names;

  Inner(nb::handle given, const std::vector<Kernel>& kernels, nb::list entered, PaceTables wanted,
        const std::vector<std::tuple<std::int32_t, std::int32_t, std::int32_t>>& ports, nb::object named)
      : program(read_program(given, kernels)),
        strings(nb::cast<std::vector<std::string>>(given.attr("strings"))),
        pace(std::move(wanted)),
        units(std::move(entered)),
        names(std::move(named)) {
    require(upbeat::problem_in(program, units.size()));
    for (const auto& [unit, place, cells] : ports) tables.ports.push_back({unit, place, cells});
    tables.units = nb::cast<std::vector<std::string>>(given.attr("units"));
    tables.exchange = nb::cast<std::int32_t>(given.attr("blocks")["exchange"]);
    require(problem_in(tables, program, units.size()));
    pace.made(program);
  }

  // The unit, once those inside have been entered. Its texts become texts of the whole run.
  upbeat_unit made(std::vector<upbeat_unit> entered, Strings& pool, double start) const {
    ProgramTables own = program;
    for (std::size_t i = 0; i < own.start.size(); ++i) {
      if (own.kinds[i] == Kind::String) own.start[i].i = pool.intern(strings.at(static_cast<std::size_t>(own.start[i].i)));
    }
    std::unique_ptr<Pace> steps = pace.made(own);
    auto machine = std::make_unique<Machine>(std::move(own), std::move(entered), start);
    return Nested::make(std::move(machine), std::move(steps), tables, start, &pool);
  }

  void close() {
    for (const nb::handle unit : units) {
      if (nb::hasattr(unit, "close")) unit.attr("close")();
    }
  }
};

}  // namespace upbeat
