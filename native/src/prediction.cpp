// See prediction.hpp. The formulas, and the order of their operations, are those of the Python twin.
#include "prediction.hpp"

#include <cmath>
#include <cstring>
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

namespace {

// Through a sample and the one `h` before it, and the one `more` before that.
Curve straight(const Cell* now, const Cell* old, double h) { return {{now[0].r, (now[0].r - old[0].r) / h, 0.0, 0.0, 0.0, 0.0}}; }

Curve parabola(const Cell* now, const Cell* old, const Cell* oldest, double h, double more) {
  const double near = (now[0].r - old[0].r) / h;
  const double far = (old[0].r - oldest[0].r) / more;
  const double bend = (near - far) / (h + more);
  return {{now[0].r, near + bend * h, bend, 0.0, 0.0, 0.0}};
}

Curve taylor(double z, double rate, double bend) { return {{z, rate, 0.5 * bend, 0.0, 0.0, 0.0}}; }

Curve cubic(const Cell* now, const Cell* old, double h) {
  const double a = (old[0].r - now[0].r + now[1].r * h) / (h * h);
  const double b = (now[1].r - old[1].r) / h;
  return {{now[0].r, now[1].r, 3.0 * a - b, (2.0 * a - b) / h, 0.0, 0.0}};
}

Curve quintic(const Cell* now, const Cell* old, double h) {
  const double half = 0.5 * now[2].r;
  const double d0 = old[0].r - (now[0].r - now[1].r * h + half * h * h);
  const double d1 = (old[1].r - (now[1].r - now[2].r * h)) * h;
  const double d2 = (old[2].r - now[2].r) * h * h;
  const double a = -10.0 * d0 - 4.0 * d1 - 0.5 * d2;
  const double b = 5.0 * d0 + 2.0 * a + d1;
  const double c = d1 + a + 4.0 * d0;
  const double cube = h * h * h;
  return {{now[0].r, now[1].r, half, a / cube, b / (cube * h), c / (cube * h * h)}};
}

// How many derivatives two samples both have, at most `order`: an FMU does not know its own at the start.
std::int32_t known(std::int32_t order, const Cell* sample, const Cell* other) {
  if (order == 2 && (std::isnan(sample[2].r) || std::isnan(other[2].r))) order = 1;
  if (order == 1 && (std::isnan(sample[1].r) || std::isnan(other[1].r))) order = 0;
  return order;
}

}  // namespace

void fit(Cell* cells, std::size_t count, const std::int32_t* operands) {
  constexpr std::size_t width = 3;  // of a sample: a value, its rate and its second derivative
  const Cell* now = cells + operands[0];
  const Cell* old = cells + operands[1];
  const Cell* oldest = cells + operands[2];
  const double kept = cells[operands[3]].r;
  const bool near = cells[operands[3] + 1].r != 0.0;
  const double h = cells[operands[4]].r;
  const double more = cells[operands[4] + 1].r;
  const bool alone = operands[6] != 0;
  double* to = &cells[operands[5]].r;
  for (std::size_t k = 0; k < count; ++k) {
    const std::int32_t order = known(operands[7 + k], now, alone ? now : old);
    Curve curve;
    if (order == 0) {
      curve = kept < 2.0 ? taylor(now[0].r, 0.0, 0.0) : kept < 3.0 ? straight(now, old, h) : parabola(now, old, oldest, h, more);
    } else {
      const bool unknown = alone && (std::isnan(old[1].r) || (order == 2 && std::isnan(old[2].r)));
      if (kept < 2.0 || near || unknown) {
        curve = taylor(now[0].r, now[1].r, order == 2 ? now[2].r : 0.0);
      } else {
        curve = order == 1 ? cubic(now, old, h) : quintic(now, old, h);
      }
    }
    std::memcpy(to, curve.c, sizeof curve.c);
    to += 6;
    now += width;
    old += width;
    oldest += width;
  }
}

void fall(Cell* cells, std::size_t groups, const std::int32_t* operands) {
  static_assert(sizeof(Curve) == 6 * sizeof(Cell), "curves lie in cells");
  const auto* curves = reinterpret_cast<const Curve*>(&cells[operands[0]].r);
  const double span = cells[operands[1]].r;
  const double behind = cells[operands[2]].r;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  double* to = &cells[operands[3]].r;
  double& telling = *to++;
  telling = 0.0;
  for (std::size_t group = 0; group < groups; ++group) {
    const auto count = static_cast<std::size_t>(operands[4 + group]);
    bool stays = false;
    for (std::size_t k = 0; k < count && !stays; ++k) stays = curves[k].stays_above(span);
    to[0] = to[1] = to[2] = infinity;
    to[3] = 1.0;
    to[4] = 0.0;
    if (!stays) {
      to[0] = first_zero(curves, count, span);
      to[3] = largest(curves, count, 0.0) > 0.0 ? 1.0 : 0.0;
      if (std::isinf(to[0])) {
        to[4] = rises_below(curves, count, span) ? 1.0 : 0.0;
      } else {
        to[1] = just_behind(curves, count, to[0], behind);
        to[2] = highest(curves, count, to[0]);
      }
      if (!std::isinf(to[0]) || to[4] != 0.0) telling += 1.0;
    }
    curves += count;
    to += 5;
  }
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

double just_behind(const Curve* curves, std::size_t count, double root, double distance) {
  const double end = root + distance;
  return largest(curves, count, end) > 0.0 ? dip(curves, count, root, end) : end;
}

}  // namespace upbeat
