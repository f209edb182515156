// What an input does from the time on at which it was set. The twin of upbeat.units.fmi.courses.
#pragma once

#include "cell.hpp"

namespace upbeat::fmi {

// [number of coefficients, origin, coefficients, each of all cells], somewhere in the cells of a unit.
struct Course {
  const Cell* at;

  std::int64_t count() const { return at[0].i; }
  double origin() const { return at[1].r; }

  // The value at `t` of a course with coefficients, by Horner's rule.
  void value(double t, std::int32_t width, double* to) const {
    const double tau = t - origin();
    for (std::int32_t i = 0; i < width; ++i) {
      const Cell* coefficient = at + 2 + (count() - 1) * width + i;
      double now = coefficient->r;
      for (std::int64_t k = 1; k < count(); ++k) {
        coefficient -= width;
        now = now * tau + coefficient->r;
      }
      to[i] = now;
    }
  }

  // The derivative of a single real input at `t`, by Horner's rule.
  double derivative(int order, double t) const {
    const double tau = t - origin();
    double value = 0.0;
    for (auto k = static_cast<int>(count()) - 1; k >= order; --k) {
      double factor = 1.0;  // k! / (k - order)!
      for (int i = 0; i < order; ++i) factor *= k - i;
      value = value * tau + factor * at[2 + k].r;
    }
    return value;
  }
};

}  // namespace upbeat::fmi
