// Computations: the instructions that compute cells from cells. The twin of upbeat.master.computations, bit for bit.
//
// Each one is a struct and a line of the table at the end. The numbers of instructions (program.hpp), the check of a program
// (program.cpp), linking (machine.cpp) and the innermost loop (execute.cpp) are made from that table and know none by name.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "cell.hpp"
#include "linear.hpp"
#include "prediction.hpp"

namespace upbeat {

// What stands in a row of the code table behind the number.
struct Operands {
  std::int32_t a, b, c, d;
};

namespace computations {

// What a computation has to say:
//   sound   whether all that it will touch is there: `check` knows which cells are real, and where lists end
//   room    how many doubles it needs to work in
//   run     what it does; `listed` is where all lists of operands begin
struct Plain {
  static std::size_t room(const Operands&) { return 0; }
};

// size, matrix, right, to: a dense linear system.
struct Solve {
  template <class Check>
  static bool sound(const Check& check, const Operands& o) {
    const std::int64_t size = o.a;
    return size >= 1 && size <= 10000 && check.reals(o.b, size * size) && check.reals(o.c, size) && check.reals(o.d, size);
  }
  static std::size_t room(const Operands& o) { return static_cast<std::size_t>(o.a) * (static_cast<std::size_t>(o.a) + 1); }
  static void run(Cell* cells, const Operands& o, const std::int32_t*, double* room) {
    solve(static_cast<std::size_t>(o.a), cells + o.b, cells + o.c, cells + o.d, room);
  }
};

// numbers, at: polynomials through samples. listed[at...]: samples now, before, oldest; kept, apart, to, alone; orders.
struct Fit : Plain {
  template <class Check>
  static bool sound(const Check& check, const Operands& o) {
    const std::int64_t count = o.a;
    const std::int32_t* const at = count < 0 ? nullptr : check.listed(o.b, 7 + count);
    if (!at || !std::all_of(at + 7, at + 7 + count, [](std::int32_t order) { return order >= 0 && order <= 2; })) return false;
    return check.reals(at[0], 3 * count) && check.reals(at[1], 3 * count) && check.reals(at[2], 3 * count) &&
           check.reals(at[3], 2) && check.reals(at[4], 2) && check.reals(at[5], 6 * count);
  }
  static void run(Cell* cells, const Operands& o, const std::int32_t* listed, double*) {
    fit(cells, static_cast<std::size_t>(o.a), listed + o.b);
  }
};

// groups, at: when polynomials fall to zero. listed[at...]: curves, span, behind, to; how many each group has.
struct Fall : Plain {
  template <class Check>
  static bool sound(const Check& check, const Operands& o) {
    const std::int64_t groups = o.a;
    const std::int32_t* const at = groups < 0 ? nullptr : check.listed(o.b, 4 + groups);
    if (!at) return false;
    std::int64_t curves = 0;
    for (std::int64_t k = 0; k < groups; ++k) {
      if (at[4 + k] < 1) return false;
      curves += at[4 + k];
    }
    return check.reals(at[0], 6 * curves) && check.reals(at[1], 1) && check.reals(at[2], 1) && check.reals(at[3], 1 + 5 * groups);
  }
  static void run(Cell* cells, const Operands& o, const std::int32_t* listed, double*) {
    fall(cells, static_cast<std::size_t>(o.a), listed + o.b);
  }
};

// first, count, index, to: a table look-up.
struct Pick : Plain {
  template <class Check>
  static bool sound(const Check& check, const Operands& o) {
    return o.b >= 1 && check.reals(o.a, o.b) && check.reals(o.c, 1) && check.reals(o.d, 1);
  }
  static void run(Cell* cells, const Operands& o, const std::int32_t*, double*) {
    const double wanted = cells[o.c].r;
    const std::int32_t last = o.b - 1;
    const std::int32_t place = !(wanted > 0.0) ? 0 : wanted >= last ? last : static_cast<std::int32_t>(std::nearbyint(wanted));
    cells[o.d] = cells[o.a + place];
  }
};

// first, count, value, to: how many of ascending numbers are at most a value.
struct Rank : Plain {
  template <class Check>
  static bool sound(const Check& check, const Operands& o) {
    return o.b >= 1 && check.reals(o.a, o.b) && check.reals(o.c, 1) && check.reals(o.d, 1);
  }
  static void run(Cell* cells, const Operands& o, const std::int32_t*, double*) {
    const Cell* const first = cells + o.a;
    const double value = cells[o.c].r;
    const Cell* const end = std::upper_bound(first, first + o.b, value, [](double v, const Cell& cell) { return v < cell.r; });
    cells[o.d].r = static_cast<double>(end - first);
  }
};

// grid, now, limit, to: the next point of a grid, whose cells are [origin, step, the last point, its number, the limit up to
// which the next number follows from it]. From the last point the next number is known without the division, for which the
// whole step would have to wait. That is exact as long as the rounding of a point, some 1e-15 of the largest time, is far
// below `slack` steps.
struct Grid : Plain {
  template <class Check>
  static bool sound(const Check& check, const Operands& o) {
    return check.reals(o.a, 5) && check.reals(o.b, 1) && check.reals(o.c, 1) && check.reals(o.d, 1);
  }
  static void run(Cell* cells, const Operands& o, const std::int32_t*, double*) {
    constexpr double slack = 1e-6;
    constexpr double sliver = 1e-3;
    Cell* const grid = cells + o.a;
    const double t = cells[o.b].r;
    const double limit = cells[o.c].r;
    const double origin = grid[0].r;
    const double step = grid[1].r;
    double& index = grid[3].r;
    if (t == grid[2].r && limit == grid[4].r) {
      index += 1.0;
    } else {
      index = whole((t - origin) / step + sliver) + 1.0;
      if (!(origin + index * step > t)) index += 1.0;  // late in a run rounding may be more than that
      const double most = std::max(std::fabs(origin), std::fabs(limit));
      grid[4].r = step > 1e-8 * most ? limit : -std::numeric_limits<double>::infinity();
    }
    const double until = origin + index * step;
    cells[o.d].r = grid[2].r = until > limit - slack * step ? limit : until;
  }

 private:
  // As std::floor, which is a call into a library unless one compiles for a particular processor.
  static double whole(double value) {
    if (!(std::fabs(value) < 4503599627370496.0)) return std::floor(value);
    const auto towards_zero = static_cast<double>(static_cast<std::int64_t>(value));
    return towards_zero > value ? towards_zero - 1.0 : towards_zero;
  }
};

}  // namespace computations

// Name and number, the same as in upbeat.master.computations. Never change or reuse a number: append.
#define UPBEAT_COMPUTATIONS(X) \
  X(Solve, 15)                 \
  X(Fit, 22)                   \
  X(Fall, 23)                  \
  X(Pick, 24)                  \
  X(Rank, 25)                  \
  X(Grid, 27)

}  // namespace upbeat
