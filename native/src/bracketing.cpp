// See bracketing.hpp. The formulas, and the order of their operations, are those of the Python twin.
#include "bracketing.hpp"

#include <algorithm>
#include <cmath>

namespace upbeat {

namespace {

// A little less than all and a little more than twice, so that rounding does no harm to what is left.
constexpr double barely = 0.99;
constexpr double hardly = 2.01;
constexpr int every = 4;  // each so many-th attempt halves what is left

double aimed(const Bracket& found, double at, double tolerance) {
  double margin = 0.5 * tolerance;
  if (found.streak < 0.0) {
    for (double k = 1.0; k < -found.streak; k += 1.0) margin = margin * 10.0;
    return at + margin;
  }
  const double free = found.sure ? 2.0 : 1.0;
  if (found.streak <= free) return found.sure ? at + margin : at - margin;
  double back = found.high - at;
  for (double k = free; k < found.streak; k += 1.0) back = back * 8.0;
  return at - back;
}

}  // namespace

bool attempt(const Bracket& found, double at, double tolerance, int rounds, int most, double& until) {
  const int left = most - rounds;
  const double width = found.high - found.low;
  if (left <= 0) return false;
  if (width <= tolerance) {
    until = found.high;
    return found.streak < 0.0;
  }
  if (found.sure && found.near && found.streak > 0.0 && found.high - at <= tolerance) return false;
  const double middle = found.low + 0.5 * width;
  const auto inside = [&](double time) { return found.low < time && time < found.high; };
  until = rounds % every == every - 1 ? middle : aimed(found, at, tolerance);
  if (!inside(until)) until = middle;
  const double reach = std::ldexp(barely * tolerance, left - 2);
  if (hardly * reach >= width) {
    const double first = found.high - reach;
    const double last = found.low + reach;
    until = first <= last ? std::min(std::max(until, first), last) : middle;
  }
  if (!inside(until)) until = middle;
  return true;
}

}  // namespace upbeat
