// The Python module upbeat._native: plain data in, cells and rows out. What the errors mean and how
// they read is said in Python (engine/native.py).
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "callback.hpp"
#include "loop.hpp"
#include "machine.hpp"
#include "ode.hpp"
#include "upbeat/opcodes.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace upbeat {
namespace {

template <class T>
using Flat = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Rows = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Chunk = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void require(const std::string& problem) {
  if (!problem.empty()) throw std::invalid_argument("these tables cannot be run: " + problem);
}

template <class T>
std::vector<T> copied(const Flat<T>& values) {
  return {values.data(), values.data() + values.size()};
}

// A kernel as shared, checked tables: units with the same equations share one.
struct Kernel {
  std::shared_ptr<const KernelTables> tables;
};

using Table = std::tuple<std::vector<double>, std::vector<double>, std::vector<double>, std::vector<double>, std::vector<double>>;

Kernel make_kernel(std::int32_t inputs, const Flat<double>& constants, const Rows<std::int32_t>& code,
                   const Flat<std::int32_t>& results, std::vector<Table> tables) {
  auto kernel = std::make_shared<KernelTables>();
  kernel->inputs = inputs;
  kernel->constants = copied(constants);
  kernel->results = copied(results);
  if (code.shape(1) != 5) throw std::invalid_argument("a row of a kernel has five numbers");
  for (std::size_t i = 0; i < code.shape(0); ++i) {
    const std::int32_t* const row = code.data() + 5 * i;
    kernel->code.push_back({row[0], row[1], row[2], row[3], row[4]});
  }
  for (auto& [x, y, origin_x, origin_y, coefficients] : tables) {
    kernel->lookups.push_back({std::move(x), std::move(y), std::move(origin_x), std::move(origin_y), std::move(coefficients)});
  }
  kernel->size = inputs + static_cast<std::int32_t>(kernel->constants.size() + kernel->code.size());
  require(problem_in(*kernel));
  return {std::move(kernel)};
}

std::vector<double> evaluate(const Kernel& kernel, const std::vector<double>& inputs) {
  if (inputs.size() != static_cast<std::size_t>(kernel.tables->inputs)) throw std::invalid_argument("wrong number of inputs");
  std::vector<double> work = kernel.tables->workspace();
  std::copy(inputs.begin(), inputs.end(), work.begin());
  run(*kernel.tables, work.data());
  std::vector<double> results;
  for (const std::int32_t result : kernel.tables->results) results.push_back(work[static_cast<std::size_t>(result)]);
  return results;
}

using Ports = std::vector<std::pair<std::int32_t, std::int32_t>>;  // cells, kind

std::vector<PortTables> ports_of(const Ports& ports) {
  std::vector<PortTables> tables;
  for (const auto& [cells, kind] : ports) {
    if (kind < 0 || kind > 3) throw std::invalid_argument("an unknown kind of port");
    tables.push_back({cells, static_cast<Kind>(kind)});
  }
  return tables;
}

SolverTables solver_of(nb::handle given) {
  SolverTables solver;
  solver.method = nb::cast<std::int32_t>(given.attr("code")) == 0 ? Method::Fixed : Method::Adaptive;
  solver.micro = nb::cast<std::int64_t>(given.attr("micro"));
  solver.step = nb::cast<double>(given.attr("step"));
  solver.rtol = nb::cast<double>(given.attr("rtol"));
  solver.atol = nb::cast<double>(given.attr("atol"));
  solver.first = nb::cast<double>(given.attr("first"));
  solver.most = nb::cast<double>(given.attr("most"));
  solver.max_steps = nb::cast<std::int64_t>(given.attr("max_steps"));
  solver.c = nb::cast<std::vector<double>>(given.attr("c"));
  solver.a = nb::cast<std::vector<double>>(given.attr("a"));
  solver.b = nb::cast<std::vector<double>>(given.attr("b"));
  solver.e = nb::cast<std::vector<double>>(given.attr("e"));
  return solver;
}

OdeTables make_ode(const Ports& inputs, const Ports& outputs, std::vector<double> states, std::vector<double> input_start,
                   std::vector<double> parameters, std::optional<Kernel> derivatives, const Kernel& compute,
                   nb::handle solver, std::uintptr_t compiled_derivatives, std::uintptr_t compiled_compute) {
  OdeTables tables;
  tables.inputs = ports_of(inputs);
  tables.outputs = ports_of(outputs);
  tables.states = std::move(states);
  tables.input_start = std::move(input_start);
  tables.parameters = std::move(parameters);
  if (derivatives) tables.derivatives = derivatives->tables;
  tables.compute = compute.tables;
  tables.compiled_derivatives = reinterpret_cast<Compiled>(compiled_derivatives);
  tables.compiled_compute = reinterpret_cast<Compiled>(compiled_compute);
  tables.solver = solver_of(solver);
  require(problem_in(tables));
  return tables;
}

// A unit entered by the addresses of its functions, in the order of upbeat_unit; 0 means none.
struct Addresses {
  upbeat_unit table{};
};

Addresses make_addresses(std::uintptr_t self, std::uintptr_t get, std::uintptr_t set, std::uintptr_t advance,
                         std::uintptr_t jump, std::uintptr_t save, std::uintptr_t restore, std::uintptr_t message,
                         std::uintptr_t destroy) {
  if (!get || !set || !advance) throw std::invalid_argument("a unit needs the addresses of get, set and advance");
  upbeat_unit table{};
  table.self = reinterpret_cast<void*>(self);
  table.get = reinterpret_cast<decltype(table.get)>(get);
  table.set = reinterpret_cast<decltype(table.set)>(set);
  table.advance = reinterpret_cast<decltype(table.advance)>(advance);
  table.jump = reinterpret_cast<decltype(table.jump)>(jump);
  table.save = reinterpret_cast<decltype(table.save)>(save);
  table.restore = reinterpret_cast<decltype(table.restore)>(restore);
  table.message = reinterpret_cast<decltype(table.message)>(message);
  table.destroy = reinterpret_cast<decltype(table.destroy)>(destroy);
  return {table};
}

// A unit written in Python, and what the engine must know of its ports: name, kind, size (-1: scalar).
struct Python {
  nb::object unit;
  std::vector<Callback::Port> ports;
};

Python make_python(nb::object unit, const std::vector<std::tuple<nb::object, std::int32_t, std::int32_t>>& ports) {
  Python made{std::move(unit), {}};
  for (const auto& [name, kind, size] : ports) made.ports.push_back({name, static_cast<Kind>(kind), size});
  return made;
}

// A machine and what only Python needs: the strings, and what went wrong in a callback.
class Engine {
 public:
  Engine(nb::handle tables, const std::vector<Kernel>& kernels, nb::list units, double start) {
    ProgramTables program = read(tables, kernels);
    require(problem_in(program, units.size()));
    for (const std::string& text : nb::cast<std::vector<std::string>>(tables.attr("strings"))) strings_.intern(text);
    std::vector<upbeat_unit> made;
    made.reserve(units.size());
    try {
      for (const nb::handle unit : units) made.push_back(enter(unit, start));
    } catch (...) {
      for (const upbeat_unit& unit : made) {
        if (unit.destroy) unit.destroy(unit.self);
      }
      throw;
    }
    machine_ = std::make_unique<Machine>(std::move(program), std::move(made), start);
  }

