// See ensemble.hpp. The rows of a run lie in a buffer of the recorder, from which they are taken whenever it is full: the loop
// is the one of any other run.
#include "ensemble.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace upbeat {

namespace {

constexpr double nothing = std::numeric_limits<double>::quiet_NaN();
constexpr double forever = 1e9;         // seconds
constexpr std::size_t buffer = 1 << 13;  // cells, so that they stay in the cache

bool of_event(Statistic::What what) { return what >= Statistic::What::Count; }

}  // namespace

std::string problem_in(const Asked& asked, const std::vector<Varied>& varied, std::size_t columns, const ProgramTables& tables,
                       const std::vector<std::vector<double>>& values) {
  const auto within = [](std::int32_t number, std::size_t count) { return number >= 0 && static_cast<std::size_t>(number) < count; };
  if (!asked.kernel) return "there is no kernel";
  const std::size_t signals = asked.kernel->results.size();
  if (static_cast<std::size_t>(asked.kernel->inputs) != 1 + asked.cells.size() + columns) return "the kernel takes other numbers";
  if (asked.held.size() != signals) return "it must be said of each signal whether it is held";
  for (const std::int32_t cell : asked.cells) {
    if (!within(cell, tables.start.size())) return "there is no such cell";
  }
  for (const Statistic& one : asked.statistics) {
    const auto what = static_cast<std::int32_t>(one.what);
    if (what < 0 || what > static_cast<std::int32_t>(Statistic::What::LastEvent)) return "there is no such statistic";
    if (one.of < 0 || (!of_event(one.what) && !within(one.of, signals))) return "there is no such signal";
  }
  for (const std::int32_t signal : asked.sampled) {
    if (!within(signal, signals)) return "there is no such signal";
  }
  if (!std::is_sorted(asked.grid.begin(), asked.grid.end())) return "the times of a grid must rise";
  if (asked.events < 0) return "no fewer events than none can be listed";
  for (const Varied& one : varied) {
    if (!within(one.column, columns) || !within(one.unit, values.size())) return "there is no such column or unit";
    if (!within(one.place, values[static_cast<std::size_t>(one.unit)].size())) return "a unit has no such value";
  }
  return "";
}

Ensemble::Ensemble(Machine& machine, Asked asked, std::vector<Varied> varied, std::size_t columns,
                   std::vector<std::vector<double>> values, std::vector<std::pair<std::int32_t, double>> cells, double start,
                   double stop)
    : machine_(machine),
      asked_(std::move(asked)),
      varied_(std::move(varied)),
      columns_(columns),
      values_(std::move(values)),
      cells_(std::move(cells)),
      start_(start),
      stop_(stop),
      recorder_(asked_.cells, 1, machine.tables().instant_block >= 0),
      work_(asked_.kernel->workspace()),
      now_(asked_.kernel->results.size()),
      before_(now_.size()) {
  for (const std::vector<double>& own : values_) handed_.push_back(own.empty() ? nullptr : own.data());
  for (const std::int32_t cell : asked_.cells) kinds_.push_back(machine.tables().kinds[static_cast<std::size_t>(cell)]);
  rows_.resize(std::max<std::size_t>(buffer, 16 * recorder_.width()));
}

bool Ensemble::begin(const double* row) {
  for (const Varied& one : varied_) {
    values_[static_cast<std::size_t>(one.unit)][static_cast<std::size_t>(one.place)] = row[one.column];
  }
  std::copy_n(row, columns_, work_.begin() + 1 + static_cast<std::ptrdiff_t>(asked_.cells.size()));
  memory_.times.count = memory_.why.count = memory_.fired.count = 0;
  memory_.steps = memory_.rejected = 0;
  recorder_.begin();
  recorder_.open(rows_.data(), rows_.size() / recorder_.width());
  any_ = false;
  sample_ = 0;
  fired_ = 0;
  if (!machine_.reset(start_, handed_.data())) return false;
  const ProgramTables& tables = machine_.tables();
  machine_.cells()[tables.now].r = machine_.cells()[tables.next].r = start_;
  for (const auto& [cell, value] : cells_) machine_.cells()[cell].r = value;
  return machine_.begin_units() && upbeat::begin(machine_, memory_, &recorder_, stop_);
}

void Ensemble::clear(const Told& told) {
  for (std::size_t i = 0; i < asked_.statistics.size(); ++i) {
    const Statistic::What what = asked_.statistics[i].what;
    told.statistics[i] = what == Statistic::What::Integral || what == Statistic::What::Count ? 0.0 : nothing;
  }
  std::fill_n(told.samples, asked_.sampled.size() * asked_.grid.size(), nothing);
  std::fill_n(told.events, asked_.events, -1);
  std::fill_n(told.times, asked_.events, nothing);
}

