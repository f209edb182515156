// See fmu_python.hpp.
#include "fmu_python.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>
#include <tuple>

#include "fmi/callbacks.hpp"
#include "fmi/fmi2.hpp"
#include "fmi/fmi3.hpp"
#include "read.hpp"
#include "remote_rows.hpp"

using namespace nanobind::literals;

namespace upbeat {

namespace {

// -- the log. An FMU may log from any thread, with or without the GIL, and as late as when the interpreter has gone. ----

PyObject* listener = nullptr;  // touched with the GIL only; never freed by a destructor, which would come too late

bool interpreter_is_there() {
  if (!Py_IsInitialized()) return false;
#if PY_VERSION_HEX >= 0x030D0000
  return !Py_IsFinalizing();
#else
  return !_Py_IsFinalizing();
#endif
}

void hear(std::intptr_t id, const char* instance, int status, const char* category, const char* message) {
  if (!interpreter_is_there()) return;
  const PyGILState_STATE held = PyGILState_Ensure();
  if (listener) {
    PyObject* const sink = Py_NewRef(listener);  // it may be replaced while it is called
    PyObject *type, *value, *traceback;          // the FMU may be freed while an exception is on its way
    PyErr_Fetch(&type, &value, &traceback);
    PyObject* const done =
        PyObject_CallFunction(sink, "nyiyy", static_cast<Py_ssize_t>(id), instance, status, category, message);
    if (!done) PyErr_WriteUnraisable(sink);
    Py_XDECREF(done);
    PyErr_Restore(type, value, traceback);
    Py_DECREF(sink);
  }
  PyGILState_Release(held);
}

// Called with (id, instance, status, category, message), texts as bytes; None: no listener. Gives the former one.
nb::object set_log_sink(nb::object sink) {
  PyObject* const before = listener;
  listener = sink.is_none() ? nullptr : sink.release().ptr();
  fmi::set_log_sink(listener ? &hear : nullptr);
  return before ? nb::steal(before) : nb::none();
}

[[noreturn]] void raise(const nb::object& exception) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

// A text is no number, whatever it spells.
void take(nb::handle value, Kind kind, Strings& strings, Cell* to) {
  if (kind == Kind::Real && PyUnicode_Check(value.ptr())) {
    PyErr_SetString(PyExc_TypeError, "not a number");
    throw nb::python_error();
  }
  if (!from_python(value, kind, strings, to)) throw nb::python_error();
}

// -- tables ------------------------------------------------------------------------------------------------------------

// From upbeat.units.fmi.tables.FmuTables.
void read_fmu(nb::handle given, fmi::FmuTables& tables) {
  const auto whole = [](nb::handle from, const char* name) { return nb::cast<std::int64_t>(from.attr(name)); };
  const auto flag = [](nb::handle from, const char* name) { return nb::cast<bool>(from.attr(name)); };
  const auto text = [](nb::handle from, const char* name) { return nb::cast<std::string>(from.attr(name)); };
  const auto number = [](nb::handle from, const char* name) { return nb::cast<double>(from.attr(name)); };
  tables.adjoint = flag(given, "adjoint");
  tables.counted = static_cast<std::int32_t>(whole(given, "counted"));
  tables.start = number(given, "start");
  tables.event_mode = flag(given, "event_mode");
  tables.steady = flag(given, "steady");
  tables.grid = number(given, "grid");
  tables.saves = flag(given, "saves");
  tables.serialises = flag(given, "serialises");
  tables.resets = flag(given, "resets");
  tables.experiment.start = tables.start;
  const nb::object stop = given.attr("stop"), tolerance = given.attr("tolerance");
  tables.experiment.has_stop = !stop.is_none();
  if (tables.experiment.has_stop) tables.experiment.stop = nb::cast<double>(stop);
  tables.experiment.has_tolerance = !tolerance.is_none();
  if (tables.experiment.has_tolerance) tables.experiment.tolerance = nb::cast<double>(tolerance);
  for (const nb::handle from : given.attr("given")) {
    using Row = std::tuple<std::int32_t, std::uint32_t, std::string, std::vector<double>>;  // type, reference, name, values
    auto [type, reference, name, values] = nb::cast<Row>(from);
    fmi::Given one;
    one.variable.type = static_cast<fmi::Type>(type);
    one.variable.reference = reference;
    one.variable.cells = static_cast<std::int32_t>(values.size());
    one.variable.name = name;
    for (const double value : values) one.cells.push_back(from_double(value, one.variable.kind()));
    tables.given.push_back(std::move(one));
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

// A solver in Python (upbeat.units.fmi.unit.WithCvode).
class PythonSolver final : public fmi::OtherSolver {
 public:
  PythonSolver(nb::object solver, Trouble& trouble) : solver_(std::move(solver)), trouble_(trouble) {}
  ~PythonSolver() override {
    nb::gil_scoped_acquire acquire;
    solver_.reset();
  }

  bool advance(double t, double to, std::vector<double>& x, std::vector<double>& z, double* reached, bool* stopped) override {
    nb::gil_scoped_acquire acquire;
    try {
      using Found = std::tuple<std::vector<double>, std::vector<double>, double, bool>;
      Found found = nb::cast<Found>(solver_.attr("advance")(t, to, x, z));
      x = std::move(std::get<0>(found));
      z = std::move(std::get<1>(found));
      *reached = std::get<2>(found);
      *stopped = std::get<3>(found);
      return true;
    } catch (nb::python_error& error) {
      trouble_.exception = nb::borrow(error.value());
      return false;
    }
  }
  void scale(const std::vector<double>& nominals) override {
    nb::gil_scoped_acquire acquire;
    solver_.attr("scale")(nominals);
  }
  void forget() override {
    nb::gil_scoped_acquire acquire;
    solver_.attr("forget")();
  }

 private:
  nb::object solver_;
  Trouble& trouble_;
};

// From upbeat.units.fmi.tables.ExchangeTables.
void read_exchange(nb::handle given, fmi::ExchangeTables& tables, Trouble& trouble) {
  read_fmu(given, tables);
  tables.states = nb::cast<std::size_t>(given.attr("states"));
  tables.indicators = nb::cast<std::size_t>(given.attr("indicators"));
  tables.completes = nb::cast<bool>(given.attr("completes"));
  tables.input_start = nb::cast<std::vector<double>>(given.attr("input_start"));
  tables.held_start = nb::cast<std::vector<std::int64_t>>(given.attr("held_start"));
  tables.texts = nb::cast<std::vector<std::string>>(given.attr("texts"));
  tables.shown = nb::cast<std::int32_t>(given.attr("shown"));
  if (nb::hasattr(given.attr("solver"), "advance")) {
    tables.other = std::make_shared<PythonSolver>(nb::borrow(given.attr("solver")), trouble);
  } else {
    tables.solver = read_solver(given.attr("solver"));
  }
}

}  // namespace

// -- instances ---------------------------------------------------------------------------------------------------------

FmuInstance::FmuInstance(fmi::InstanceTables tables, nb::object refusal) : tables_(std::move(tables)), refusal_(std::move(refusal)) {
  if (tables_.version == 2) {
    fmu_ = std::make_shared<fmi::Fmi2>(tables_);
  } else {
    fmu_ = std::make_shared<fmi::Fmi3>(tables_);
  }
  std::visit([&](auto& fmu) { fmu->use(strings_); }, fmu_);
}

template <class Call>
void FmuInstance::ask(Call call) {
  std::visit(
      [&](auto& fmu) {
        bool done = false;
        {
          nb::gil_scoped_release release;
          done = call(*fmu);
        }
        if (!done) raise(refusal_(fmu->status(), fmu->why(), fmu->discarded()));
      },
      fmu_);
}

bool FmuInstance::instantiate(const fmi::Birth& birth) {
  bool made = false;
  ask([&](auto& fmu) {
    made = fmu.instantiate(birth);
    return made || fmu.why().empty();
  });
  return made;
}

nb::list FmuInstance::get(const fmi::Variable& variable) {
  std::vector<Cell> cells(static_cast<std::size_t>(variable.cells));
  ask([&](auto& fmu) { return fmu.with(strings_, [&] { return fmu.get(variable, cells.data()); }); });
  nb::list values;
  for (const Cell& cell : cells) values.append(to_python(cell, variable.kind(), strings_));
  return values;
}

void FmuInstance::set(const fmi::Variable& variable, nb::handle values) {
  std::vector<Cell> cells;
  for (nb::handle value : nb::borrow<nb::iterable>(values)) {
    cells.emplace_back();
    take(value, variable.kind(), strings_, &cells.back());
  }
  if (cells.size() != static_cast<std::size_t>(variable.cells)) throw std::invalid_argument("another number of values");
  ask([&](auto& fmu) { return fmu.with(strings_, [&] { return fmu.set(variable, cells.data()); }); });
}

// -- units -------------------------------------------------------------------------------------------------------------

FmuEntry::FmuEntry(FmuInstance& instance, nb::handle given, std::vector<Callback::Port> ports, nb::object keeper)
    : ports_(std::move(ports)), keeper_(std::move(keeper)), refusal_(instance.refusal()) {
  fmi::Entered made;
  if (nb::hasattr(given, "solver")) {
    fmi::ExchangeTables tables;
    static_cast<fmi::InstanceTables&>(tables) = instance.tables();
    read_exchange(given, tables, trouble_);
    require(fmi::problem_in(tables));
    made = fmi::make_exchange(tables, instance.fmu());
  } else {
    fmi::FmuTables tables;
    static_cast<fmi::InstanceTables&>(tables) = instance.tables();
    read_fmu(given, tables);
    require(fmi::problem_in(tables));
    made = fmi::make_cosimulation(tables, instance.fmu());
  }
  unit_ = made.table;
  face_ = made.face;
  face_->use(*strings_);
}

upbeat_unit FmuEntry::release(Keepers& keepers, Strings& strings) {
  if (!face_) throw std::invalid_argument("this unit belongs to another machine already");
  std::exchange(face_, nullptr)->use(strings);
  keepers.add(keeper_);
  return unit_;
}

void FmuEntry::close() {
  if (!std::exchange(face_, nullptr)) return;
  PyObject *type, *value, *traceback;  // it may go because an exception is on its way
  PyErr_Fetch(&type, &value, &traceback);
  {
    nb::gil_scoped_release release;
    unit_.destroy(unit_.self);
  }
  Keepers().add(keeper_);
  PyErr_Restore(type, value, traceback);
}

fmi::Face& FmuEntry::face() {
  if (!face_) throw std::runtime_error("this unit is closed, or belongs to a machine");
  return *face_;
}

fmi::System& FmuEntry::system() {
  fmi::System* const system = face().system();
  if (!system) throw std::runtime_error("an FMU for co-simulation keeps its equations to itself");
  return *system;
}

template <class Call>
void FmuEntry::checked(Call call) {
  face();
  int status = 0;
  {
    nb::gil_scoped_release release;
    status = call();
  }
  if (status == 0) return;
  const nb::object raised = std::exchange(trouble_.exception, {});
  if (raised.is_valid()) raise(raised);
  const char* const said = unit_.message(unit_.self);
  raise(refusal_(status, said ? said : "", false));
}

template <class Call>
void FmuEntry::asked(Call call) {
  checked([&] { return call() ? 0 : face().refused(); });
}

nb::object FmuEntry::get(int number) {
  const Callback::Port& port = ports_.at(static_cast<std::size_t>(number));
  const std::size_t count = port.size < 0 ? 1 : static_cast<std::size_t>(port.size);
  cells_.resize(count + 1);
  checked([&] { return unit_.get(unit_.self, number, cells_.data()); });
  if (port.event && cells_[count].i == 0) return nb::none();
  if (port.size < 0) {
    nb::object value = to_python(cells_[0], port.kind, *strings_);
    forget_old_texts();
    return value;
  }
  nb::object values = nb::steal(PyTuple_New(port.size));
  if (!values.is_valid()) throw nb::python_error();
  for (std::size_t i = 0; i < count; ++i) {
    PyTuple_SetItem(values.ptr(), static_cast<Py_ssize_t>(i), to_python(cells_[i], port.kind, *strings_).release().ptr());
  }
  forget_old_texts();
  return values;
}

void FmuEntry::set(int number, nb::sequence coefficients) {
  const Callback::Port& port = ports_.at(static_cast<std::size_t>(number));
  cells_.clear();
  int count = 0;
  const auto add = [&](nb::handle value) {
    cells_.emplace_back();
    take(value, port.kind, *strings_, &cells_.back());
  };
  for (nb::handle coefficient : coefficients) {
    ++count;
    if (port.size < 0) {
      add(coefficient);
    } else {
      for (nb::handle value : nb::borrow<nb::iterable>(coefficient)) add(value);
    }
  }
  const std::size_t width = port.size < 0 ? 1 : static_cast<std::size_t>(port.size);
  const int max_rows = port.kind == Kind::Real ? UPBEAT_MAX_DEGREE + 1 : 1;
  if (cells_.size() != width * static_cast<std::size_t>(count) || count < 1 || count > max_rows) {
    throw std::invalid_argument("these are no coefficients of this input");
  }
  checked([&] { return unit_.set(unit_.self, number, cells_.data(), count); });
  forget_old_texts();
}

void FmuEntry::forget_old_texts() {
  constexpr std::size_t many = 1000;
  if (strings_->size() < many + 2 * kept_) return;
  auto fresh = std::make_unique<Strings>();
  face_->use(*fresh);
  strings_ = std::move(fresh);
  kept_ = strings_->size();
}

double FmuEntry::advance(double t, double to, bool early) {
  double reached = to;
  checked([&] { return unit_.advance(unit_.self, t, to, early ? 1 : 0, &reached); });
  return reached;
}

bool FmuEntry::jump() {
  int again = 0;
  checked([&] { return unit_.jump(unit_.self, &again); });
  return again != 0;
}

double FmuEntry::due() {
  double time = std::numeric_limits<double>::infinity();
  if (unit_.due) checked([&] { return unit_.due(unit_.self, &time); });
  return time;
}

nb::list FmuEntry::slope(int output, int input) {
  const auto cells = [&](int port) {
    const std::int32_t size = ports_.at(static_cast<std::size_t>(port)).size;
    return static_cast<std::size_t>(size < 0 ? 1 : size);
  };
  std::vector<Cell> slopes(cells(output) * cells(input));
  checked([&] { return unit_.slope(unit_.self, output, input, slopes.data()); });
  nb::list made;
  for (const Cell& slope : slopes) made.append(slope.r);
  return made;
}

void FmuEntry::save(int slot) {
  if (!unit_.save) throw std::runtime_error("this unit cannot be set back");
  checked([&] { return unit_.save(unit_.self, slot); });
}

void FmuEntry::restore(int slot) {
  if (!unit_.restore) throw std::runtime_error("this unit cannot be set back");
  checked([&] { return unit_.restore(unit_.self, slot); });
}

nb::bytes FmuEntry::pack(int slot) {
  if (!unit_.pack) throw std::runtime_error("states of this unit cannot be turned into bytes");
  std::uint64_t size = 0;
  Bytes bytes;
  checked([&] {
    if (const int status = unit_.pack(unit_.self, slot, nullptr, &size)) return status;
    do {  // an FMU may need more bytes each time
      bytes.resize(size);
      if (const int status = unit_.pack(unit_.self, slot, bytes.data(), &size)) return status;
    } while (size > bytes.size());
    bytes.resize(size);
    return 0;
  });
  return nb::bytes(bytes.data(), bytes.size());
}

void FmuEntry::unpack(int slot, nb::bytes from) {
  if (!unit_.unpack) throw std::runtime_error("states of this unit cannot be turned into bytes");
  checked([&] { return unit_.unpack(unit_.self, slot, from.data(), from.size()); });
}

nb::object FmuEntry::statistics() {
  face();
  if (!unit_.statistics) return nb::none();
  std::int64_t found[UPBEAT_STATISTICS] = {};
  unit_.statistics(unit_.self, found);
  return nb::make_tuple(found[0], found[1], found[2], found[3]);
}

// -- names -------------------------------------------------------------------------------------------------------------

namespace {

fmi::Variable variable(std::int32_t type, std::uint32_t reference, std::int32_t cells, std::string name) {
  if (type < 0 || type > static_cast<std::int32_t>(fmi::Type::Clock) || cells < 0) throw std::invalid_argument("no variable");
  fmi::Variable made;
  made.type = static_cast<fmi::Type>(type);
  made.reference = reference;
  made.cells = cells;
  made.name = std::move(name);
  return made;
}

template <class Member>
auto plain(Member member) {
  return [member](FmuInstance& self) { self.ask([&](auto& fmu) { return member(fmu); }); };
}

// Numbers that the FMU gives all at once.
template <class Member>
auto numbers(Member member) {
  return [member](FmuInstance& self, std::size_t count) {
    std::vector<double> found(count);
    self.ask([&](auto& fmu) { return member(fmu, found.data(), count); });
    return found;
  };
}

template <class Member>
auto counted(Member member) {
  return [member](FmuInstance& self) -> std::optional<std::size_t> {
    std::size_t count = 0;
    bool told = false;
    self.ask([&](auto& fmu) {
      fmu.refuse("");
      told = member(fmu, &count);
      return told || fmu.why().empty();
    });
    return told ? std::optional<std::size_t>(count) : std::nullopt;
  };
}

using Many = std::pair<std::vector<std::uint32_t>, std::size_t>;  // references, and the cells of all

template <class Member>
auto sensitivity(Member member) {
  return [member](FmuInstance& self, const Many& unknown, const Many& known, const std::vector<double>& seed, std::size_t size) {
    const fmi::Variables unknowns(unknown.first.data(), unknown.first.size(), unknown.second);
    const fmi::Variables knowns(known.first.data(), known.first.size(), known.second);
    std::vector<double> found(size);
    self.ask([&](auto& fmu) { return member(fmu, unknowns, knowns, seed.data(), found.data()); });
    return found;
  };
}

}  // namespace

void bind_fmus(nb::module_& module) {
  nb::class_<FmuInstance>(module, "FmuInstance")
      .def("__init__",
           [](FmuInstance* self, std::int32_t version, std::unordered_map<std::string, std::uintptr_t> addresses,
              std::unordered_map<std::string, std::string> declared, std::intptr_t environment, std::uintptr_t doom,
              std::uintptr_t clock, nb::object refusal) {
             fmi::InstanceTables tables;
             tables.version = version;
             tables.addresses = std::move(addresses);
             tables.declared = std::move(declared);
             tables.environment = environment;
             tables.doom = reinterpret_cast<fmi::Doom*>(doom);
             tables.clock = reinterpret_cast<double*>(clock);
             new (self) FmuInstance(std::move(tables), std::move(refusal));
           },
           "version"_a, "addresses"_a, "declared"_a, "environment"_a, "doom"_a, "clock"_a, "refusal"_a)
      .def("instantiate",
           [](FmuInstance& self, std::string name, std::string token, std::string resources, bool exchange, bool visible,
              bool logging, bool event_mode, bool early_return, std::vector<std::uint32_t> required) {
             const bool intermediate = !required.empty();
             return self.instantiate({std::move(name), std::move(token), std::move(resources), exchange, visible, logging,
                                      event_mode, early_return, intermediate, std::move(required)});
           },
           "name"_a, "token"_a, "resources"_a, "exchange"_a, "visible"_a, "logging"_a, "event_mode"_a, "early_return"_a,
           "required"_a)
      .def("choose_categories",
           [](FmuInstance& self, const std::vector<std::string>& categories) {
             std::vector<const char*> names;
             for (const std::string& category : categories) names.push_back(category.c_str());
             self.ask([&](auto& fmu) { return fmu.choose_categories(names); });
           })
      .def("get", [](FmuInstance& self, std::int32_t type, std::uint32_t reference, std::int32_t cells,
                     std::string name) { return self.get(variable(type, reference, cells, std::move(name))); })
      .def("set", [](FmuInstance& self, std::int32_t type, std::uint32_t reference, std::int32_t cells, std::string name,
                     nb::handle values) { self.set(variable(type, reference, cells, std::move(name)), values); })
      .def("setup",
           [](FmuInstance& self, double start, std::optional<double> stop, std::optional<double> tolerance) {
             const fmi::Experiment run{start, stop.has_value(), stop.value_or(start), tolerance.has_value(), tolerance.value_or(0.0)};
             self.ask([&](auto& fmu) { return fmu.setup(run); });
           },
           "start"_a, "stop"_a.none(), "tolerance"_a.none())
      .def("enter_initialization",
           [](FmuInstance& self, double start, std::optional<double> stop, std::optional<double> tolerance) {
             const fmi::Experiment run{start, stop.has_value(), stop.value_or(start), tolerance.has_value(), tolerance.value_or(0.0)};
             self.ask([&](auto& fmu) { return fmu.enter_initialization(run); });
           },
           "start"_a, "stop"_a.none(), "tolerance"_a.none())
      .def("enter_configuration", plain([](auto& fmu) { return fmu.enter_configuration(); }))
      .def("exit_configuration", plain([](auto& fmu) { return fmu.exit_configuration(); }))
      .def("exit_initialization", plain([](auto& fmu) { return fmu.leave_initialization(); }))
      .def("terminate", plain([](auto& fmu) { return fmu.terminate(); }))
      .def("free", plain([](auto& fmu) {
             if (!fmu.fatal()) fmu.free();
             return true;
           }))
      .def("enter_event_mode", plain([](auto& fmu) { return fmu.enter_event_mode(); }))
      .def("enter_step_mode", plain([](auto& fmu) { return fmu.enter_step_mode(); }))
      .def("enter_continuous_time_mode", plain([](auto& fmu) { return fmu.enter_continuous_time_mode(); }))
      .def("step",
           [](FmuInstance& self, double t, double length, bool no_prior) {
             fmi::Stepped ended;
             ended.reached = t + length;
             self.ask([&](auto& fmu) {
               if (!fmu.steps()) return false;
               if (fmu.fatal()) return fmu.lost(fmu.step);
               return fmu.conclude(fmu.attempt(t, length, no_prior, ended), t, ended);
             });
             return std::make_tuple(ended.reached, ended.event, ended.terminate, ended.early);
           })
      .def("update",
           [](FmuInstance& self) {
             fmi::Updated found;
             self.ask([&](auto& fmu) { return fmu.update(found); });
             return std::make_tuple(found.again, found.terminate, found.nominals_changed, found.states_changed, found.next);
           })
      .def("set_time", [](FmuInstance& self, double t) { self.ask([&](auto& fmu) { return fmu.set_time(t); }); })
      .def("set_states",
           [](FmuInstance& self, const std::vector<double>& x) {
             self.ask([&](auto& fmu) { return fmu.set_states(x.data(), x.size()); });
           })
      .def("states", numbers([](auto& fmu, double* to, std::size_t n) { return fmu.get_states(to, n); }))
      .def("derivatives", numbers([](auto& fmu, double* to, std::size_t n) { return fmu.get_derivatives(to, n); }))
      .def("indicators", numbers([](auto& fmu, double* to, std::size_t n) { return fmu.get_indicators(to, n); }))
      .def("nominals", numbers([](auto& fmu, double* to, std::size_t n) { return fmu.get_nominals(to, n); }))
      .def("count_states", counted([](auto& fmu, std::size_t* count) { return fmu.states(count); }))
      .def("count_indicators", counted([](auto& fmu, std::size_t* count) { return fmu.indicators(count); }))
      .def("directional", sensitivity([](auto& fmu, const auto& unknown, const auto& known, const double* seed, double* to) {
             return fmu.directional(unknown, known, seed, to);
           }))
      .def("adjoint", sensitivity([](auto& fmu, const auto& unknown, const auto& known, const double* seed, double* to) {
             return fmu.adjoint(unknown, known, seed, to);
           }));
  nb::class_<FmuEntry>(module, "Fmu", nb::is_weak_referenceable())
      .def("__init__",
           [](FmuEntry* self, FmuInstance& instance, nb::handle tables, const std::vector<PortRow>& ports, nb::object keeper) {
             new (self) FmuEntry(instance, tables, ports_of(ports), std::move(keeper));
           },
           "instance"_a, "tables"_a, "ports"_a, "keeper"_a)
      .def("get", &FmuEntry::get)
      .def("set", &FmuEntry::set)
      .def("advance", &FmuEntry::advance, "t"_a, "to"_a, "early"_a = false)
      .def("jump", &FmuEntry::jump)
      .def("due", &FmuEntry::due)
      .def("slope", &FmuEntry::slope)
      .def("save", &FmuEntry::save)
      .def("restore", &FmuEntry::restore)
      .def("pack", &FmuEntry::pack)
      .def("unpack", &FmuEntry::unpack)
      .def("statistics", &FmuEntry::statistics)
      .def("close", &FmuEntry::close)
      .def("complaints", &FmuEntry::complaints)
      .def_prop_ro("time", [](FmuEntry& self) { return self.face().time(); })
      .def("take_any_length", [](FmuEntry& self) { self.face().take_any_length(); })
      .def_prop_ro("continuous", [](FmuEntry& self) { return self.face().continuous(); })
      .def("states", [](FmuEntry& self) { return self.system(), *self.face().states(); })
      .def("put", [](FmuEntry& self, const std::vector<double>& x) { self.asked([&] { return self.face().put(x); }); })
      .def("look",
           [](FmuEntry& self) {
             std::vector<double> z;
             self.asked([&] { return self.face().look(z); });
             return z;
           })
      .def("inputs_at", [](FmuEntry& self, double t) { return self.face().inputs_at(t); })
      .def("trajectories",  // what all inputs do from now on: equal as long as held ones are held at the same values
           [](FmuEntry& self) {
             self.system();
             std::vector<double> found = self.face().moving() ? *self.face().trajectories() : self.face().inputs_at(0.0);
             return std::make_pair(std::move(found), self.face().moving());
           })
      .def("place",
           [](FmuEntry& self, double t, const std::vector<double>& x) {
             self.asked([&] { return self.system().place(t, x.data()); });
           })
      .def("derivatives",
           [](FmuEntry& self, double t, const std::vector<double>& x) {
             std::vector<double> found(x.size());
             self.asked([&] { return self.system().derivatives_at(t, x.data(), found.data()); });
             return found;
           })
      .def("indicators",
           [](FmuEntry& self, double t, const std::vector<double>& x, std::size_t count) {
             std::vector<double> found(count);
             self.asked([&] { return self.system().indicators_at(t, x.data(), found.data()); });
             return found;
           })
      .def("accepted", [](FmuEntry& self, double t, const std::vector<double>& x) {
        bool stop = false;
        self.asked([&] { return self.system().accepted_at(t, x.data(), &stop); });
        return stop;
      });
  module.def("nominal", &fmi::nominal, "t"_a, "to"_a, "grid"_a);
  module.def("fmi2_logger_address", [] { return reinterpret_cast<std::uintptr_t>(&upbeat_fmi2_log); });
  module.def("set_fmi2_log_sink", &set_log_sink, "sink"_a.none());
  // At the end there is no listener any more: a sink may need modules that are gone by then.
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] { set_log_sink(nb::none()); }));
}

}  // namespace upbeat
