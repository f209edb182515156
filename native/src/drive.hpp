// The loop as Python holds it: a recorder for one machine, and what a stretch of steps has left.
#pragma once

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <optional>
#include <tuple>

#include "ensemble.hpp"
#include "host.hpp"
#include "loop.hpp"

namespace upbeat {

using Chunk = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

class Drive {
 public:
  // `columns`: the cells to record, or none at all. With `jumps` chunks have at least two rows.
  Drive(nb::object machine, const std::optional<std::vector<std::int32_t>>& columns, std::int64_t every, bool jumps)
      : keep_(std::move(machine)), host_(nb::cast<Host&>(keep_)) {
    Host::Visit visit(host_);
    require_pace(visit.machine().tables());
    if (!columns) return;
    for (const std::int32_t column : *columns) visit.cell(column);
    if (every < 1) throw std::invalid_argument("every must be at least 1");
    recorder_.emplace(*columns, every, jumps && visit.machine().tables().instant_block >= 0);
  }

  // What happens at the start time of a run to `limit`.
  nb::tuple begin(const std::optional<Chunk>& chunk, double limit) {
    Host::Visit visit(host_);
    open(chunk);
    const bool done = visit.work([&] { return upbeat::begin(visit.machine(), memory_, recorder(), limit); });
    return left(visit, done ? Status::Paused : Status::Failed);
  }

  nb::tuple run(const std::optional<Chunk>& chunk, double limit, double budget, std::int64_t max_steps, double pause) {
    Host::Visit visit(host_);
    open(chunk);
    return left(visit, visit.work([&] {
      return upbeat::run(visit.machine(), memory_, recorder(), &log_, limit, budget, max_steps, pause);
    }));
  }

  // How many rows are in the chunk by now, also while the loop is at work.
  std::size_t rows() const { return recorder_ ? recorder_->rows() : 0; }

  // What the cells of a reason held, by its number.
  std::vector<double> reason(std::int32_t number) const {
    const Reasons::ReasonCells reason = memory_.reasons.of(number);
    return {reason.begin(), reason.end()};
  }

  void after(std::int64_t rows) {
    Host::Visit visit(host_);
    if (rows < 0) throw std::invalid_argument("rows cannot be less than none");
    if (recorder_) recorder_->after(rows);
  }

 private:
  Recorder* recorder() { return recorder_ ? &*recorder_ : nullptr; }

  void open(const std::optional<Chunk>& chunk) {
    if (chunk.has_value() != recorder_.has_value()) throw std::invalid_argument("a chunk belongs to columns");
    if (!chunk) return;
    if (chunk->shape(1) != recorder_->width()) throw std::invalid_argument("the chunk has the wrong number of columns");
    recorder_->open(reinterpret_cast<Cell*>(chunk->data()), chunk->shape(0));
    if (recorder_->room() < 1) throw std::invalid_argument("the chunk has no room");
  }

  // Taken while still in the machine, which may be gone afterwards.
  nb::tuple left(Host::Visit& visit, Status status) {
    visit.checked(status != Status::Failed);
    const std::vector<StepRun>& runs = log_.drain();
    const nb::bytes steps(reinterpret_cast<const char*>(runs.data()), runs.size() * sizeof(StepRun));
    FiredLog& fired = visit.machine().fired();
    std::size_t committed = 0;
    while (committed < fired.size() && fired.data()[committed].index >= 0) ++committed;
    const nb::tuple events = Host::taken(fired, committed);
    const double time = visit.machine().cells()[visit.machine().tables().now].r;
    return nb::make_tuple(static_cast<int>(status), time, recorder_ ? recorder_->rows() : 0,
                          recorder_ && recorder_->left_out(), steps, events);
  }

  nb::object keep_;
  Host& host_;
  Memory memory_;
  std::optional<Recorder> recorder_;
  StepLog log_;
};

// Many runs on one machine, as Python holds them.
class Runs {
 public:
  using Values = std::vector<std::vector<double>>;
  using Statistics = std::vector<std::pair<std::int32_t, std::int32_t>>;
  using Places = std::vector<std::tuple<std::int32_t, std::int32_t, std::int32_t>>;
  template <class T>
  using Table = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

  Runs(nb::object machine, std::vector<std::int32_t> cells, const Kernel& kernel, std::vector<bool> held,
       const Statistics& statistics, std::vector<std::int32_t> sampled, std::vector<double> grid, std::int32_t events,
       const Places& places, std::size_t columns, Values values, std::vector<std::pair<std::int32_t, double>> registers,
       double start, double stop)
      : keep_(std::move(machine)), host_(nb::cast<Host&>(keep_)), columns_(columns) {
    Host::Visit visit(host_);
    const ProgramTables& tables = visit.machine().tables();
    require_pace(tables);
    if (!visit.machine().resets()) throw std::invalid_argument("a unit of this machine cannot begin again");
    Asked asked{std::move(cells), kernel.tables, std::move(held), {}, std::move(sampled), std::move(grid), events};
    for (const auto& [what, of] : statistics) asked.statistics.push_back({static_cast<Statistic::What>(what), of});
    std::vector<Varied> varied;
    for (const auto& [column, unit, place] : places) varied.push_back({column, unit, place});
    if (values.size() != visit.machine().units()) throw std::invalid_argument("values belong to units");
    require(problem_in(asked, varied, columns, tables, values));
    for (const auto& [cell, value] : registers) visit.cell(cell);
    statistics_ = asked.statistics.size();
    samples_ = asked.sampled.size() * asked.grid.size();
    events_ = static_cast<std::size_t>(events);
    ensemble_.emplace(visit.machine(), std::move(asked), std::move(varied), columns, std::move(values), std::move(registers),
                      start, stop);
  }

  // From row `first` of the table on, to its end or to a run that does not finish: where to go on, and how the last one
  // ended.
  std::pair<std::size_t, std::int32_t> run(const Table<const double>& table, std::size_t first, Table<double> statistics,
                                           Table<double> samples, Table<std::int32_t> events, Table<double> times,
                                           Table<double> totals) {
    Host::Visit visit(host_);
    const std::size_t rows = table.shape(0);
    const auto fits = [&](const auto& given, std::size_t width) { return given.shape(0) == rows && given.shape(1) == width; };
    if (!fits(table, columns_) || !fits(statistics, statistics_) || !fits(samples, samples_) || !fits(events, events_) ||
        !fits(times, events_) || !fits(totals, Told::totals_count)) {
      throw std::invalid_argument("a table has the wrong size");
    }
    std::size_t row = first;
    Status status = Status::Finished;
    visit.work([&] {
      for (; row < rows && status == Status::Finished; ++row) {
        status = ensemble_->run(table.data() + row * columns_,
                                {statistics.data() + row * statistics_, samples.data() + row * samples_,
                                 events.data() + row * events_, times.data() + row * events_,
                                 totals.data() + row * Told::totals_count});
      }
      return true;
    });
    visit.checked(status != Status::Failed);
    return {row, static_cast<std::int32_t>(status)};
  }

 private:
  nb::object keep_;
  Host& host_;
  std::size_t columns_;
  std::size_t statistics_ = 0, samples_ = 0, events_ = 0;
  std::optional<Ensemble> ensemble_;
};

}  // namespace upbeat
