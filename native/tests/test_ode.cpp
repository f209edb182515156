// Units given by equations.
#include <cmath>

#include "check.hpp"
#include "helpers.hpp"

using namespace upbeat;

namespace {

// x' = u - p·x, output x and the boolean x > 1.
OdeTables decay(SolverTables solver) {
  OdeTables tables;
  tables.inputs = {{1, Kind::Real}};
  tables.outputs = {{1, Kind::Real, 1}, {1, Kind::Boolean, 2}};
  tables.states = {1.0};
  tables.input_start = {0.0};
  tables.parameters = {1.0};
  // inputs: 0 time, 1 x, 2 u, 3 p
  tables.derivatives = shared(kernel_of(4, {}, {{UPBEAT_MUL, 4, 3, 1, 0}, {UPBEAT_SUB, 5, 2, 4, 0}}, {5}));
  tables.compute = shared(kernel_of(4, {1.0}, {{UPBEAT_GT, 5, 1, 4, 0}}, {1, 5}));
  tables.solver = std::move(solver);
  return tables;
}

SolverTables rk4(std::int64_t steps) {
  SolverTables solver;
  solver.steps = steps;
  solver.c = {0.0, 0.5, 0.5, 1.0};
  solver.a = {0, 0, 0, 0, 0.5, 0, 0, 0, 0, 0.5, 0, 0, 0, 0, 1, 0};
  solver.b = {1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6};
  return solver;
}

// Heun-Euler: order 2 with an embedded first-order estimate.
SolverTables adaptive() {
  SolverTables solver;
  solver.method = Method::Adaptive;
  solver.c = {0.0, 1.0};
  solver.a = {0, 0, 1, 0};
  solver.b = {0.5, 0.5};
  solver.e = {-0.5, 0.5};
  return solver;
}

double get(upbeat_unit& unit, int port = 1) {
  Cell cell;
  CHECK(unit.get(unit.self, port, &cell) == 0);
  return cell.r;
}

double advance(upbeat_unit& unit, double t, double to) {
  double reached = to;
  CHECK(unit.advance(unit.self, t, to, 0, &reached) == 0);
  return reached;
}

}  // namespace

TEST(fixed_steps_converge) {
  const OdeTables tables = decay(rk4(100));
  CHECK(problem_in(tables).empty());
  upbeat_unit unit = Ode::make(tables, 0.0);
  CHECK(advance(unit, 0.0, 1.0) == 1.0);
  CHECK(std::fabs(get(unit) - std::exp(-1.0)) < 1e-9);
  unit.destroy(unit.self);
}

TEST(adaptive_steps_meet_their_tolerance) {
  const OdeTables tables = decay(adaptive());
  CHECK(problem_in(tables).empty());
  upbeat_unit unit = Ode::make(tables, 0.0);
  for (int i = 0; i < 10; ++i) advance(unit, 0.1 * i, 0.1 * (i + 1));
  CHECK(std::fabs(get(unit) - std::exp(-1.0)) < 1e-4);
  unit.destroy(unit.self);
}

TEST(inputs_are_polynomials_from_the_units_own_time) {
  // x' = u(t) with u = 1 + 2τ + 3τ²: x(1) - x(0) = 1 + 1 + 1, exact for RK4.
  OdeTables tables = decay(rk4(1));
  tables.parameters = {0.0};
  upbeat_unit unit = Ode::make(tables, 5.0);
  const Cell trajectory[] = {real(1.0), real(2.0), real(3.0)};
  CHECK(unit.set(unit.self, 0, trajectory, 3) == 0);
  advance(unit, 5.0, 6.0);
  CHECK(std::fabs(get(unit) - 4.0) < 1e-14);
  const Cell held[] = {real(0.0)};
  CHECK(unit.set(unit.self, 0, held, 1) == 0);
  advance(unit, 6.0, 7.0);
  CHECK(std::fabs(get(unit) - 4.0) < 1e-14);
  const Cell too_many[7] = {};
  CHECK(unit.set(unit.self, 0, too_many, 7) != 0);
  CHECK(std::string(unit.message(unit.self)).find("7 coefficients") != std::string::npos);
  unit.destroy(unit.self);
}

