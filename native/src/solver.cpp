// See solver.hpp. max(a, b) is "b if a < b else a" here, min(a, b) "b if b < a else a", as in Python.
#include "solver.hpp"

#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <limits>

namespace upbeat {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double most_micro = 1e9;

double larger(double a, double b) { return a < b ? b : a; }
double smaller(double a, double b) { return b < a ? b : a; }

double ulp(double value) {
  const double size = std::fabs(value);
  const double next = std::nextafter(size, infinity);
  return std::isinf(next) ? size - std::nextafter(size, -infinity) : next - size;
}

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
  k_.resize(n_ * tables_.c.size());
  stage_.resize(n_);
  new_.resize(n_);
  error_.resize(n_);
  message_.reserve(256);
}

bool Solver::advance(Dynamics& f, double t, double to, double* x, double& h) {
  if (n_ == 0) return true;
  return tables_.method == Method::Adaptive ? adaptive(f, t, to, x, h) : fixed(f, t, to, x);
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
}

bool Solver::fixed(Dynamics& f, double t, double to, double* x) {
  std::int64_t count = tables_.micro;
  if (tables_.step > 0.0) {
    const double wanted = std::ceil(smaller((to - t) / tables_.step, 2.0 * most_micro) * (1.0 - 1e-9));
    if (wanted > most_micro) {
      return refuse("steps of %g would need more than %s micro-steps to cover %g; choose a larger step", tables_.step,
                    grouped(static_cast<std::int64_t>(most_micro)).c_str(), to - t);
    }
    count = wanted < 1.0 ? 1 : static_cast<std::int64_t>(wanted);
  }
  const double h = (to - t) / static_cast<double>(count);
  for (std::int64_t i = 0; i < count; ++i) {
    const double start = t + static_cast<double>(i) * h;
    f.derivatives(start, x, k_.data());
    stages(f, start, h, x);
    moved(b_, h, x, x);
  }
  return true;
}

bool Solver::adaptive(Dynamics& f, double t, double to, double* x, double& kept) {
  f.derivatives(t, x, k_.data());
  double h = limited(kept > 0.0 ? kept : first(t, to, x));
  for (std::int64_t tried = 0; tried < tables_.max_steps; ++tried) {
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
      continue;
    }
    const double proposed = limited(length * factor);
    h = cut ? larger(h, proposed) : proposed;
    for (std::size_t j = 0; j < n_; ++j) x[j] = new_[j];
    if (cut) {
      kept = h;
      return true;
    }
    t = t + length;
    // The last stage is the first one of the next step.
    const double* const last = k_.data() + (rows_.size() - 1) * n_;
    for (std::size_t j = 0; j < n_; ++j) k_[j] = last[j];
  }
  return refuse("%s steps did not reach %.9g (at t = %.9g, step size %.3g); loosen rtol and atol, raise max_steps, or "
                "take shorter communication steps",
                grouped(tables_.max_steps).c_str(), to, t, h);
}

double Solver::limited(double h) const { return tables_.most > 0.0 ? smaller(h, tables_.most) : h; }

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
    const double part = values[j] / (tables_.atol + tables_.rtol * larger(std::fabs(x[j]), std::fabs(next[j])));
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
