// An FMU as Python hands it over: its tables, and who keeps its library as long as it runs.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fmi/cosimulation.hpp"
#include "fmi/exchange.hpp"
#include "read.hpp"

namespace upbeat {

// The keepers of units that run: each is called once its unit is gone, with the GIL held.
class Keepers {
 public:
  Keepers() = default;
  Keepers(const Keepers&) = delete;
  Keepers& operator=(const Keepers&) = delete;
  ~Keepers() { let_go(); }

  void add(nb::object keeper) { held_.push_back(std::move(keeper)); }
  void let_go() {
    for (const nb::object& keeper : std::exchange(held_, {})) {
      try {
        keeper();
      } catch (nb::python_error& error) {
        error.discard_as_unraisable("closing an FMU");
      }
    }
  }

 private:
  std::vector<nb::object> held_;
};

// The unit belongs to this object until a machine takes it over, so that the FMU is freed also when no machine
// comes about.
class FmuEntry {
 public:
  FmuEntry(const upbeat_unit& unit, nb::object keeper) : unit_(unit), keeper_(std::move(keeper)) {}
  FmuEntry(const FmuEntry&) = delete;
  FmuEntry& operator=(const FmuEntry&) = delete;
  ~FmuEntry() { close(); }

  upbeat_unit release(Keepers& keepers) {
    if (!owned_) throw std::invalid_argument("this unit belongs to another machine already");
    owned_ = false;
    keepers.add(keeper_);
    return unit_;
  }
  void close() {
    if (!std::exchange(owned_, false)) return;
    unit_.destroy(unit_.self);
    Keepers().add(keeper_);
  }
  // What the FMU said of late about something that went wrong.
  nb::object complaints() const { return keeper_.attr("complaints")(); }

 private:
  upbeat_unit unit_;
  nb::object keeper_;
  bool owned_ = true;
};

// From upbeat.units.fmi.tables.FmuTables.
inline void read_fmu(nb::handle given, fmi::FmuTables& tables) {
  const auto whole = [](nb::handle from, const char* name) { return nb::cast<std::int64_t>(from.attr(name)); };
  const auto flag = [](nb::handle from, const char* name) { return nb::cast<bool>(from.attr(name)); };
  const auto text = [](nb::handle from, const char* name) { return nb::cast<std::string>(from.attr(name)); };
  const auto number = [](nb::handle from, const char* name) { return nb::cast<double>(from.attr(name)); };
  tables.version = static_cast<std::int32_t>(whole(given, "version"));
  tables.pointer = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(given.attr("pointer")));
  tables.clock = reinterpret_cast<double*>(nb::cast<std::uintptr_t>(given.attr("clock")));
  tables.environment = nb::cast<std::intptr_t>(given.attr("environment"));
  tables.adjoint = flag(given, "adjoint");
  tables.counted = static_cast<std::int32_t>(whole(given, "counted"));
  tables.doom = reinterpret_cast<fmi::Doom*>(nb::cast<std::uintptr_t>(given.attr("doom")));
  tables.start = number(given, "start");
  tables.event_mode = flag(given, "event_mode");
  tables.steady = flag(given, "steady");
  tables.grid = number(given, "grid");
  tables.saves = flag(given, "saves");
  tables.serialises = flag(given, "serialises");
  for (auto& [name, address] : nb::cast<std::vector<std::pair<std::string, std::uintptr_t>>>(given.attr("addresses"))) {
    tables.addresses.emplace(std::move(name), address);
  }
  for (const nb::handle from : given.attr("ports")) {
    fmi::PortTables port;
    port.port = static_cast<std::int32_t>(whole(from, "port"));
    port.name = text(from, "name");
    port.type = static_cast<fmi::Type>(whole(from, "type"));
    port.reference = static_cast<std::uint32_t>(whole(from, "reference"));
    port.cells = static_cast<std::int32_t>(whole(from, "cells"));
    port.input = flag(from, "input");
    port.event = flag(from, "event");
    port.followed = flag(from, "followed");
    port.discrete = flag(from, "discrete");
    port.clocks = nb::cast<std::vector<std::uint32_t>>(from.attr("clocks"));
    port.order = static_cast<std::int32_t>(whole(from, "order"));
    port.tunable = flag(from, "tunable");
    tables.ports.push_back(std::move(port));
  }
  for (const nb::handle from : given.attr("clocks")) {
    fmi::ClockTables clock;
    clock.reference = static_cast<std::uint32_t>(whole(from, "reference"));
    clock.name = text(from, "name");
    const std::int64_t interval = whole(from, "interval");
    if (interval < 0 || interval > 3) throw std::invalid_argument("a clock with an unknown kind of interval");
    clock.interval = static_cast<fmi::ClockTables::Interval>(interval);
    clock.length = number(from, "length");
    clock.shift = number(from, "shift");
    clock.resolution = number(from, "resolution");
    tables.clocks.push_back(std::move(clock));
  }
}

// From upbeat.units.fmi.exchange.tables.ExchangeTables.
inline void read_exchange(nb::handle given, fmi::ExchangeTables& tables) {
  read_fmu(given, tables);
  tables.states = nb::cast<std::size_t>(given.attr("states"));
  tables.indicators = nb::cast<std::size_t>(given.attr("indicators"));
  tables.completes = nb::cast<bool>(given.attr("completes"));
  tables.input_start = nb::cast<std::vector<double>>(given.attr("input_start"));
  tables.shown = nb::cast<std::int32_t>(given.attr("shown"));
  tables.held_start = nb::cast<std::vector<std::int64_t>>(given.attr("held_start"));
  tables.solver = read_solver(given.attr("solver"));
}

// The unit that these tables are for: with a solver of ours or with its own.
inline upbeat_unit make_fmu(nb::handle given) {
  if (nb::hasattr(given, "solver")) {
    fmi::ExchangeTables tables;
    read_exchange(given, tables);
    require(fmi::problem_in(tables));
    return fmi::make_exchange(tables);
  }
  fmi::FmuTables tables;
  read_fmu(given, tables);
  require(fmi::problem_in(tables));
  return fmi::make_cosimulation(tables);
}

}  // namespace upbeat
