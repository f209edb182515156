// Dense linear systems: Gaussian elimination with partial pivoting. The twin in Python is
// src/upbeat/master/computations.py; the order of operations is the same, so the bits are, too.
#pragma once

#include <cstddef>

#include "cell.hpp"

namespace upbeat {

// to := matrix^-1 right; `work` has room for size * (size + 1) doubles. A singular matrix leaves
// values that are not finite.
void solve(std::size_t size, const Cell* matrix, const Cell* right, Cell* to, double* work);

}  // namespace upbeat