TEST(booleans_come_out_as_integers) {
  upbeat_unit unit = Ode::make(decay(rk4(1)), 0.0);
  Cell cell;
  CHECK(unit.get(unit.self, 2, &cell) == 0 && cell.i == 0);
  const Cell strong[] = {real(100.0)};
  unit.set(unit.self, 0, strong, 1);
  advance(unit, 0.0, 1.0);
  CHECK(unit.get(unit.self, 2, &cell) == 0 && cell.i == 1);
  unit.destroy(unit.self);
}

TEST(restore_is_the_inverse_of_save) {
  upbeat_unit unit = Ode::make(decay(adaptive()), 0.0);
  const Cell trajectory[] = {real(1.0), real(-0.5)};
  unit.set(unit.self, 0, trajectory, 2);
  advance(unit, 0.0, 0.3);
  CHECK(unit.save(unit.self, 2) == 0);
  const std::vector<double> before = static_cast<Ode*>(unit.self)->state();
  advance(unit, 0.3, 0.7);
  const double first = get(unit);
  CHECK(unit.restore(unit.self, 2) == 0);
  CHECK(static_cast<Ode*>(unit.self)->state() == before);
  advance(unit, 0.3, 0.7);
  CHECK(get(unit) == first);
  CHECK(unit.restore(unit.self, 1) != 0);  // nothing saved there
  unit.destroy(unit.self);
}

TEST(compiled_kernels_replace_the_code) {
  OdeTables tables = decay(rk4(1));
  tables.compiled_derivatives = [](const double* in, double* out) { out[0] = in[2] - in[3] * in[1]; };
  tables.compiled_compute = [](const double* in, double* out) {
    out[0] = in[1];
    out[1] = in[1] > 1.0;
  };
  upbeat_unit compiled = Ode::make(tables, 0.0);
  upbeat_unit plain = Ode::make(decay(rk4(1)), 0.0);
  advance(compiled, 0.0, 0.5);
  advance(plain, 0.0, 0.5);
  CHECK(get(compiled) == get(plain));
  compiled.destroy(compiled.self);
  plain.destroy(plain.self);
}

TEST(solver_failures_say_why) {
  // x' = x², which ends at t = 1.
  OdeTables tables = decay(adaptive());
  tables.derivatives = shared(kernel_of(4, {}, {{UPBEAT_MUL, 4, 1, 1, 0}}, {4}));
  upbeat_unit unit = Ode::make(tables, 0.0);
  double reached = 2.0;
  CHECK(unit.advance(unit.self, 0.0, 2.0, 0, &reached) != 0);
  CHECK(std::string(unit.message(unit.self)).find("SolverError: ") == 0);
  CHECK(unit.advance(unit.self, 1.0, 0.5, 0, &reached) != 0);
  CHECK(std::string(unit.message(unit.self)).find("backwards") != std::string::npos);
  unit.destroy(unit.self);
}

TEST(slopes_are_those_of_the_present_inputs) {
  OdeTables tables = decay(rk4(1));
  tables.compute = shared(kernel_of(4, {}, {{UPBEAT_MUL, 4, 2, 2, 0}}, {4, 4}));  // y = u·u
  tables.slopes.push_back({1, 0, shared(kernel_of(4, {2.0}, {{UPBEAT_MUL, 5, 4, 2, 0}}, {5})), nullptr});
  CHECK(problem_in(tables).empty());
  upbeat_unit unit = Ode::make(tables, 0.0);
  Cell trajectory[2] = {real(3.0), real(4.0)};
  Cell slope;
  CHECK(unit.set(unit.self, 0, trajectory, 1) == 0);
  CHECK(unit.slope(unit.self, 1, 0, &slope) == 0 && slope.r == 6.0);
  CHECK(unit.set(unit.self, 0, trajectory, 2) == 0);
  double reached = 0.5;
  CHECK(unit.advance(unit.self, 0.0, 0.5, 0, &reached) == 0);
  CHECK(unit.slope(unit.self, 1, 0, &slope) == 0 && slope.r == 10.0);
  CHECK(unit.slope(unit.self, 2, 0, &slope) != 0);
  CHECK(std::string(unit.message(unit.self)).find("output number 2 by input number 0") != std::string::npos);
  unit.destroy(unit.self);
  tables.slopes[0].output = 2;  // a boolean
  CHECK(!problem_in(tables).empty());
  tables.slopes[0] = {1, 0, tables.derivatives, nullptr};
  CHECK(problem_in(tables).empty());
  tables.slopes[0].kernel = tables.compute;
  CHECK(!problem_in(tables).empty());
}