  bool execute(std::int32_t block) {
    const std::size_t blocks = machine().tables().entries.size();
    if (block < 0 || static_cast<std::size_t>(block) >= blocks) throw std::out_of_range("there is no such block");
    return without_gil([&] { return machine_->execute(block); });
  }
  bool save() { return without_gil([&] { return machine().save(); }); }
  bool restore() { return without_gil([&] { return machine().restore(); }); }

  bool set_input(std::int32_t unit, std::int32_t port, std::int32_t kind, nb::list values) {
    std::vector<Cell> cells(values.size());
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (!from_python(values[i], static_cast<Kind>(kind), strings_, &cells[i])) throw nb::python_error();
    }
    return machine().set_input(unit, port, cells.data());
  }

  nb::object read_cell(std::int32_t cell) {
    const std::size_t index = checked(cell);
    return to_python(machine_->cells()[index], machine_->tables().kinds[index], strings_);
  }
  void write_cell(std::int32_t cell, nb::handle value) {
    const std::size_t index = checked(cell);
    Cell written;
    if (!from_python(value, machine_->tables().kinds[index], strings_, &written)) throw nb::python_error();
    machine_->cells()[index] = written;
  }

  // What ended the run. The exception is handed over and not kept: through its traceback it may refer
  // to this very machine, which Python's collector could not see.
  nb::tuple take_error() {
    const Error& error = machine().error();
    const Trouble trouble = std::exchange(trouble_, {});
    return nb::make_tuple(static_cast<int>(error.fault), static_cast<int>(error.call), error.row, error.unit,
                          error.cell, error.time, error.start, error.until, error.value, error.status,
                          trouble.message.empty() ? error.message : trouble.message,
                          trouble.exception.is_valid() ? trouble.exception : nb::none());
  }

