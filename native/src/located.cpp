// See located.hpp; how the root is enclosed is told in units/solving/integrate.py.
#include "located.hpp"

#include <utility>

namespace upbeat {

namespace {

constexpr double tolerance = 1e-12;

}  // namespace

void Dense::at(double t, double* x) const {
  const std::size_t n = rows.size() / 5;
  const double s = (t - start) / length;
  const double r = 1.0 - s;
  const double* const row = rows.data();
  for (std::size_t j = 0; j < n; ++j) {
    x[j] = row[j] + s * (row[n + j] + r * (row[2 * n + j] + s * (row[3 * n + j] + r * row[4 * n + j])));
  }
}

Watch::Watch(std::size_t indicators, std::size_t states)
    : low_(indicators),
      high_(indicators),
      middle_(indicators),
      state_(states),
      crossed_(indicators),
      found_(indicators) {}

// Which functions have another sign than at the low end; leaves the last answer as it was if there are none.
bool Watch::crossings(const std::vector<double>& now) {
  bool any = false;
  for (std::size_t i = 0; i < low_.size(); ++i) {
    found_[i] = static_cast<char>((low_[i] > 0.0) != (now[i] > 0.0));
    any = any || found_[i];
  }
  return any;
}

double Watch::first_root(double weight) const {
  double first = 1.0;
  for (std::size_t i = 0; i < low_.size(); ++i) {
    if ((low_[i] > 0.0) == (high_[i] > 0.0)) continue;
    const double scaled = weight * low_[i];
    const double fall = scaled - high_[i];
    double part = fall != 0.0 ? scaled / fall : 0.5;
    if (!(0.0 <= part && part <= 1.0)) part = 0.5;  // values that are infinite, or not numbers
    first = smaller(first, part);
  }
  return first;
}

void Watch::locate(double low, double high, double* x, const Dense& dense) {
  crossed_ = found_;
  const double room = larger(tolerance * (high - low), 4.0 * ulp(larger(std::fabs(low), std::fabs(high))));
  double weight = 1.0;
  int moved = 0;
  int slow = 0;
  while (high - low > room) {
    const double width = high - low;
    const double part = slow == 2 ? 0.5 : first_root(weight);
    if (slow == 2) slow = 0;
    const double t = larger(low + 0.5 * room, smaller(high - 0.5 * room, low + part * width));
    dense.at(t, state_.data());
    indicators(t, state_.data(), middle_.data());
    if (crossings(middle_)) {
      weight = moved == 1 ? 0.5 * weight : 1.0;
      moved = 1;
      high = t;
      std::swap(high_, middle_);
      std::swap(crossed_, found_);
      for (std::size_t j = 0; j < state_.size(); ++j) x[j] = state_[j];
    } else {
      weight = moved == -1 ? 2.0 * weight : 1.0;
      moved = -1;
      low = t;
      std::swap(low_, middle_);
    }
    slow = high - low > 0.5 * width ? slow + 1 : 0;
  }
  time_ = high;
}

}  // namespace upbeat
