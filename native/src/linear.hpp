// Dense linear systems: Gaussian elimination with partial pivoting. The twin in Python is
// src/upbeat/master/computations.py; the order of operations is the same, so the bits are, too.
#pragma once

#include <cmath>
#include <cstddef>
#include <utility>

#include "cell.hpp"

namespace upbeat {

// to := matrix^-1 right; `work` has room for size * (size + 1) doubles. A singular matrix leaves
// values that are not finite.
inline void solve(std::size_t size, const Cell* matrix, const Cell* right, Cell* to, double* work) {
  double* const a = work;
  double* const b = work + size * size;
  for (std::size_t i = 0; i < size * size; ++i) a[i] = matrix[i].r;
  for (std::size_t i = 0; i < size; ++i) b[i] = right[i].r;
  for (std::size_t k = 0; k < size; ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k + 1; i < size; ++i) {
      if (std::fabs(a[i * size + k]) > std::fabs(a[pivot * size + k])) pivot = i;
    }
    if (pivot != k) {
      for (std::size_t j = 0; j < size; ++j) std::swap(a[k * size + j], a[pivot * size + j]);
      std::swap(b[k], b[pivot]);
    }
    for (std::size_t i = k + 1; i < size; ++i) {
      const double factor = a[i * size + k] / a[k * size + k];
      for (std::size_t j = k + 1; j < size; ++j) a[i * size + j] = a[i * size + j] - factor * a[k * size + j];
      b[i] = b[i] - factor * b[k];
    }
  }
  for (std::size_t i = size; i-- > 0;) {
    double rest = b[i];
    for (std::size_t j = i + 1; j < size; ++j) rest = rest - a[i * size + j] * b[j];
    b[i] = rest / a[i * size + i];
  }
  for (std::size_t i = 0; i < size; ++i) to[i].r = b[i];
}

}  // namespace upbeat
