// Interpolation tables of one and two variables, in the one form to which every variant lowers
// (see upbeat.core.expr.tables).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace upbeat {

// n knots make n + 1 segments: one before the first knot, one after the last. A one-variable table
// has `base` and `slope` in `coefficients`, segment by segment; one of two variables has four
// coefficients per patch, patches row by row.
struct LookupTables {
  std::vector<double> x;
  std::vector<double> y;  // empty: one variable
  std::vector<double> origin_x;
  std::vector<double> origin_y;
  std::vector<double> coefficients;
};

// How many knots are <= u; all of them if u is NaN.
inline std::size_t count_knots(const std::vector<double>& knots, double u) {
  std::size_t low = 0;
  std::size_t high = knots.size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (u < knots[middle]) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

inline double term(double c, double d) { return c == 0.0 ? 0.0 : c * d; }

inline double lookup1(const LookupTables& table, double u) {
  const std::size_t k = count_knots(table.x, u);
  const double d = u - table.origin_x[k];
  return d != d ? d : table.coefficients[2 * k] + term(table.coefficients[2 * k + 1], d);
}

inline double lookup2(const LookupTables& table, double u, double v) {
  const std::size_t k = count_knots(table.x, u);
  const std::size_t l = count_knots(table.y, v);
  const double dx = u - table.origin_x[k];
  const double dy = v - table.origin_y[l];
  if (dx != dx) return dx;
  if (dy != dy) return dy;
  const double* const c = table.coefficients.data() + 4 * (k * (table.y.size() + 1) + l);
  return ((c[0] + term(c[1], dx)) + term(c[2], dy)) + term(c[3], dx * dy);
}

}  // namespace upbeat
