// The pace that goes back to events, without a machine: what it makes of samples. That it does the same as its Python
// twin is tested from there.
#include <cmath>

#include "check.hpp"
#include "pace.hpp"

using namespace upbeat;

namespace {

// One event with one condition, of which `order` derivatives are known: cells 0 to 2; cell 3 says that it jumped.
// Inside: steps of 1.
std::unique_ptr<Pace> revised(double order) {
  return make_pace("revised", {1.0, 1e-3, 0.5, 8, 0, 3, 1, 1, order, 1.0}, {7}, {"event_driven", "down"});
}

}  // namespace

TEST(revised_sends_a_step_back_to_a_fall) {
  const auto pace = revised(0);
  CHECK(pace->retries() && pace->sees() == 3);
  Cell cells[4] = {real(0.25), real(0.0), real(0.0), integer(0)};
  pace->begin(0.0, 10.0);
  pace->note(0.0, nullptr, 0, cells);
  Proposal step = pace->propose(0.0, 10.0, cells);
  CHECK(step.until == 0.5 && step.block == 7 && sentence(pace->reason(step.reason)) == "first step");
  cells[0] = real(-0.25);  // at 0.5
  CHECK(!pace->review(0.0, 0.5, cells, step));
  CHECK(std::fabs(step.until - 0.2495) < 1e-12 && step.block == 7);
  CHECK(sentence(pace->reason(step.reason)) == "back to event 'down' at 0.25");
  cells[0] = real(0.01);  // not far enough: on the line to the end it is at 0.25913
  CHECK(!pace->review(0.0, 0.2495, cells, step));
  CHECK(step.until > 0.2591 && step.until < 0.2601);
  const double behind = step.until;
  cells[0] = real(-1e-6);  // without rates, only a time before the event will do
  CHECK(!pace->review(0.0, behind, cells, step));
  CHECK(step.until < behind && step.until > behind - 1e-3);
  cells[0] = real(1e-6);
  CHECK(!pace->review(0.0, step.until, cells, step) && step.until == behind);
  cells[0] = real(-1e-6);
  CHECK(pace->review(0.0, step.until, cells, step));
  cells[3] = integer(1);
  pace->note(step.until, nullptr, 0, cells);
  CHECK(sentence(pace->reason(pace->propose(step.until, 10.0, cells).reason)) == "after an event");
  cells[3] = integer(0);
  pace->note(1.0, nullptr, 0, cells);
  step = pace->propose(1.0, 10.0, cells);
  CHECK(step.until == 2.0 && sentence(pace->reason(step.reason)) == "as far as possible");
}

TEST(revised_lets_stand_what_has_not_happened) {
  const auto pace = revised(1);
  Cell cells[4] = {real(0.3), real(-1.0), real(0.0), integer(0)};
  pace->begin(0.0, 10.0);
  pace->note(0.0, nullptr, 0, cells);
  Proposal step{1.0, 0, 7};
  cells[0] = real(0.3);
  cells[1] = real(1.0);  // with the rates at both ends: 0.05 above zero in the middle
  CHECK(pace->review(0.0, 1.0, cells, step));
  cells[0] = real(-0.1);  // it was true before, and falls on: no edge
  cells[1] = real(-0.1);
  pace->note(1.0, nullptr, 0, cells);
  cells[0] = real(-0.2);
  CHECK(pace->review(1.0, 2.0, cells, step));
}

TEST(revised_ends_a_step_where_what_happened_before_is_over) {
  const auto pace = revised(1);
  Cell cells[4] = {real(-0.05), real(1.0), real(0.0), integer(0)};  // -0.05 + t - t², highest at 0.5
  pace->begin(0.0, 10.0);
  pace->note(0.0, nullptr, 0, cells);
  Proposal step{1.0, 0, 7};
  cells[1] = real(-1.0);
  CHECK(!pace->review(0.0, 1.0, cells, step));
  CHECK(std::fabs(step.until - 0.5) < 1e-6);
  cells[0] = real(0.2);
  cells[1] = real(0.0);
  CHECK(pace->review(0.0, step.until, cells, step));
}

TEST(revised_goes_on_from_what_it_remembered) {
  const auto pace = revised(0);
  const auto other = revised(0);
  Cell cells[4] = {real(1.0), real(0.0), real(0.0), integer(1)};
  pace->begin(0.0, 10.0);
  pace->note(0.5, nullptr, 0, cells);
  other->begin(0.0, 10.0);
  CHECK(other->stand(pace->state()) && other->state() == pace->state() && !other->stand({1.0, 2.0}));
  CHECK(other->propose(0.5, 10.0, cells).until == pace->propose(0.5, 10.0, cells).until);
  auto wrong = pace->state();
  wrong[0] = 7.0;
  CHECK(!other->stand(wrong));
}

TEST(revised_checks_its_parameters) {
  CHECK(!make_pace("revised", {}, {0}, {}));
  CHECK(!make_pace("revised", {1.0, 1e-3, 0.5, 8, 0, 3, 1, 1, 0, 1.0}, {0}, {"event_driven"}));
  CHECK(!make_pace("revised", {1.0, 1e-3, 0.5, 8, 0, 3, 1, 2, 0, 1.0}, {0}, {"furlong", "down"}));
  CHECK(!make_pace("revised", {1.0, 1e-3, 0.5, 8, -1, 3, 1, 1, 0, 1.0}, {0}, {"event_driven", "down"}));
  CHECK(!make_pace("revised", {1.0, 1e-3, 0.5, 8, 0, 3, 1, 1, 0}, {0}, {"fixed", "down"}));
}