  std::vector<std::tuple<std::int32_t, std::int32_t, double>> take_fired() {
    std::vector<std::tuple<std::int32_t, std::int32_t, double>> taken;
    for (const Fired& fired : machine().fired()) taken.emplace_back(fired.event, fired.index, fired.time);
    machine_->fired().clear();
    return taken;
  }

  std::vector<std::string> strings() const {
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < strings_.size(); ++i) texts.push_back(strings_.text(static_cast<std::int64_t>(i)));
    return texts;
  }

  std::pair<std::int32_t, std::size_t> run_fixed(FixedRun& run, Recorder& recorder, const Chunk& chunk, double budget,
                                                  std::int64_t most) {
    if (chunk.shape(1) != recorder.width()) throw std::invalid_argument("the chunk has the wrong number of columns");
    const auto blocks = static_cast<std::int32_t>(machine().tables().entries.size());
    if (run.block < 0 || run.block >= blocks || run.instant >= blocks) throw std::out_of_range("there is no such block");
    recorder.open(reinterpret_cast<Cell*>(chunk.data()), chunk.shape(0));
    const Status status = without_gil([&] { return upbeat::run_fixed(*machine_, run, recorder, budget, most); });
    return {static_cast<std::int32_t>(status), recorder.rows()};
  }

  Recorder recorder(const std::vector<std::int32_t>& columns, std::int64_t every) {
    for (const std::int32_t column : columns) checked(column);
    if (every < 1) throw std::invalid_argument("every must be at least 1");
    return Recorder(columns, every);
  }

  void close() { machine_.reset(); }

 private:
  static ProgramTables read(nb::handle tables, const std::vector<Kernel>& kernels) {
    ProgramTables program;
    const auto ints = [&](const char* name) { return copied(nb::cast<Flat<std::int32_t>>(tables.attr(name))); };
    for (const std::int64_t bits : copied(nb::cast<Flat<std::int64_t>>(tables.attr("start")))) program.start.push_back(integer(bits));
    for (const std::int32_t kind : ints("kinds")) {
      if (kind < 0 || kind > 3) throw std::invalid_argument("an unknown kind of cell");
      program.kinds.push_back(static_cast<Kind>(kind));
    }
    const auto code = nb::cast<Rows<std::int32_t>>(tables.attr("code"));
    if (code.shape(1) != std::tuple_size_v<Row>) throw std::invalid_argument("a row of the code has seven numbers");
    program.code.resize(code.shape(0));
    std::copy(code.data(), code.data() + code.size(), program.code.empty() ? nullptr : program.code.front().data());
    program.entries = ints("entries");
    program.operands = ints("operands");
    for (const Kernel& kernel : kernels) program.kernels.push_back(*kernel.tables);
    using Expression = std::tuple<std::int32_t, std::vector<std::int32_t>, std::vector<std::int32_t>>;
    for (auto& [kernel, from, to] : nb::cast<std::vector<Expression>>(tables.attr("expressions"))) {
      program.expressions.push_back({kernel, std::move(from), std::move(to)});
    }
    program.now = nb::cast<std::int32_t>(tables.attr("now"));
    program.next = nb::cast<std::int32_t>(tables.attr("next"));
    program.slots = nb::cast<std::int32_t>(tables.attr("slots"));
    program.loops = nb::cast<std::int32_t>(tables.attr("loops"));
    return program;
  }

  upbeat_unit enter(nb::handle unit, double start) {
    if (nb::isinstance<OdeTables>(unit)) return Ode::make(nb::cast<const OdeTables&>(unit), start);
    if (nb::isinstance<Addresses>(unit)) return nb::cast<const Addresses&>(unit).table;
    const Python& python = nb::cast<const Python&>(unit);
    needs_gil_ = true;
    return Callback::make(python.unit, python.ports, strings_, trouble_);
  }

  Machine& machine() {
    if (!machine_) throw std::runtime_error("this machine is closed");
    return *machine_;
  }

  std::size_t checked(std::int32_t cell) {
    const std::size_t cells = machine().tables().start.size();
    if (cell < 0 || static_cast<std::size_t>(cell) >= cells) throw std::out_of_range("there is no such cell");
    return static_cast<std::size_t>(cell);
  }

  template <class Body>
  auto without_gil(Body body) -> decltype(body()) {
    machine();
    if (needs_gil_) return body();
    nb::gil_scoped_release release;
    return body();
  }

  Strings strings_;
  Trouble trouble_;
  bool needs_gil_ = false;
  std::unique_ptr<Machine> machine_;
};