Status Ensemble::run(const double* row, const Told& told) {
  clear(told);
  Status status = begin(row) ? Status::Full : machine_.asked_to_stop() ? Status::Stopped : Status::Failed;
  take_rows(told);
  take_events(told);
  while (status == Status::Full || status == Status::Paused) {
    recorder_.open(rows_.data(), rows_.size() / recorder_.width());
    status = upbeat::run(machine_, memory_, &recorder_, nullptr, stop_, forever, std::numeric_limits<std::int64_t>::max());
    take_rows(told);
    take_events(told);
  }
  finish(told);
  return status == Status::Abandoned ? Status::Stopped : status;
}

void Ensemble::take_rows(const Told& told) {
  const std::size_t rows = recorder_.rows(), width = recorder_.width(), signals = now_.size();
  const std::int32_t* const results = asked_.kernel->results.data();
  for (std::size_t r = 0; r < rows; ++r) {
    const Cell* const row = rows_.data() + r * width;
    const double t = row[0].r;
    work_[0] = t;
    for (std::size_t i = 1; i < width; ++i) work_[i] = to_double(row[i], kinds_[i - 1]);
    upbeat::run(*asked_.kernel, work_.data());
    for (std::size_t k = 0; k < signals; ++k) now_[k] = work_[static_cast<std::size_t>(results[k])];
    for (std::size_t i = 0; i < asked_.statistics.size(); ++i) {
      const Statistic& one = asked_.statistics[i];
      if (of_event(one.what)) continue;
      const auto of = static_cast<std::size_t>(one.of);
      const double value = now_[of];
      double& to = told.statistics[i];
      switch (one.what) {
        case Statistic::What::Initial:
          if (!any_) to = value;
          break;
        case Statistic::What::Final: to = value; break;
        case Statistic::What::Minimum:
          if (!any_ || value < to || value != value) to = value;
          break;
        case Statistic::What::Maximum:
          if (!any_ || value > to || value != value) to = value;
          break;
        case Statistic::What::Integral:
          if (any_) to = to + (asked_.held[of] ? before_[of] : 0.5 * (before_[of] + value)) * (t - time_);
          break;
        case Statistic::What::First:
          if (value != 0.0 && to != to) to = t;
          break;
        case Statistic::What::Last:
          if (value != 0.0) to = t;
          break;
        default: break;
      }
    }
    // The times since the row before; at a jump it is the value after it.
    while (any_ && sample_ < asked_.grid.size() && asked_.grid[sample_] < t) {
      const double past = asked_.grid[sample_] - time_;
      const double part = past > 0.0 ? past / (t - time_) : 0.0;
      double* const to = told.samples + sample_ * asked_.sampled.size();
      for (std::size_t k = 0; k < asked_.sampled.size(); ++k) {
        const auto of = static_cast<std::size_t>(asked_.sampled[k]);
        to[k] = part == 0.0 || asked_.held[of] ? before_[of] : before_[of] + part * (now_[of] - before_[of]);
      }
      ++sample_;
    }
    std::swap(now_, before_);
    time_ = t;
    any_ = true;
  }
}

void Ensemble::take_events(const Told& told) {
  FiredLog& log = machine_.fired();
  std::size_t committed = 0;
  for (; committed < log.size() && log.data()[committed].index >= 0; ++committed) {
    const Fired& fired = log.data()[committed];
    if (fired_ < asked_.events) {
      told.events[fired_] = fired.event;
      told.times[fired_] = fired.time;
    }
    ++fired_;
    for (std::size_t i = 0; i < asked_.statistics.size(); ++i) {
      const Statistic& one = asked_.statistics[i];
      if (!of_event(one.what) || one.of != fired.event) continue;
      double& to = told.statistics[i];
      if (one.what == Statistic::What::Count) {
        to += 1.0;
      } else if (one.what == Statistic::What::LastEvent || to != to) {
        to = fired.time;
      }
    }
  }
  log.drop(committed);
}

void Ensemble::finish(const Told& told) {
  while (any_ && sample_ < asked_.grid.size() && asked_.grid[sample_] <= time_) {
    double* const to = told.samples + sample_++ * asked_.sampled.size();
    for (std::size_t k = 0; k < asked_.sampled.size(); ++k) to[k] = before_[static_cast<std::size_t>(asked_.sampled[k])];
  }
  told.totals[0] = static_cast<double>(memory_.steps);
  told.totals[1] = static_cast<double>(memory_.rejected);
  told.totals[2] = static_cast<double>(fired_);
  told.totals[3] = machine_.cells()[machine_.tables().now].r;
}

}  // namespace upbeat
