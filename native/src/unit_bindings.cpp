// See unit_bindings.hpp.
#include "unit_bindings.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>
#include <utility>

#include "entrance.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace upbeat {
namespace {

using Ports = std::vector<std::tuple<std::int32_t, std::int32_t, std::int32_t>>;  // cells, kind, number

std::vector<PortTables> ports_of(const Ports& ports) {
  std::vector<PortTables> tables;
  for (const auto& [cells, kind, number] : ports) {
    if (kind < 0 || kind > 3) throw std::invalid_argument("an unknown kind of port");
    tables.push_back({cells, static_cast<Kind>(kind), number});
  }
  return tables;
}

using Slopes = std::vector<std::tuple<std::int32_t, std::int32_t, Kernel, std::uintptr_t>>;  // output, input, code

OdeTables make_ode(const Ports& inputs, const Ports& outputs, std::vector<double> states, std::vector<double> input_start,
                   std::vector<double> parameters, std::optional<Kernel> derivatives, const Kernel& compute,
                   const Slopes& slopes, nb::handle solver, std::uintptr_t compiled_derivatives, std::uintptr_t compiled_compute,
                   const std::vector<nb::object>& others, std::int32_t chooser, const Ports& tunable) {
  OdeTables tables;
  tables.inputs = ports_of(inputs);
  tables.outputs = ports_of(outputs);
  tables.states = std::move(states);
  tables.input_start = std::move(input_start);
  tables.parameters = std::move(parameters);
  if (derivatives) tables.derivatives = derivatives->tables;
  tables.compute = compute.tables;
  for (const auto& [output, input, kernel, compiled] : slopes) {
    tables.slopes.push_back({output, input, kernel.tables, reinterpret_cast<Compiled>(compiled)});
  }
  tables.compiled_derivatives = reinterpret_cast<Compiled>(compiled_derivatives);
  tables.compiled_compute = reinterpret_cast<Compiled>(compiled_compute);
  tables.solver = read_solver(solver);
  for (const nb::object& other : others) tables.others.push_back(read_solver(other));
  tables.chooser = chooser;
  tables.tunable = ports_of(tunable);
  require(problem_in(tables));
  return tables;
}

// The same unit with other numbers: as many as it has.
void give_values(OdeTables& tables, std::vector<double> states, std::vector<double> input_start, std::vector<double> parameters) {
  if (states.size() != tables.states.size() || input_start.size() != tables.input_start.size() ||
      parameters.size() != tables.parameters.size()) {
    throw std::invalid_argument("a unit has as many values as it was made with");
  }
  tables.states = std::move(states);
  tables.input_start = std::move(input_start);
  tables.parameters = std::move(parameters);
}

using Reaction = std::tuple<std::string, std::int32_t, std::vector<std::int32_t>,
                            std::vector<std::pair<std::int32_t, std::int32_t>>,
                            std::vector<std::pair<std::int32_t, std::int32_t>>>;  // name, indicator, on, writes, sends
using Piece = std::tuple<Kernel, std::vector<std::int32_t>, std::uintptr_t>;  // with its inputs and its machine code
using Assigning = std::tuple<Piece, std::vector<std::int32_t>>;
using Mode = std::tuple<Piece, Piece, std::vector<std::int32_t>, Assigning, Assigning>;

PieceTables piece_of(const Piece& piece) {
  const auto& [kernel, from, compiled] = piece;
  return {kernel.tables, from, reinterpret_cast<Compiled>(compiled)};
}

AssigningTables assigning_of(const Assigning& code) { return {piece_of(std::get<0>(code)), std::get<1>(code)}; }

DiscreteTables make_discrete(const Ports& inputs, const Ports& heard, const Ports& outputs, const Ports& sent,
                             const std::vector<std::int32_t>& kinds, std::vector<double> start,
                             std::vector<double> input_start, std::vector<double> parameters, std::int32_t mode,
                             const std::vector<Mode>& modes, const Piece& compute) {
  DiscreteTables tables;
  tables.inputs = ports_of(inputs);
  tables.heard = ports_of(heard);
  tables.outputs = ports_of(outputs);
  tables.sent = ports_of(sent);
  for (const std::int32_t kind : kinds) {
    if (kind < 0 || kind > 2) throw std::invalid_argument("an unknown kind of variable");
    tables.kinds.push_back(static_cast<Kind>(kind));
  }
  tables.start = std::move(start);
  tables.input_start = std::move(input_start);
  tables.parameters = std::move(parameters);
  tables.mode = mode;
  for (const auto& [due, emissions, emitted, internal, external] : modes) {
    tables.modes.push_back({piece_of(due), piece_of(emissions), emitted, assigning_of(internal), assigning_of(external)});
  }
  tables.compute = piece_of(compute);
  require(problem_in(tables));
  return tables;
}

// The addresses come in the order of upbeat_unit; 0 means none.
upbeat_unit make_addresses(std::uintptr_t self, std::uintptr_t get, std::uintptr_t set, std::uintptr_t advance,
                         std::uintptr_t jump, std::uintptr_t save, std::uintptr_t restore, std::uintptr_t message,
                         std::uintptr_t destroy, std::uintptr_t due, std::uintptr_t slope, std::uintptr_t pack,
                         std::uintptr_t unpack) {
  upbeat_unit table{};
  table.size = sizeof table;
  table.self = reinterpret_cast<void*>(self);
  table.get = reinterpret_cast<decltype(table.get)>(get);
  table.set = reinterpret_cast<decltype(table.set)>(set);
  table.advance = reinterpret_cast<decltype(table.advance)>(advance);
  table.jump = reinterpret_cast<decltype(table.jump)>(jump);
  table.save = reinterpret_cast<decltype(table.save)>(save);
  table.restore = reinterpret_cast<decltype(table.restore)>(restore);
  table.message = reinterpret_cast<decltype(table.message)>(message);
  table.destroy = reinterpret_cast<decltype(table.destroy)>(destroy);
  table.due = reinterpret_cast<decltype(table.due)>(due);
  table.slope = reinterpret_cast<decltype(table.slope)>(slope);
  table.pack = reinterpret_cast<decltype(table.pack)>(pack);
  table.unpack = reinterpret_cast<decltype(table.unpack)>(unpack);
  require(problem_in(table));
  return table;
}

// A table that lies somewhere, filled by code that was compiled with a unit.h of its own.
upbeat_unit make_table(std::uintptr_t address) {
  if (!address) throw std::invalid_argument("there is no table at address 0");
  const upbeat_unit table = adopted(reinterpret_cast<const upbeat_unit*>(address));
  require(problem_in(table));
  return table;
}

using PythonPorts = std::vector<std::tuple<nb::object, std::int32_t, std::int32_t, bool>>;  // name, kind, size, event

Python make_python(nb::object unit, const PythonPorts& ports) {
  Python made{std::move(unit), {}};
  for (const auto& [name, kind, size, event] : ports) made.ports.push_back({name, static_cast<Kind>(kind), size, event});
  return made;
}

}  // namespace