nb::dict opcodes() {
  nb::dict table;
#define UPBEAT_ENTRY(name, number, value) table[#name] = number;
  UPBEAT_UNARY(UPBEAT_ENTRY)
  UPBEAT_BINARY(UPBEAT_ENTRY)
  UPBEAT_TERNARY(UPBEAT_ENTRY)
#undef UPBEAT_ENTRY
  table["LOOKUP1"] = static_cast<int>(UPBEAT_LOOKUP1);
  table["LOOKUP2"] = static_cast<int>(UPBEAT_LOOKUP2);
  return table;
}

}  // namespace
}  // namespace upbeat

NB_MODULE(_native, module) {
  using namespace upbeat;
  // A script that ends with an uncaught error keeps its last traceback, and with it a machine, to the very
  // end. That is no leak, and no time for a page of warnings.
  nb::set_leak_warnings(false);
  module.doc() = "Upbeat's native engine. Use it through upbeat.engine.native.";

  nb::class_<Kernel>(module, "Kernel")
      .def("__init__",
           [](Kernel* self, std::int32_t inputs, const Flat<double>& constants, const Rows<std::int32_t>& code,
              const Flat<std::int32_t>& results, std::vector<Table> tables) {
             new (self) Kernel(make_kernel(inputs, constants, code, results, std::move(tables)));
           })
      .def("evaluate", &evaluate);
  nb::class_<OdeTables>(module, "Ode")
      .def("__init__",
           [](OdeTables* self, const Ports& inputs, const Ports& outputs, std::vector<double> states,
              std::vector<double> input_start, std::vector<double> parameters, std::optional<Kernel> derivatives,
              const Kernel& compute, nb::object solver, std::uintptr_t compiled_derivatives,
              std::uintptr_t compiled_compute) {
             new (self) OdeTables(make_ode(inputs, outputs, std::move(states), std::move(input_start),
                                           std::move(parameters), std::move(derivatives), compute, solver,
                                           compiled_derivatives, compiled_compute));
           },
           "inputs"_a, "outputs"_a, "states"_a, "input_start"_a, "parameters"_a, "derivatives"_a.none(), "compute"_a,
           "solver"_a, "compiled_derivatives"_a = 0, "compiled_compute"_a = 0);
  nb::class_<Addresses>(module, "Addresses")
      .def("__init__",
           [](Addresses* self, std::uintptr_t context, std::uintptr_t get, std::uintptr_t set, std::uintptr_t advance,
              std::uintptr_t jump, std::uintptr_t save, std::uintptr_t restore, std::uintptr_t message,
              std::uintptr_t destroy) {
             new (self) Addresses(make_addresses(context, get, set, advance, jump, save, restore, message, destroy));
           },
           "context"_a, "get"_a, "set"_a, "advance"_a, "jump"_a = 0, "save"_a = 0, "restore"_a = 0, "message"_a = 0,
           "destroy"_a = 0);
  nb::class_<Python>(module, "Python")
      .def("__init__", [](Python* self, nb::object unit,
                          const std::vector<std::tuple<nb::object, std::int32_t, std::int32_t>>& ports) {
        new (self) Python(make_python(std::move(unit), ports));
      });
  nb::class_<Recorder>(module, "Recorder");
  nb::class_<FixedRun>(module, "FixedRun")
      .def("__init__",
           [](FixedRun* self, double start, double stop, double step, std::int64_t count, std::int32_t block,
              std::int32_t instant) {
             new (self) FixedRun{start, stop, step, count, block, instant, 0, start, true};
           },
           "start"_a, "stop"_a, "step"_a, "count"_a, "block"_a, "instant"_a)
      .def("stand_at",
           [](FixedRun& self, std::int64_t done, double time) {
             self.done = done;
             self.time = time;
             self.pending = true;
           })
      .def_ro("done", &FixedRun::done)
      .def_ro("time", &FixedRun::time);
  nb::class_<Engine>(module, "Machine")
      .def(nb::init<nb::handle, const std::vector<Kernel>&, nb::list, double>(), "tables"_a, "kernels"_a, "units"_a, "start"_a)
      .def("execute", &Engine::execute)
      .def("save", &Engine::save)
      .def("restore", &Engine::restore)
      .def("set_input", &Engine::set_input)
      .def("read", &Engine::read_cell)
      .def("write", &Engine::write_cell)
      .def("take_error", &Engine::take_error)
      .def("take_fired", &Engine::take_fired)
      .def("strings", &Engine::strings)
      .def("recorder", &Engine::recorder, "columns"_a, "every"_a)
      .def("run_fixed", &Engine::run_fixed, "run"_a, "recorder"_a, "chunk"_a, "budget"_a, "most"_a)
      .def("close", &Engine::close);
  module.def("opcodes", &opcodes);
}
