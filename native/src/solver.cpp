// See solver.hpp. max(a, b) is "b if a < b else a" here, min(a, b) "b if b < a else a", as in Python.
#include "solver.hpp"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <limits>

namespace upbeat {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double most_micro = 1e9;

// By how much to change the step: within 0.2 … 5, and 0.2 if the error is not finite.
double factor_of(double error) {
  if (error == 0.0) return 5.0;
  if (!(error < infinity)) return 0.2;
  return larger(0.2, smaller(5.0, 0.9 * std::pow(error, -0.2)));
}

// 100000 as "100,000".
std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

}  // namespace

std::atomic<bool> Stop::interrupted{false};
thread_local const Stop* Working::now_ = nullptr;

std::string problem_in(const SolverTables& tables) {
  if (tables.steps < 1) return "a solver without steps";
  const std::size_t stages = tables.c.size();
  const auto nothing = [](double weight) { return weight == 0.0; };
  const auto weights = [&](const std::vector<double>& row) {
    return row.size() == stages && !std::all_of(row.begin(), row.end(), nothing);
  };
  if (stages == 0 || tables.a.size() != stages * stages || !weights(tables.b) ||
      (tables.method == Method::Adaptive && !weights(tables.e)) || (!tables.d.empty() && tables.d.size() != stages)) {
    return "the solver's tableau is not one";
  }
  return "";
}

Solver::Solver(const SolverTables& tables, std::size_t states) : tables_(tables), n_(states) {
  const auto weights = [](const double* row, std::size_t count) {
    Weights kept;
    for (std::size_t q = 0; q < count; ++q) {
      if (row[q] != 0.0) kept.push_back({q, row[q]});
    }
    return kept;
  };
  const std::size_t count = tables_.c.size();
  for (std::size_t s = 0; s < count; ++s) rows_.push_back(weights(tables_.a.data() + s * count, s));
  b_ = weights(tables_.b.data(), tables_.b.size());
  e_ = weights(tables_.e.data(), tables_.e.size());
  d_ = weights(tables_.d.data(), tables_.d.size());
  dense_.rows.resize(5 * n_);
  atol_.assign(n_, tables_.atol);
  k_.resize(n_ * tables_.c.size());
  stage_.resize(n_);
  new_.resize(n_);
  error_.resize(n_);
  message_.reserve(256);
}

bool Solver::advance(Dynamics& f, double t, double to, double* x, double& h, Watch* watch) {
  if (n_ == 0) return !watch || still(t, to, *watch);
  return tables_.method == Method::Adaptive ? adaptive(f, t, to, x, h, watch) : fixed(f, t, to, x, watch);
}

void Solver::scale(const double* nominals) {
  for (std::size_t j = 0; j < n_; ++j) atol_[j] = tables_.atol * nominals[j];
}

double Solver::combined(const Weights& weights, std::size_t j) const {
  const Weight* weight = weights.data();
  const Weight* const end = weight + weights.size();
  double sum = weight->value * k_[weight->stage * n_ + j];
  while (++weight != end) sum = sum + weight->value * k_[weight->stage * n_ + j];
  return sum;
}

void Solver::moved(const Weights& weights, double h, const double* x, double* to) const {
  for (std::size_t j = 0; j < n_; ++j) to[j] = x[j] + h * combined(weights, j);
}

// All stages but the first one, whose derivatives are in k_ already.
void Solver::stages(Dynamics& f, double t, double h, const double* x) {
  for (std::size_t s = 1; s < rows_.size(); ++s) {
    const double* state = x;
    if (!rows_[s].empty()) {
      moved(rows_[s], h, x, stage_.data());
      state = stage_.data();
    }
    f.derivatives(t + tables_.c[s] * h, state, k_.data() + s * n_);
  }
  statistics_.evaluations += static_cast<std::int64_t>(rows_.size()) - 1;
}

// How many solver steps cover `length`; 0 if too many (see `message`).
std::int64_t Solver::micro_steps(double length) {
  if (!(tables_.step > 0.0)) return tables_.steps;
  const double wanted = std::ceil(smaller(length / tables_.step, 2.0 * most_micro) * (1.0 - 1e-9));
  if (wanted > most_micro) {
    refuse("steps of %g would need more than %s solver steps to cover %g; choose a larger step", tables_.step,
           grouped(static_cast<std::int64_t>(most_micro)).c_str(), length);
    return 0;
  }
  return wanted < 1.0 ? 1 : static_cast<std::int64_t>(wanted);
}

bool Solver::fixed(Dynamics& f, double t, double to, double* x, Watch* watch) {
  const std::int64_t count = micro_steps(to - t);
  if (count == 0) return false;
  const double h = (to - t) / static_cast<double>(count);
  for (std::int64_t i = 0; i < count; ++i) {
    if (Working::should_stop()) return refuse("it was interrupted");
    const double start = t + static_cast<double>(i) * h;
    f.derivatives(start, x, k_.data());
    ++statistics_.evaluations;
    stages(f, start, h, x);
    ++statistics_.steps;
    if (!watch) {
      moved(b_, h, x, x);
      continue;
    }
    moved(b_, h, x, new_.data());
    const double end = i + 1 < count ? t + static_cast<double>(i + 1) * h : to;
    const bool stopped = watch->step(start, end, new_.data(), [&]() -> const Dense& {
      f.derivatives(end, new_.data(), stage_.data());
      ++statistics_.evaluations;
      return dense(start, h, x, stage_.data(), false);
    });
    for (std::size_t j = 0; j < n_; ++j) x[j] = new_[j];
    if (!stopped) continue;
    ++statistics_.stops;
    return true;
  }
  return true;
}

