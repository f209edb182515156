// How long the steps of co-simulation are: upbeat.units.fmi.steady, which this follows.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "text.hpp"

namespace upbeat::fmi {

constexpr double rounded = 0x1p-50;  // by how much a difference of times may be off, as a part of them

// The length that an FMU is told for a step: that of the grid (0: there is none), if the step is one of it.
inline double nominal(double t, double to, double grid) {
  constexpr double small = 0x1p-20;
  const double length = to - t;
  const double slack = rounded * std::max(std::fabs(t), std::fabs(to));
  if (!(slack < small * std::min(grid, length))) return length;
  if (std::fabs(length - grid) <= slack) return grid;
  const double ratio = length / grid;
  const double count = std::nearbyint(ratio > 1.0 ? ratio : 1.0 / ratio);  // ties to even, as in Python
  const double found = ratio > 1.0 ? count * grid : grid / count;
  return std::fabs(length - found) <= slack ? found : length;
}

class SteadySteps {
 public:
  // Steps with a length strictly between these need not be looked at; all of them if any length will do.
  double above = 0.0;
  double below = std::numeric_limits<double>::infinity();

  explicit SteadySteps(bool needed = false) : needed_(needed) { look_at_all(); }

  // A step is to be tried, which ends at an event of the FMU itself if it is its `own`. Empty, or what is wrong.
  std::string begin(double now, double until, bool own) {
    if (!needed_) return {};
    if (now >= odd_until_) return sentence(odd_from_, odd_until_);
    odd_from_ = odd_until_ = nan_;
    look_at_all();
    if (own || now == stopped_) return {};
    const double length = until - now;
    if (std::isnan(first_)) first_ = length;
    const double slack = 1e-9 * first_ + 1e-15 * std::max(std::fabs(now), std::fabs(until));
    if (length > first_ + slack) return sentence(now, until);
    if (length < first_ - slack) {  // which is well if it is the last one
      odd_from_ = now;
      odd_until_ = until;
    } else {
      above = first_ - 1e-9 * first_;
      below = first_ + 1e-9 * first_;
    }
    return {};
  }

  // The FMU ended a step by itself.
  void stopped(double at) {
    stopped_ = at;
    odd_from_ = odd_until_ = nan_;
    look_at_all();
  }

 private:
  static constexpr double nan_ = std::numeric_limits<double>::quiet_NaN();

  void look_at_all() {
    if (needed_) above = std::numeric_limits<double>::infinity();
  }
  std::string sentence(double now, double until) const {
    const std::string first = shorter(first_);
    return "the FMU takes only steps of one length (canHandleVariableCommunicationStepSize is false): the first was " +
           first + " long, the one from " + shorter(now) + " to " + shorter(until) + " is " + shorter(until - now) +
           ". Take a fixed step (--step " + first + ", pace=" + first +
           ") without what ends steps elsewhere (events of other units, error control, a negotiated coupling), or "
           "export the FMU with variable steps";
  }

  bool needed_;
  double first_ = nan_;
  double odd_from_ = nan_, odd_until_ = nan_;
  double stopped_ = nan_;
};

}  // namespace upbeat::fmi
