// The Python module upbeat._native: plain data in, cells and rows out. What the errors mean and how
// they read is said in Python (engine/native/machine.py).
#include <csignal>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "arithmetic.hpp"
#include "core_latency.hpp"
#include "drive.hpp"
#include "last_words.hpp"
#include "unit_bindings.hpp"
#include "upbeat/opcodes.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace upbeat {
namespace {

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

// Ctrl-C on top of Python's own handler, which only makes a note that is read when the core comes back.
#ifdef _WIN32
using Handler = void (*)(int);
Handler python_handler = SIG_DFL;
#else
struct sigaction python_handler {};
#endif

void on_interrupt(int number) {
  Stop::interrupted.store(true, std::memory_order_relaxed);
#ifdef _WIN32
  const Handler next = python_handler;
  std::signal(number, on_interrupt);
#else
  const auto next = python_handler.sa_handler;
#endif
  if (next != SIG_DFL && next != SIG_IGN) next(number);
}

// Begins or ends to notice Ctrl-C at once. Between the two no other code may change its handler.
void notice_interrupts(bool on) {
  Stop::interrupted = false;
#ifdef _WIN32
  if (on) {
    python_handler = std::signal(SIGINT, on_interrupt);
  } else {
    std::signal(SIGINT, python_handler);
  }
#else
  if (on) {
    sigaction(SIGINT, nullptr, &python_handler);
    if ((python_handler.sa_flags & SA_SIGINFO) != 0) return;  // another's, which is left alone
    struct sigaction ours = python_handler;
    ours.sa_handler = on_interrupt;
    sigaction(SIGINT, &ours, nullptr);
  } else {
    sigaction(SIGINT, &python_handler, nullptr);
  }
#endif
}

}  // namespace
}  // namespace upbeat

NB_MODULE(_native, module) {
  using namespace upbeat;
  // A script that ends with an uncaught error keeps its last traceback, and with it a machine, to the very
  // end. That is no leak, and no time for a page of warnings.
  nb::set_leak_warnings(false);
  module.doc() = "Upbeat's native engine. Use it through upbeat.engine.native.machine.";

  nb::class_<Kernel>(module, "Kernel")
      .def("__init__",
           [](Kernel* self, std::int32_t inputs, const Flat<double>& constants, const Rows<std::int32_t>& code,
              const Flat<std::int32_t>& results, std::vector<Table> tables) {
             new (self) Kernel(make_kernel(inputs, constants, code, results, std::move(tables)));
           })
      .def("evaluate", &evaluate);
  bind_units(module);
  nb::class_<Program>(module, "Program").def(nb::init<nb::handle, const std::vector<Kernel>&>(), "tables"_a, "kernels"_a);
  nb::class_<Host>(module, "Machine")
      .def(nb::init<const Program&, nb::list, double, nb::list>(), "program"_a, "units"_a, "start"_a, "calls"_a = nb::list())
      .def("begin_units", &Host::begin_units)
      .def("resets", &Host::resets)
      .def("solver_statistics", &Host::solver_statistics)
      .def("advancing", &Host::advancing)
      .def("execute", &Host::execute)
      .def("save", &Host::save)
      .def("restore", &Host::restore)
      .def("pack", &Host::pack)
      .def("unpack", &Host::unpack)
      .def("set_input", &Host::set_input)
      .def("read", &Host::read)
      .def("read_inside", &Host::read_inside)
      .def("write", &Host::write)
      .def("take_error", &Host::take_error)
      .def("heed_interrupts", &Host::heed_interrupts)
      .def("share", &Host::share)
      .def("try_cores", &Host::try_cores)
      .def("tried", &Host::tried)
      .def("take_fired", &Host::take_fired)
      .def("strings", &Host::strings)
      .def("close", &Host::close, "then"_a.none() = nb::none());
  nb::class_<Drive>(module, "Loop")
      .def(nb::init<nb::object, const std::optional<std::vector<std::int32_t>>&, std::int64_t, bool>(),
           "machine"_a, "columns"_a.none(), "every"_a, "jumps"_a = true)
      .def("begin", &Drive::begin, "chunk"_a.none(), "limit"_a = std::numeric_limits<double>::infinity())
      .def("run", &Drive::run, "chunk"_a.none(), "limit"_a, "budget"_a, "max_steps"_a,
           "pause"_a = std::numeric_limits<double>::infinity())
      .def("rows", &Drive::rows)
      .def("reason", &Drive::reason)
      .def("after", &Drive::after);
  nb::class_<Runs>(module, "Runs")
      .def(nb::init<nb::object, std::vector<std::int32_t>, const Kernel&, std::vector<bool>, const Runs::Statistics&,
                    std::vector<std::int32_t>, std::vector<double>, std::int32_t, const Runs::Places&, std::size_t, Runs::Values,
                    std::vector<std::pair<std::int32_t, double>>, double, double>(),
           "machine"_a, "cells"_a, "kernel"_a, "held"_a, "statistics"_a, "sampled"_a, "grid"_a, "events"_a, "places"_a,
           "columns"_a, "values"_a, "registers"_a, "start"_a, "stop"_a)
      .def("run", &Runs::run, "table"_a, "first"_a, "statistics"_a, "samples"_a, "events"_a, "times"_a, "totals"_a);
  nb::exception<Busy>(module, "Busy", PyExc_RuntimeError);
  nb::exception<Closed>(module, "Closed", PyExc_RuntimeError);
  module.def("opcodes", &opcodes);
  module.def("core_latency", &core_latency, "seconds"_a, nb::call_guard<nb::gil_scoped_release>());
  module.def("notice_interrupts", &notice_interrupts, "on"_a);
  module.def("interrupted", [] { return Stop::interrupted.load(std::memory_order_relaxed); });
  module.def("announce_faults", &announce_faults, "before"_a, "after"_a);
  module.def("leave_faults_alone", &leave_faults_alone);
  module.def("arithmetic", &arithmetic);
  module.def("set_arithmetic", &set_arithmetic, "wanted"_a);
  module.def("forbid_exit", &forbid_exit, "words"_a, "code"_a);
  bind_remote(module);
  bind_server(module);
}
