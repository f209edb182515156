// A scenario as Python has written it into the resources of an FMU (upbeat.generate.tables), read without trusting it; and
// units made of it, as often as one is made.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "discrete.hpp"
#include "fmi/units.hpp"
#include "hybrid.hpp"
#include "nested.hpp"
#include "scenario.h"

namespace upbeat {

struct Nest;

// The library of an FMU inside. It stays loaded: some leave threads or callbacks behind.
struct FmuLibrary {
  void* handle = nullptr;
  fmi::Doom doom{nullptr};
};

// An FMU inside: where it lies, what it is told, and the unit of it.
struct FmuSource {
  struct Given {  // a start value given before the export
    bool structural = false;
    fmi::Variable variable;
    std::vector<Cell> cells;
    std::vector<std::string> texts;  // in the place of cells
  };
  struct Start {  // one that may be changed: it is told the FMU if it was given, or is another one now
    bool given = false;
    fmi::Variable variable;
    std::vector<double> usual;
  };
  std::string folder, library;
  fmi::Birth birth;
  fmi::Experiment run;
  std::vector<Given> given;
  std::vector<Start> starts;
  fmi::ExchangeTables tables;  // of which co-simulation needs the first part
  std::shared_ptr<FmuLibrary> loaded;
};

using UnitSource = std::variant<OdeTables, HybridTables, DiscreteTables, std::shared_ptr<Nest>, FmuSource>;

// A program and its units.
struct Nest {
  std::shared_ptr<const ProgramTables> program;
  std::vector<std::string> strings;  // which the numbers of its string cells mean
  NestedTables tables;
  std::vector<UnitSource> units;
};

// What an exported scenario has besides its program.
struct ScenarioTables {
  std::shared_ptr<Nest> inside;
  std::string token;
  bool exchange = false;
  std::vector<scenario_variable> variables;
  std::vector<Cell> values;
  std::vector<std::string> texts;
  std::vector<std::string> events;
  std::vector<std::int32_t> blocks;  // by port: the block that computes it; -1: none
  struct Slope {
    std::int32_t output, input, cell, cells;
  };
  std::vector<Slope> slopes;
  std::int32_t slopes_block = -1;
  bool any_start = true;
  double start = 0.0;
  double length = 0.0;  // of a run
  std::shared_ptr<const KernelTables> directional;  // model exchange
};

// Throws std::runtime_error with what is wrong.
ScenarioTables read_scenario(const std::vector<unsigned char>& bytes, const std::string& resources);

// Makes a unit from the values from `values` on, which moves behind those that it takes. Throws std::runtime_error.
upbeat_unit make_unit(UnitSource& source, const double*& values, Strings& strings, double start, std::intptr_t environment);

// The machine of a program and its units.
std::unique_ptr<Machine> make_machine(Nest& inside, const double*& values, Strings& strings, double start, std::intptr_t environment);

}  // namespace upbeat
