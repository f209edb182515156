// Tables of the core from objects of Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "program.hpp"
#include "solver.hpp"

namespace upbeat {

namespace nb = nanobind;

template <class T>
using Flat = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Rows = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

inline void require(const std::string& problem) {
  if (!problem.empty()) throw std::invalid_argument("these tables cannot be run: " + problem);
}

template <class T>
std::vector<T> copied(const Flat<T>& values) {
  return {values.data(), values.data() + values.size()};
}

// From upbeat.units.equations.lowered.SolverTable.
inline SolverTables read_solver(nb::handle given) {
  SolverTables solver;
  solver.method = nb::cast<std::int32_t>(given.attr("code")) == 0 ? Method::Fixed : Method::Adaptive;
  solver.steps = nb::cast<std::int64_t>(given.attr("steps"));
  solver.step = nb::cast<double>(given.attr("step"));
  solver.rtol = nb::cast<double>(given.attr("rtol"));
  solver.atol = nb::cast<double>(given.attr("atol"));
  solver.first = nb::cast<double>(given.attr("first"));
  solver.longest = nb::cast<double>(given.attr("longest"));
  solver.max_steps = nb::cast<std::int64_t>(given.attr("max_steps"));
  solver.c = nb::cast<std::vector<double>>(given.attr("c"));
  solver.a = nb::cast<std::vector<double>>(given.attr("a"));
  solver.b = nb::cast<std::vector<double>>(given.attr("b"));
  solver.e = nb::cast<std::vector<double>>(given.attr("e"));
  solver.d = nb::cast<std::vector<double>>(given.attr("d"));
  return solver;
}

// A kernel as shared, checked tables: units with the same equations share one.
struct Kernel {
  std::shared_ptr<const KernelTables> tables;
};

inline ProgramTables read_program(nb::handle tables, const std::vector<Kernel>& kernels) {
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
  using Waits = std::vector<std::pair<std::int32_t, std::int32_t>>;
  using Lists = std::vector<std::vector<std::tuple<std::int32_t, Waits, bool>>>;
  for (const Lists& lists : nb::cast<std::vector<Lists>>(tables.attr("shares"))) {
    Shares& shares = program.shares.emplace_back(lists.size());
    for (std::size_t core = 0; core < lists.size(); ++core) {
      for (const auto& [row, waits, loose] : lists[core]) {
        Part& part = shares[core].emplace_back(Part{row, {}, loose});
        for (const auto& [other, position] : waits) part.waits.push_back({other, position});
      }
    }
  }
  program.start_block = nb::cast<std::int32_t>(tables.attr("start_block"));
  program.instant_block = nb::cast<std::int32_t>(tables.attr("instant_block"));
  program.now = nb::cast<std::int32_t>(tables.attr("now"));
  program.next = nb::cast<std::int32_t>(tables.attr("next"));
  program.due = nb::cast<std::int32_t>(tables.attr("due"));
  program.stops = nb::cast<std::int32_t>(tables.attr("stops"));
  program.ends = nb::cast<std::int32_t>(tables.attr("ends"));
  program.budget = nb::cast<std::int32_t>(tables.attr("budget"));
  program.slots = nb::cast<std::int32_t>(tables.attr("slots"));
  program.loops = nb::cast<std::int32_t>(tables.attr("loops"));
  program.calls = static_cast<std::int32_t>(nb::len(nb::object(tables.attr("calls"))));
  if (!tables.attr("pace").is_none()) {
    using Ints = std::vector<std::int32_t>;
    const auto [cells, blocks, steps, reasons] =
        nb::cast<std::tuple<Ints, Ints, Ints, std::vector<std::tuple<bool, std::int32_t, bool>>>>(tables.attr("pace"));
    if (cells.size() != 6 || blocks.size() != 6) throw std::invalid_argument("a pace has six cells and six blocks");
    PaceTables& pace = program.pace;
    std::int32_t* const to_cells[] = {&pace.limit, &pace.until, &pace.block, &pace.reason, &pace.again, &pace.fired};
    std::int32_t* const to_blocks[] = {&pace.propose, &pace.review, &pace.note, &pace.changed, &pace.keep, &pace.back};
    for (std::size_t i = 0; i < 6; ++i) {
      *to_cells[i] = cells[i];
      *to_blocks[i] = blocks[i];
    }
    pace.steps = steps;
    for (const auto& [at, of, landed] : reasons) pace.reasons.push_back({at, of, landed});
  }
  return program;
}

}  // namespace upbeat
