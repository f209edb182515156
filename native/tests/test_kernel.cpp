// Kernels and lookup tables.
#include <cmath>
#include <limits>

#include "check.hpp"
#include "helpers.hpp"

using namespace upbeat;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

double unary(std::int32_t op, double a) {
  const KernelTables kernel = kernel_of(1, {}, {{op, 1, 0, 0, 0}}, {1});
  CHECK(problem_in(kernel).empty());
  std::vector<double> work = kernel.workspace();
  work[0] = a;
  run(kernel, work.data());
  return work[1];
}

double binary(std::int32_t op, double a, double b) {
  const KernelTables kernel = kernel_of(2, {}, {{op, 2, 0, 1, 0}}, {2});
  CHECK(problem_in(kernel).empty());
  std::vector<double> work = kernel.workspace();
  work[0] = a;
  work[1] = b;
  run(kernel, work.data());
  return work[2];
}

double ternary(std::int32_t op, double a, double b, double c) {
  const KernelTables kernel = kernel_of(1, {b, c}, {{op, 3, 0, 1, 2}}, {3});
  CHECK(problem_in(kernel).empty());
  std::vector<double> work = kernel.workspace();
  work[0] = a;
  run(kernel, work.data());
  return work[3];
}

}  // namespace

TEST(arithmetic_is_ieee) {
  CHECK(binary(UPBEAT_ADD, 0.1, 0.2) == 0.1 + 0.2);
  CHECK(binary(UPBEAT_DIV, 1.0, 0.0) == inf);
  CHECK(binary(UPBEAT_DIV, -1.0, 0.0) == -inf);
  CHECK(std::isnan(binary(UPBEAT_DIV, 0.0, 0.0)));
  CHECK(binary(UPBEAT_POW, 0.1, 2.0) == 0.1 * 0.1);
  CHECK(binary(UPBEAT_POW, 0.1, 3.0) == (0.1 * 0.1) * 0.1);
  CHECK(std::isnan(unary(UPBEAT_SQRT, -1.0)));
  CHECK(unary(UPBEAT_LOG, 0.0) == -inf);
  CHECK(unary(UPBEAT_ROUND, 2.5) == 2.0);
  CHECK(unary(UPBEAT_ROUND, 3.5) == 4.0);
  CHECK(unary(UPBEAT_SIGN, -3.0) == -1.0);
  CHECK(binary(UPBEAT_MOD, -1.0, 3.0) == 2.0);
  CHECK(std::signbit(unary(UPBEAT_NEG, 0.0)));
}

TEST(choices_are_defined_for_nan_and_ties) {
  const double nan = std::nan("");
  CHECK(binary(UPBEAT_MIN, nan, 1.0) == 1.0);
  CHECK(std::isnan(binary(UPBEAT_MIN, 1.0, nan)));
  CHECK(std::signbit(binary(UPBEAT_MAX, 0.0, -0.0)));
  CHECK(ternary(UPBEAT_WHERE, nan, 1.0, 2.0) == 1.0);
  CHECK(ternary(UPBEAT_CLIP, 5.0, 0.0, 1.0) == 1.0);
  CHECK(ternary(UPBEAT_CLIP, -5.0, 0.0, 1.0) == 0.0);
  CHECK(binary(UPBEAT_AND, 2.0, 0.0) == 0.0);
  CHECK(binary(UPBEAT_OR, 2.0, 0.0) == 1.0);
}

TEST(tables_interpolate) {
  // y = 0, 10, 10 at x = 0, 1, 3, constant outside.
  const LookupTables line{{0, 1, 3}, {}, {0, 0, 1, 3}, {}, {0, 0, 0, 10, 10, 0, 10, 0}};
  CHECK(lookup1(line, -5.0) == 0.0);
  CHECK(lookup1(line, 0.25) == 2.5);
  CHECK(lookup1(line, 2.0) == 10.0);
  CHECK(lookup1(line, inf) == 10.0);
  CHECK(std::isnan(lookup1(line, std::nan(""))));
  // z = x·y on the unit square, constant outside.
  std::vector<double> patches(4 * 9, 0.0);
  patches[4 * 4 + 3] = 1.0;
  const LookupTables square{{0, 1}, {0, 1}, {0, 0, 1}, {0, 0, 1}, patches};
  CHECK(lookup2(square, 0.5, 0.5) == 0.25);
  CHECK(lookup2(square, 0.5, -1.0) == 0.0);
  KernelTables kernel = kernel_of(2, {}, {{UPBEAT_LOOKUP2, 2, 0, 0, 1}}, {2});
  CHECK(!problem_in(kernel).empty());  // no table yet
  kernel.lookups.push_back(square);
  CHECK(problem_in(kernel).empty());
  std::vector<double> work = kernel.workspace();
  work[0] = 0.5;
  work[1] = 0.25;
  run(kernel, work.data());
  CHECK(work[2] == 0.125);
}

TEST(bad_kernels_are_refused) {
  CHECK(!problem_in(kernel_of(1, {}, {{UPBEAT_ADD, 1, 0, 5, 0}}, {1})).empty());  // reads outside
  CHECK(!problem_in(kernel_of(1, {}, {{UPBEAT_NEG, 0, 0, 0, 0}}, {0})).empty());  // writes an input
  CHECK(!problem_in(kernel_of(1, {}, {{99, 1, 0, 0, 0}}, {1})).empty());          // unknown
  CHECK(!problem_in(kernel_of(1, {}, {}, {3})).empty());                          // result outside
}
