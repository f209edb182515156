// A machine as Python holds it: tables read from Python objects, units entered, cells and rows out.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "callback.hpp"
#include "loop.hpp"
#include "machine.hpp"
#include "ode.hpp"

namespace upbeat {

namespace nb = nanobind;

template <class T>
using Flat = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Rows = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Chunk = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

inline void require(const std::string& problem) {
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

// A unit entered by the addresses of its functions. It belongs to this object until a machine takes it over,
// so that it is destroyed also when no machine comes about.
class Addresses {
 public:
  explicit Addresses(const upbeat_unit& table) : table_(table) {}
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  ~Addresses() {
    if (owned_ && table_.destroy) table_.destroy(table_.self);
  }

  upbeat_unit release() {
    if (!owned_) throw std::invalid_argument("this unit belongs to another machine already");
    owned_ = false;
    return table_;
  }

 private:
  upbeat_unit table_;
  bool owned_ = true;
};

// A unit written in Python, and what the engine must know of its ports: name, kind, size (-1: scalar).
struct Python {
  nb::object unit;
  std::vector<Callback::Port> ports;
};

// A machine and what only Python needs: the strings, and what went wrong in a callback.
class Host {
 public:
  Host(nb::handle tables, const std::vector<Kernel>& kernels, nb::list units, double start) {
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
    if (nb::isinstance<Addresses>(unit)) return nb::cast<Addresses&>(unit).release();
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

}  // namespace upbeat
