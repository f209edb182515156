// The pace with error control, without a machine: what it makes of errors. That it does the same as its Python
// twin is tested from there.
#include <cmath>
#include <limits>

#include "check.hpp"
#include "pace.hpp"

using namespace upbeat;

namespace {

// Two ports, errors in the cells 0 and 1 that grow with the second power of the step, limits 0.001 … 1.
std::unique_ptr<Pace> control(bool repeat) {
  return make_pace("error_control", {0, 2, 2, 0, repeat ? 1.0 : 0.0, 1e-3, 0.1, 1e-3, 1.0, 0.9, 0.3, 0.4, 0.2, 2.0}, {7},
                   {"a.x", "b.y"});
}

}  // namespace

TEST(error_control_starts_grows_and_lands) {
  const auto pace = control(true);
  CHECK(pace->retries() && pace->sees() == 1);
  Cell cells[2] = {real(0.0), real(0.0)};
  pace->begin(0.0, std::numeric_limits<double>::infinity());
  Proposal step = pace->propose(0.0, 10.0, cells);
  CHECK(step.until == 0.1 && step.block == 7 && sentence(pace->reason(step.reason)) == "first step");
  CHECK(pace->review(0.0, step.until, cells, step));
  step = pace->propose(0.1, 10.0, cells);
  CHECK(std::fabs(step.until - 0.3) < 1e-15 && sentence(pace->reason(step.reason)) == "error control");
  step = pace->propose(0.1, 0.4, cells);
  CHECK(std::fabs(step.until - 0.25) < 1e-15 && sentence(pace->reason(step.reason)) == "half of the rest");
  step = pace->propose(0.1, 0.3000001, cells);
  CHECK(step.until == 0.3000001 && sentence(pace->reason(step.reason)) == "the stop time");
}

TEST(error_control_sends_back_and_gives_up) {
  const auto pace = control(true);
  Cell cells[2] = {real(2.0), real(4.0)};
  pace->begin(0.0, std::numeric_limits<double>::infinity());
  Proposal step = pace->propose(0.0, 10.0, cells);
  CHECK(!pace->review(0.0, step.until, cells, step));
  CHECK(std::fabs(step.until - 0.1 * 0.9 / 2.0) < 1e-15);
  CHECK(sentence(pace->reason(step.reason)) == "error 4 × tolerance at b.y");
  CHECK(!pace->review(0.0, step.until, cells, step));  // in proportion now
  CHECK(std::fabs(step.until - 0.045 * 0.9 / 4.0) < 1e-15);
  cells[0] = real(std::nan(""));
  CHECK(!pace->review(0.0, step.until, cells, step));
  CHECK(sentence(pace->reason(step.reason)) == "error nan × tolerance at a.x");
  CHECK(!pace->review(0.0, 0.001, cells, step));
  CHECK(std::isnan(step.until));
  const std::string words = "the step from t = 0 has an error nan × tolerance at a.x, and cannot be shorter than 0.001. A ";
  CHECK(sentence(pace->reason(step.reason)).compare(0, words.size(), words) == 0);
}

TEST(error_control_corrects_the_next_step) {
  const auto pace = control(false);
  Cell cells[2] = {real(4.0), real(2.0)};
  pace->begin(0.0, std::numeric_limits<double>::infinity());
  Proposal step = pace->propose(0.0, 10.0, cells);
  CHECK(!pace->retries() && pace->review(0.0, step.until, cells, step));
  step = pace->propose(0.1, 10.0, cells);
  CHECK(std::fabs(step.until - 0.145) < 1e-15);
  CHECK(sentence(pace->reason(step.reason)) == "error 4 × tolerance at a.x in the step before");
  const Fired fired{};
  pace->note(0.1, &fired, 1, cells);
  CHECK(pace->state()[1] == 0.0);
}

TEST(error_control_checks_its_parameters) {
  CHECK(!make_pace("error_control", {0, 2}, {0}, {"a.x", "b.y"}));
  CHECK(!make_pace("error_control", std::vector<double>(14, 1.0), {0}, {"a.x", "b.y"}));
  CHECK(make_pace("error_control", std::vector<double>(14, 1.0), {0}, {"a.x"}));
}
