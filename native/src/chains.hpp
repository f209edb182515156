// Events that come one right after the other: the twin of upbeat.master.paces.chains, and of `visible` in margins, bit for bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace upbeat {
namespace chains {

constexpr double most = 1000.0;  // so many events in a row, each right after the other, are taken for an endless chain
constexpr double few = 3.0;      // so many, if the next one would come too soon to be seen
constexpr double tiny = 1e-3;    // the part of what is close enough below which nothing is told apart

inline double right_after(double close, double step) { return std::min(100.0 * close, 0.01 * step); }

inline double longer(double chain, double last, double t, double within) {
  return t - last <= within ? chain + 1.0 : 0.0;
}

}  // namespace chains

constexpr double grains = 4.0;  // late in a run, nothing is closer to an event than so many units of its time

// No less than what numbers of the size of `t` can tell apart, `grains` times.
inline double visible(double length, double t, double grains) {
  const double size = std::fabs(t);
  return std::max(length, grains * (std::nextafter(size, std::numeric_limits<double>::infinity()) - size));
}

}  // namespace upbeat
