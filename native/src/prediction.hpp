// When a number will fall to zero: the twin of upbeat.master.events.prediction, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>

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

// Through the samples of a number, newest first: `h` lies between the first two of them, `more` between the next.
// A sample is a value, its rate and its second derivative, in this order.
constexpr std::size_t sample_width = 3;
Curve straight(const double* samples, double h);
Curve parabola(const double* samples, double h, double more);
Curve taylor(double z, double rate, double bend);
Curve cubic(const double* samples, double h);
Curve quintic(const double* samples, double h);

// How many derivatives two samples both have, at most `order`: an FMU does not know its own at the start.
std::int32_t known(std::int32_t order, const double* sample, const double* other);

// Through the first two samples, with so many of their derivatives.
Curve through(const double* samples, std::int32_t order, double h);

// The first time in (0, span] at which the largest falls from above zero to it, also where it only dips below
// zero, or only rises above it, for less than a part of the span; else infinity.
double first_zero(const Curve* curves, std::size_t count, double span);

// Where the largest is highest before a time at which it falls to zero.
double highest(const Curve* curves, std::size_t count, double until);

// Whether the largest is not above zero now, but on its way there, and will not get there in `span`.
bool rises_below(const Curve* curves, std::size_t count, double span);

// When to be there, counted from now; and whether that is before the fall, to see it above zero first.
struct Landing {
  double wait;
  bool before;
};

// Where to end the step for the first zero: as far `behind` it as the largest stays below, or else where it is
// lowest. What is not above zero now has happened already: then this is where it is highest before it falls.
Landing landing(const Curve* curves, std::size_t count, double span, double behind);

// So far behind a zero, if the largest is not above zero again by then; else where it is lowest.
double just_behind(const Curve* curves, std::size_t count, double root, double distance);

}  // namespace upbeat
