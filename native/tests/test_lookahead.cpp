// The pace that looks ahead, without a machine: what it makes of samples. That it does the same as its Python
// twin is tested from there.
#include <cmath>
#include <limits>

#include "check.hpp"
#include "pace.hpp"
#include "prediction.hpp"

using namespace upbeat;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// One event with one condition, of which `order` derivatives are known: cells 0 to 2; cell 3 says that it jumped,
// 4 and 5 are told when it was first predicted, and for when.
std::unique_ptr<Pace> looking(double method, double order) {
  return make_pace("look_ahead", {0.5, method, 2.0, 0.9, 0.01, 0.5, 0, 3, 4, 1, order}, {7}, {"down"});
}

}  // namespace

TEST(look_ahead_lands_behind_a_fall) {
  const auto pace = looking(2, 2);
  CHECK(!pace->retries() && pace->sees() == 5);
  Cell cells[6] = {real(1.0), real(-0.5), real(0.0), integer(0), real(-infinity), real(-infinity)};
  pace->begin(0.0, 10.0);
  pace->note(0.0, nullptr, 0, cells);
  Proposal step = pace->propose(0.0, 10.0, cells);
  CHECK(step.until == 0.25 && step.block == 7 && sentence(pace->reason(step.reason)) == "first step");
  cells[0] = real(0.125);
  pace->note(1.75, nullptr, 0, cells);
  step = pace->propose(1.75, 10.0, cells);
  CHECK(std::fabs(step.until - 2.01) < 1e-9);
  CHECK(sentence(pace->reason(step.reason)) == "event 'down' expected at 2.01");
  pace->tell(cells);
  CHECK(cells[4].r == 1.75 && cells[5].r == step.until);
  cells[4] = cells[5] = real(-infinity);  // it fired
  cells[3] = integer(1);
  cells[1] = real(1.0);
  pace->note(2.01, nullptr, 0, cells);
  step = pace->propose(2.01, 10.0, cells);
  CHECK(std::fabs(step.until - 2.26) < 1e-12 && sentence(pace->reason(step.reason)) == "after an event");
  step = pace->propose(2.01, 2.1, cells);
  CHECK(step.until == 2.1 && sentence(pace->reason(step.reason)) == "the stop time");
}

TEST(look_ahead_goes_on_from_what_it_remembered) {
  const auto pace = looking(0, 0);
  const auto other = looking(0, 0);
  Cell cells[6] = {real(1.0), real(0.0), real(0.0), integer(0), real(-infinity), real(-infinity)};
  pace->begin(0.0, 10.0);
  pace->note(0.0, nullptr, 0, cells);
  cells[0] = real(0.4);
  pace->note(0.5, nullptr, 0, cells);
  CHECK(other->stand(pace->state()) && !other->stand({1.0, 2.0}));
  CHECK(other->propose(0.5, 10.0, cells).until == pace->propose(0.5, 10.0, cells).until);
  auto wrong = pace->state();
  wrong[0] = 7.0;
  CHECK(!other->stand(wrong));
}

TEST(look_ahead_checks_its_parameters) {
  CHECK(!make_pace("look_ahead", {}, {0}, {}));
  CHECK(!make_pace("look_ahead", {0.5, 2, 2, 0.9, 0.01, 0.5, 0, 3, 4, 2, 1}, {0}, {"down"}));
  CHECK(!make_pace("look_ahead", {0.5, 2, 2, 0.9, 0.01, 0.5, -1, 3, 4, 1, 1}, {0}, {"down"}));
}

TEST(a_dip_within_a_part_of_a_step_is_found) {
  const Curve dip = {{0.2499, -1.0, 1.0, 0.0, 0.0, 0.0}};
  const Curve miss = {{0.2501, -1.0, 1.0, 0.0, 0.0, 0.0}};
  CHECK(std::fabs(first_zero(&dip, 1, 1.0) - 0.49) < 1e-12);
  CHECK(first_zero(&miss, 1, 1.0) == std::numeric_limits<double>::infinity());
}
