// Events that come one right after the other: the twin of upbeat.master.paces.chains, and of `visible` in margins, bit for bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace upbeat {
namespace chains {

constexpr double burst = 2000.0;   // so many events may come one right after the other
constexpr double per_step = 10.0;  // so many more for each usual step that passes
constexpr double few = 3.0;      // so many in a row are an endless chain, if the next one would come too soon to be seen
constexpr double tiny = 1e-3;    // the part of what is close enough below which nothing is told apart

inline double right_after(double close, double step) { return std::min(100.0 * close, 0.01 * step); }

inline double longer(double chain, double last, double t, double within) {
  return t - last <= within ? chain + 1.0 : 0.0;
}

// What is left of a budget after the step from `t` to `reached`, which has ended at an event or not.
inline double left(double budget, double rate, double t, double reached, double limit, bool event) {
  const double passed = reached - t;
  const double earned = rate > 0.0 ? passed * rate : per_step * (passed / (limit - t));
  budget = std::min(budget + earned, burst);
  return event ? budget - 1.0 : budget;
}

}  // namespace chains

constexpr double grains = 4.0;  // late in a run, nothing is closer to an event than so many units of its time

// No less than what numbers of the size of `t` can tell apart, `grains` times.
inline double visible(double length, double t, double grains) {
  const double size = std::fabs(t);
  return std::max(length, grains * (std::nextafter(size, std::numeric_limits<double>::infinity()) - size));
}

}  // namespace upbeat