TEST(bad_tables_are_refused) {
  OdeTables tables = decay(rk4(1));
  tables.solver.b.pop_back();
  CHECK(!problem_in(tables).empty());
  tables = decay(rk4(1));
  tables.parameters.clear();
  CHECK(!problem_in(tables).empty());
  tables = decay(rk4(1));
  tables.derivatives = nullptr;
  CHECK(!problem_in(tables).empty());
  CHECK(!problem_in(decay(rk4(0))).empty());
  tables = decay(rk4(1));
  tables.outputs[0].port = -1;
  CHECK(!problem_in(tables).empty());
}

TEST(ports_have_the_numbers_of_the_model) {
  OdeTables tables = decay(rk4(1));
  tables.inputs[0].port = 5;
  tables.outputs[0].port = 2;
  tables.outputs[1].port = 0;
  upbeat_unit unit = Ode::make(tables, 0.0);
  Cell cell;
  CHECK(unit.get(unit.self, 2, &cell) == 0 && cell.r == 1.0);
  CHECK(unit.get(unit.self, 0, &cell) == 0 && cell.i == 0);
  CHECK(unit.set(unit.self, 5, &cell, 1) == 0);
  for (const int wrong : {1, 5, 6, -1}) CHECK(unit.get(unit.self, wrong, &cell) != 0);
  for (const int wrong : {0, 6, -1}) CHECK(unit.set(unit.self, wrong, &cell, 1) != 0);
  CHECK(std::string(unit.message(unit.self)).find("no input number -1") != std::string::npos);
  unit.destroy(unit.self);
}

TEST(an_input_chooses_the_solver) {
  // x' = -p·x; inputs: 0 time, 1 x, 2 the choice, 3 p. Euler with one step, and with two.
  OdeTables tables;
  tables.inputs = {{1, Kind::Integer}};
  tables.outputs = {{1, Kind::Real, 1}};
  tables.states = {1.0};
  tables.input_start = {0.0};
  tables.parameters = {1.0};
  tables.derivatives = shared(kernel_of(4, {}, {{UPBEAT_MUL, 4, 3, 1, 0}, {UPBEAT_NEG, 5, 4, 0, 0}}, {5}));
  tables.compute = shared(kernel_of(4, {}, {}, {1}));
  tables.solver.c = {0.0};
  tables.solver.a = {0.0};
  tables.solver.b = {1.0};
  CHECK(problem_in(tables).empty());
  tables.others = {tables.solver};
  tables.others[0].steps = 2;
  CHECK(!problem_in(tables).empty());  // nobody chooses
  tables.chooser = 0;
  CHECK(problem_in(tables).empty());
  upbeat_unit unit = Ode::make(tables, 0.0);
  advance(unit, 0.0, 0.5);
  CHECK(get(unit) == 0.5);
  Cell choice;
  choice.i = 1;
  CHECK(unit.set(unit.self, 0, &choice, 1) == 0);
  advance(unit, 0.5, 1.0);
  CHECK(get(unit) == 0.5 * 0.75 * 0.75);
  choice.i = 2;
  CHECK(unit.set(unit.self, 0, &choice, 1) == 0);
  double reached = 1.5;
  CHECK(unit.advance(unit.self, 1.0, 1.5, 0, &reached) != 0);
  CHECK(std::string(unit.message(unit.self)) == "SolverError: there is no solver 2: it has 2, counted from 0");
  unit.destroy(unit.self);
  tables.inputs[0].kind = Kind::Real;
  CHECK(!problem_in(tables).empty());
  tables.inputs[0].kind = Kind::Integer;
  tables.others[0] = adaptive();
  CHECK(!problem_in(tables).empty());
}
