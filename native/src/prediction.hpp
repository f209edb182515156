// When a number will fall to zero: the twin of upbeat.master.prediction, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cell.hpp"

namespace upbeat {

// c of Σ c[k]·τ^k, where τ counts from now on.
struct Curve {
  double c[6];

  double value(double at) const {
    return c[0] + at * (c[1] + at * (c[2] + at * (c[3] + at * (c[4] + at * c[5]))));
  }
  double slope(double at) const {
    return c[1] + at * (2.0 * c[2] + at * (3.0 * c[3] + at * (4.0 * c[4] + at * (5.0 * c[5]))));
  }
  // Whether it is certainly above zero all the time; cheap, and true for most.
  bool stays_above(double span) const;
};

// What the instructions `Fit` and `Fall` do (see upbeat.master.computations), with the operands that computations.hpp lists.
void fit(Cell* cells, std::size_t count, const std::int32_t* operands);
void fall(Cell* cells, std::size_t groups, const std::int32_t* operands);

// The first time in (0, span] at which the largest falls from above zero to it, also where it only dips below
// zero, or only rises above it, for less than a part of the span; else infinity.
double first_zero(const Curve* curves, std::size_t count, double span);

// Where the largest is highest before a time at which it falls to zero.
double highest(const Curve* curves, std::size_t count, double until);

// Whether the largest is not above zero now, but on its way there, and will not get there in `span`.
bool rises_below(const Curve* curves, std::size_t count, double span);

// So far behind a zero, if the largest is not above zero again by then; else where it is lowest.
double just_behind(const Curve* curves, std::size_t count, double root, double distance);

}  // namespace upbeat
