// Events inside a step. That roots have the same bits as in Python is tested from there.
#include <cmath>

#include "check.hpp"
#include "helpers.hpp"
#include "solver.hpp"

using namespace upbeat;

namespace {

SolverTables euler(std::int64_t steps) {
  SolverTables solver;
  solver.steps = steps;
  solver.c = {0.0};
  solver.a = {0.0};
  solver.b = {1.0};
  return solver;
}

SolverTables midpoint(std::int64_t steps) {
  SolverTables solver;
  solver.steps = steps;
  solver.c = {0.0, 0.5};
  solver.a = {0.0, 0.0, 0.5, 0.0};
  solver.b = {0.0, 1.0};
  return solver;
}

// Heun-Euler: order 2 with an embedded first-order estimate, and no term of its own for the dense output.
SolverTables heun() {
  SolverTables solver;
  solver.method = Method::Adaptive;
  solver.rtol = solver.atol = 1e-9;
  solver.c = {0.0, 1.0};
  solver.a = {0, 0, 1, 0};
  solver.b = {0.5, 0.5};
  solver.e = {-0.5, 0.5};
  return solver;
}

// x' = v, v' = -g.
struct Falling final : Dynamics {
  void derivatives(double, const double* x, double* out) override {
    out[0] = x[1];
    out[1] = -9.81;
  }
};

// Crosses where component 0 falls below each of the levels; without states time itself is looked at.
struct Levels final : Watch {
  Levels(std::vector<double> given, std::size_t states)
      : Watch(given.size(), states), levels(std::move(given)), timed(states == 0) {}
  void indicators(double t, const double* x, double* to) override {
    for (std::size_t i = 0; i < levels.size(); ++i) to[i] = timed ? levels[i] - t : x[0] - levels[i];
  }
  bool accepted(double t, const double*) override {
    ++heard;
    return t >= stop;
  }
  std::vector<double> levels;
  bool timed;
  double stop = 1e9;
  int heard = 0;
};

}  // namespace

TEST(a_falling_body_reaches_the_ground) {
  const double exact = std::sqrt(2.0 / 9.81);
  for (const SolverTables& tables : {midpoint(7), heun()}) {
    Falling f;
    Solver solver(tables, 2);
    Levels watch({0.0, 0.5, -1.0}, 2);
    double x[] = {1.0, 0.0};
    double h = 0.0;
    watch.indicators(0.0, x, watch.values());
    CHECK(solver.advance(f, 0.0, 1.0, x, h, &watch));
    CHECK(watch.stopped());
    CHECK(watch.crossed(1) && !watch.crossed(0) && !watch.crossed(2));
    CHECK(std::fabs(watch.time() - std::sqrt(1.0 / 9.81)) < 1e-7);
    CHECK(x[0] <= 0.5 && x[0] > 0.5 - 1e-9);
    const double first = watch.time();
    CHECK(solver.advance(f, first, 1.0, x, h, &watch));  // the values at its start are there already
    CHECK(watch.stopped() && watch.crossed(0) && !watch.crossed(1));
    CHECK(std::fabs(watch.time() - exact) < 1e-7);
    CHECK(x[0] <= 0.0);
  }
}

TEST(steps_end_where_the_listener_asks) {
  Falling f;
  Solver solver(euler(4), 2);
  Levels watch({}, 2);
  watch.stop = 0.5;
  double x[] = {0.0, 1.0};
  double h = 0.0;
  CHECK(solver.advance(f, 0.0, 1.0, x, h, &watch));
  CHECK(watch.time() == 0.5 && watch.stopped() && watch.heard == 2);
}

TEST(nothing_stops_a_step_without_crossings) {
  Falling f;
  for (const SolverTables& tables : {midpoint(5), heun()}) {
    Solver solver(tables, 2);
    double x[] = {1.0, 0.0}, plain[] = {1.0, 0.0};
    double h = 0.0, other = 0.0;
    Levels watch({-1e6}, 2);
    watch.indicators(0.0, x, watch.values());
    CHECK(solver.advance(f, 0.0, 1.0, x, h, &watch));
    CHECK(solver.advance(f, 0.0, 1.0, plain, other));
    CHECK(watch.time() == 1.0 && !watch.stopped() && !watch.crossed(0));
    CHECK(x[0] == plain[0] && x[1] == plain[1] && h == other);
  }
}

TEST(time_alone_makes_things_cross) {
  Falling f;
  for (const SolverTables& tables : {midpoint(3), heun()}) {
    Solver solver(tables, 0);
    Levels watch({2.0, 0.7, 0.8}, 0);
    double h = 0.0;
    watch.indicators(0.0, nullptr, watch.values());
    CHECK(solver.advance(f, 0.0, 1.0, nullptr, h, &watch));
    CHECK(watch.time() >= 0.7 && watch.time() < 0.7 + 1e-11 && watch.crossed(1));
  }
}

TEST(nominals_scale_the_absolute_tolerance) {
  int steps[2];
  for (int i = 0; i < 2; ++i) {
    Falling f;
    SolverTables tables = heun();
    tables.rtol = 1e-14;
    Solver solver(tables, 2);
    const double nominals[] = {i ? 1e6 : 1.0, i ? 1e6 : 1.0};
    solver.scale(nominals);
    Levels watch({}, 2);
    double x[] = {0.0, 0.0};
    double h = 0.0;
    CHECK(solver.advance(f, 0.0, 1.0, x, h, &watch));
    steps[i] = watch.heard;
  }
  CHECK(steps[1] * 5 < steps[0]);
}