// Without states there is nothing that could err: only time and inputs can make something cross.
bool Solver::still(double t, double to, Watch& watch) {
  const bool whole = tables_.method == Method::Adaptive;
  const std::int64_t count = whole ? 1 : micro_steps(to - t);
  if (count == 0) return false;
  const double h = (to - t) / static_cast<double>(count);
  for (std::int64_t i = 0; i < count; ++i) {
    if (Working::should_stop()) return refuse("it was interrupted");
    const double start = t + static_cast<double>(i) * h;
    const double end = i + 1 < count ? t + static_cast<double>(i + 1) * h : to;
    if (watch.step(start, end, new_.data(), [&]() -> const Dense& { return dense_; })) return true;
  }
  return true;
}

// The solution within a step from `x` to `new_`, whose first slope is in k_: from states and slopes at both ends, and
// the term at the top. Without that it is Hermite's cubic.
const Dense& Solver::dense(double t, double h, const double* x, const double* after, bool top) {
  dense_.start = t;
  dense_.length = h;
  double* const rows = dense_.rows.data();
  for (std::size_t j = 0; j < n_; ++j) {
    const double change = new_[j] - x[j];
    const double left = h * k_[j] - change;
    rows[j] = x[j];
    rows[n_ + j] = change;
    rows[2 * n_ + j] = left;
    rows[3 * n_ + j] = change - h * after[j] - left;
    rows[4 * n_ + j] = top ? h * combined(d_, j) : 0.0;
  }
  return dense_;
}

bool Solver::adaptive(Dynamics& f, double t, double to, double* x, double& kept, Watch* watch) {
  f.derivatives(t, x, k_.data());
  ++statistics_.evaluations;
  // The first step is a guess: that time cannot tell it from none is no reason to give up.
  double h = limited(kept > 0.0 ? kept : larger(first(t, to, x), 16.0 * ulp(t)));
  for (std::int64_t tried = 0; tried < tables_.max_steps; ++tried) {
    if (Working::should_stop()) return refuse("it was interrupted");
    const bool cut = t + 1.0000001 * h >= to;
    const double length = cut ? to - t : h;
    if (!cut && h < 16.0 * ulp(t)) {
      return refuse("the step size fell to %.3g at t = %.9g: the solution grows without bound, jumps, or is too stiff "
                    "for an explicit method",
                    h, t);
    }
    stages(f, t, length, x);
    moved(b_, length, x, new_.data());
    for (std::size_t j = 0; j < n_; ++j) error_[j] = length * combined(e_, j);
    const double error = norm(error_.data(), x, new_.data());
    const double factor = factor_of(error);
    if (!(error <= 1.0)) {
      h = length * smaller(1.0, factor);
      ++statistics_.rejected;
      continue;
    }
    ++statistics_.steps;
    const double proposed = limited(length * factor);
    h = cut ? larger(h, proposed) : proposed;
    const double end = cut ? to : t + length;
    // The last stage is the first one of the next step.
    const double* const last = k_.data() + (rows_.size() - 1) * n_;
    const bool stopped =
        watch && watch->step(t, end, new_.data(),
                             [&]() -> const Dense& { return dense(t, length, x, last, !d_.empty()); });
    for (std::size_t j = 0; j < n_; ++j) x[j] = new_[j];
    if (stopped) ++statistics_.stops;
    if (cut || stopped) {
      kept = h;
      return true;
    }
    t = end;
    for (std::size_t j = 0; j < n_; ++j) k_[j] = last[j];
  }
  return refuse("%s steps did not reach %.9g (at t = %.9g, step size %.3g); loosen rtol and atol, raise 'max_steps', or "
                "take shorter communication steps",
                grouped(tables_.max_steps).c_str(), to, t, h);
}

double Solver::limited(double h) const { return tables_.longest > 0.0 ? smaller(h, tables_.longest) : h; }

double Solver::first(double t, double to, const double* x) const {
  const double remaining = to - t;
  if (tables_.first > 0.0) return smaller(tables_.first, remaining);
  const double size = norm(x, x, x);
  const double speed = norm(k_.data(), x, x);
  if (!(1e-5 < size && size < infinity && 1e-5 < speed && speed < infinity)) return remaining / 10.0;
  return smaller(0.01 * (size / speed), remaining);
}

double Solver::norm(const double* values, const double* x, const double* next) const {
  double total = 0.0;
  for (std::size_t j = 0; j < n_; ++j) {
    const double part = values[j] / (atol_[j] + tables_.rtol * larger(std::fabs(x[j]), std::fabs(next[j])));
    total = total + part * part;
  }
  return std::sqrt(total / static_cast<double>(n_));
}

bool Solver::refuse(const char* format, ...) {
  char text[256];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  message_ = text;
  return false;
}

}  // namespace upbeat
