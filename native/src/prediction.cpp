// See prediction.hpp. The formulas, and the order of their operations, are those of the Python twin.
#include "prediction.hpp"

#include <cmath>
#include <limits>

namespace upbeat {

namespace {

constexpr int parts = 8;      // a step is looked at in so many parts
constexpr int halvings = 50;  // how often the interval with a root is halved
constexpr int thirds = 40;    // how often the interval with a dip is made shorter by a third

// The value of the largest at a time, and its slope.
struct Top {
  double value;
  double slope;
};

double largest(const Curve* curves, std::size_t count, double at) {
  double found = curves[0].value(at);
  for (std::size_t k = 1; k < count; ++k) {
    const double other = curves[k].value(at);
    if (other > found) found = other;
  }
  return found;
}

Top top(const Curve* curves, std::size_t count, double at) {
  double found = curves[0].value(at);
  std::size_t which = 0;
  for (std::size_t k = 1; k < count; ++k) {
    const double other = curves[k].value(at);
    if (other > found) {
      found = other;
      which = k;
    }
  }
  return {found, curves[which].slope(at)};
}

// Where it falls to zero, between a time at which it is above and one at which it is not.
double root(const Curve* curves, std::size_t count, double low, double high) {
  for (int i = 0; i < halvings; ++i) {
    const double middle = 0.5 * (low + high);
    (largest(curves, count, middle) > 0.0 ? low : high) = middle;
  }
  return high;
}

// Where it is lowest between two times; with the sign -1, highest.
double dip(const Curve* curves, std::size_t count, double low, double high, double sign = 1.0) {
  for (int i = 0; i < thirds; ++i) {
    const double third = (high - low) / 3.0;
    const double one = low + third;
    const double two = high - third;
    if (sign * largest(curves, count, one) < sign * largest(curves, count, two)) {
      high = two;
    } else {
      low = one;
    }
  }
  return 0.5 * (low + high);
}

}  // namespace

bool Curve::stays_above(double span) const {
  double fall = std::fabs(c[5]);
  for (int k = 4; k >= 1; --k) fall = fall * span + std::fabs(c[k]);
  return c[0] - fall * span > 0.0;
}

Curve straight(const double* s, double h) { return {{s[0], (s[0] - s[sample_width]) / h, 0.0, 0.0, 0.0, 0.0}}; }

Curve parabola(const double* s, double h, double more) {
  const double near = (s[0] - s[sample_width]) / h;
  const double far = (s[sample_width] - s[2 * sample_width]) / more;
  const double bend = (near - far) / (h + more);
  return {{s[0], near + bend * h, bend, 0.0, 0.0, 0.0}};
}

Curve taylor(double z, double rate, double bend) { return {{z, rate, 0.5 * bend, 0.0, 0.0, 0.0}}; }

Curve cubic(const double* s, double h) {
  const double* const old = s + sample_width;
  const double a = (old[0] - s[0] + s[1] * h) / (h * h);
  const double b = (s[1] - old[1]) / h;
  return {{s[0], s[1], 3.0 * a - b, (2.0 * a - b) / h, 0.0, 0.0}};
}

Curve quintic(const double* s, double h) {
  const double* const old = s + sample_width;
  const double half = 0.5 * s[2];
  const double d0 = old[0] - (s[0] - s[1] * h + half * h * h);
  const double d1 = (old[1] - (s[1] - s[2] * h)) * h;
  const double d2 = (old[2] - s[2]) * h * h;
  const double a = -10.0 * d0 - 4.0 * d1 - 0.5 * d2;
  const double b = 5.0 * d0 + 2.0 * a + d1;
  const double c = d1 + a + 4.0 * d0;
  const double cube = h * h * h;
  return {{s[0], s[1], half, a / cube, b / (cube * h), c / (cube * h * h)}};
}

std::int32_t known(std::int32_t order, const double* sample, const double* other) {
  if (order == 2 && (std::isnan(sample[2]) || std::isnan(other[2]))) order = 1;
  if (order == 1 && (std::isnan(sample[1]) || std::isnan(other[1]))) order = 0;
  return order;
}

Curve through(const double* samples, std::int32_t order, double h) {
  if (order == 0) return straight(samples, h);
  return order == 1 ? cubic(samples, h) : quintic(samples, h);
}

double first_zero(const Curve* curves, std::size_t count, double span) {
  for (std::size_t k = 0; k < count; ++k) {
    if (curves[k].stays_above(span)) return std::numeric_limits<double>::infinity();
  }
  double left = 0.0;
  const Top begin = top(curves, count, left);
  bool above = begin.value > 0.0;
  double leaning = begin.slope;
  for (int k = 1; k <= parts; ++k) {
    const double right = span * (static_cast<double>(k) / parts);
    const Top now = top(curves, count, right);
    if (above && now.value <= 0.0) return root(curves, count, left, right);
    if (above && leaning < 0.0 && 0.0 < now.slope) {
      const double lowest = dip(curves, count, left, right);
      if (largest(curves, count, lowest) <= 0.0) return root(curves, count, left, lowest);
    }
    if (!above && now.value <= 0.0 && now.slope < 0.0 && 0.0 < leaning) {
      const double highest = dip(curves, count, left, right, -1.0);
      if (largest(curves, count, highest) > 0.0) return root(curves, count, highest, right);
    }
    above = above || now.value > 0.0;
    left = right;
    leaning = now.slope;
  }
  return std::numeric_limits<double>::infinity();
}

double highest(const Curve* curves, std::size_t count, double until) { return dip(curves, count, 0.0, until, -1.0); }

bool rises_below(const Curve* curves, std::size_t count, double span) {
  const Top now = top(curves, count, 0.0);
  if (now.value > 0.0 || !(now.slope > 0.0)) return false;
  for (int k = 1; k <= parts; ++k) {
    if (largest(curves, count, span * (static_cast<double>(k) / parts)) > 0.0) return false;
  }
  return true;
}

Landing landing(const Curve* curves, std::size_t count, double span, double behind) {
  const double zero = first_zero(curves, count, span);
  if (std::isinf(zero)) return {zero, false};
  if (!(largest(curves, count, 0.0) > 0.0)) return {highest(curves, count, zero), true};
  return {just_behind(curves, count, zero, behind), false};
}

double just_behind(const Curve* curves, std::size_t count, double root, double distance) {
  const double end = root + distance;
  return largest(curves, count, end) > 0.0 ? dip(curves, count, root, end) : end;
}

}  // namespace upbeat