void bind_units(nb::module_& module) {
  nb::class_<OdeTables>(module, "Ode")
      .def("__init__",
           [](OdeTables* self, const Ports& inputs, const Ports& outputs, std::vector<double> states,
              std::vector<double> input_start, std::vector<double> parameters, std::optional<Kernel> derivatives,
              const Kernel& compute, const Slopes& slopes, nb::object solver, std::uintptr_t compiled_derivatives,
              std::uintptr_t compiled_compute, const std::vector<nb::object>& others, std::int32_t chooser,
              const Ports& tunable) {
             new (self) OdeTables(make_ode(inputs, outputs, std::move(states), std::move(input_start),
                                           std::move(parameters), std::move(derivatives), compute, slopes, solver,
                                           compiled_derivatives, compiled_compute, others, chooser, tunable));
           },
           "inputs"_a, "outputs"_a, "states"_a, "input_start"_a, "parameters"_a, "derivatives"_a.none(), "compute"_a,
           "slopes"_a, "solver"_a, "compiled_derivatives"_a = 0, "compiled_compute"_a = 0,
           "others"_a = std::vector<nb::object>(), "chooser"_a = -1, "tunable"_a = Ports())
      .def("with_values", [](const OdeTables& self, std::vector<double> states, std::vector<double> input_start, std::vector<double> parameters) {
        OdeTables made = self;
        give_values(made, std::move(states), std::move(input_start), std::move(parameters));
        return made;
      });
  nb::class_<HybridTables>(module, "Hybrid")
      .def("__init__",
           [](HybridTables* self, const OdeTables& ode, const Ports& heard, const Ports& sent,
              const std::vector<Reaction>& events, std::vector<std::int32_t> changing, const Kernel& indicators,
              const Kernel& actions, std::uintptr_t compiled_indicators, std::uintptr_t compiled_actions) {
             HybridTables tables{ode, ports_of(heard), ports_of(sent), {}, std::move(changing), indicators.tables,
                                 actions.tables, reinterpret_cast<Compiled>(compiled_indicators),
                                 reinterpret_cast<Compiled>(compiled_actions)};
             for (const auto& [name, indicator, on, writes, sends] : events) {
               tables.events.push_back({name, indicator, on, writes, sends});
             }
             require(problem_in(tables));
             new (self) HybridTables(std::move(tables));
           },
           "ode"_a, "heard"_a, "sent"_a, "events"_a, "changing"_a, "indicators"_a, "actions"_a,
           "compiled_indicators"_a = 0, "compiled_actions"_a = 0)
      .def("with_values", [](const HybridTables& self, std::vector<double> states, std::vector<double> input_start, std::vector<double> parameters) {
        HybridTables made = self;
        give_values(made.ode, std::move(states), std::move(input_start), std::move(parameters));
        return made;
      });
  nb::class_<DiscreteTables>(module, "Discrete")
      .def("__init__",
           [](DiscreteTables* self, const Ports& inputs, const Ports& heard, const Ports& outputs, const Ports& sent,
              const std::vector<std::int32_t>& kinds, std::vector<double> start, std::vector<double> input_start,
              std::vector<double> parameters, std::int32_t mode, const std::vector<Mode>& modes, const Piece& compute) {
             new (self) DiscreteTables(make_discrete(inputs, heard, outputs, sent, kinds, std::move(start),
                                                     std::move(input_start), std::move(parameters), mode, modes, compute));
           },
           "inputs"_a, "heard"_a, "outputs"_a, "sent"_a, "kinds"_a, "start"_a, "input_start"_a, "parameters"_a, "mode"_a,
           "modes"_a, "compute"_a);
  nb::class_<Addresses>(module, "Addresses")
      .def("__init__",
           [](Addresses* self, std::uintptr_t context, std::uintptr_t get, std::uintptr_t set, std::uintptr_t advance,
              std::uintptr_t jump, std::uintptr_t save, std::uintptr_t restore, std::uintptr_t message,
              std::uintptr_t destroy, std::uintptr_t due, std::uintptr_t slope, std::uintptr_t pack,
              std::uintptr_t unpack) {
             new (self) Addresses(make_addresses(context, get, set, advance, jump, save, restore, message, destroy, due,
                                                 slope, pack, unpack));
           },
           "context"_a, "get"_a, "set"_a, "advance"_a, "jump"_a = 0, "save"_a = 0, "restore"_a = 0, "message"_a = 0,
           "destroy"_a = 0, "due"_a = 0, "slope"_a = 0, "pack"_a = 0, "unpack"_a = 0)
      .def("__init__", [](Addresses* self, std::uintptr_t table) { new (self) Addresses(make_table(table)); }, "table"_a)
      .def("close", &Addresses::close);
  nb::class_<Python>(module, "Python")
      .def("__init__", [](Python* self, nb::object unit, const PythonPorts& ports) {
        new (self) Python(make_python(std::move(unit), ports));
      });
  bind_fmus(module);
  nb::class_<Attached>(module, "Attached")
      .def(nb::init<nb::list, double, std::vector<std::string>>(), "units"_a, "start"_a, "strings"_a)
      .def("tables", &Attached::tables)
      .def("begin", &Attached::begin)
      .def("intern", &Attached::intern)
      .def("strings", &Attached::strings)
      .def("take_trouble", &Attached::take_trouble)
      .def("close", &Attached::close);
  using NestedPorts = std::vector<std::tuple<std::int32_t, std::int32_t, std::int32_t>>;
  nb::class_<Inner>(module, "Nested")
      .def("__init__",
           [](Inner* self, nb::handle tables, const std::vector<Kernel>& kernels, nb::list units,
              const NestedPorts& ports, nb::object names) {
             new (self) Inner(tables, kernels, std::move(units), ports, std::move(names));
           },
           "tables"_a, "kernels"_a, "units"_a, "ports"_a, "names"_a)
      .def_ro("names", &Inner::names)
      .def("close", &Inner::close);
}

}  // namespace upbeat
