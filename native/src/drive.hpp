// The loop as Python holds it: a recorder for one machine, and what a stretch of steps has left.
#pragma once

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <optional>

#include "host.hpp"
#include "loop.hpp"

namespace upbeat {

using Chunk = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

class Drive {
 public:
  // `columns`: the cells to record, or none at all.
  Drive(nb::object machine, const std::optional<std::vector<std::int32_t>>& columns, std::int64_t every)
      : keep_(std::move(machine)), host_(nb::cast<Host&>(keep_)) {
    Host::Visit visit(host_);
    require_pace(visit.machine().tables());
    if (!columns) return;
    for (const std::int32_t column : *columns) visit.cell(column);
    if (every < 1) throw std::invalid_argument("every must be at least 1");
    recorder_.emplace(*columns, every);
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
      return upbeat::run(visit.machine(), memory_, recorder(), log_, limit, budget, max_steps, pause);
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
    if (chunk->shape(0) < 1) throw std::invalid_argument("the chunk has no room");
    recorder_->open(reinterpret_cast<Cell*>(chunk->data()), chunk->shape(0));
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

}  // namespace upbeat
