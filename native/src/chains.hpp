// Events that come one right after the other: what is left of the budget for them, as in upbeat.master.paces.chains.
#pragma once

#include <algorithm>

namespace upbeat {
namespace chains {

constexpr double burst = 2000.0;   // so many events may come one right after the other
constexpr double per_step = 10.0;  // so many more for each usual step that passes

// What is left of a budget after the step from `t` to `reached`, which has ended at an event or not.
inline double left(double budget, double rate, double t, double reached, double limit, bool event) {
  const double passed = reached - t;
  const double earned = rate > 0.0 ? passed * rate : per_step * (passed / (limit - t));
  budget = std::min(budget + earned, burst);
  return event ? budget - 1.0 : budget;
}

}  // namespace chains

}  // namespace upbeat
