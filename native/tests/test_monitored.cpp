// The monitor, without a machine: what it makes of requests. That it does the same as its Python twin is tested from
// there.

#include "check.hpp"
#include "heap.hpp"
#include "pace.hpp"

using namespace upbeat;

namespace {

const std::vector<std::string> words = {"event_driven", "1", "2"};

// Steps of 1 and 2; after a 2 comes a 1. Inside: steps of `most`.
std::unique_ptr<Pace> monitored(double most) {
  return make_pace("monitored", {2, 2, 0, 1.0, 2.0, 0, 0, 0, 0, 0, 1, 0, -1, 0, 1, 0, 0, most}, {7}, words);
}

}  // namespace

TEST(monitored_replaces_what_is_not_allowed) {
  const auto pace = monitored(2.0);
  CHECK(!pace->retries() && pace->sees() == -1);
  pace->begin(0.0, 10.0);
  pace->note(0.0, nullptr, 0, nullptr);
  Proposal step = pace->propose(0.0, 10.0, nullptr);
  CHECK(step.until == 2.0 && step.block == 7 && sentence(pace->reason(step.reason)) == "as far as possible");
  pace->note(2.0, nullptr, 0, nullptr);
  step = pace->propose(2.0, 10.0, nullptr);
  CHECK(step.until == 3.0 && sentence(pace->reason(step.reason)) == "1 instead of 2, which is not proven here");
  pace->note(2.5, nullptr, 0, nullptr);  // it ended early, and led nowhere
  CHECK(pace->propose(2.5, 10.0, nullptr).until == 3.5);
  pace->note(3.5, nullptr, 0, nullptr);
  CHECK(pace->propose(3.5, 10.0, nullptr).until == 5.5);
  step = pace->propose(9.5, 10.0, nullptr);
  CHECK(step.until == 10.0 && sentence(pace->reason(step.reason)) == "what is left, which no proof covers");
}

TEST(monitored_rounds_down) {
  const auto pace = monitored(1.5);
  pace->begin(0.0, 10.0);
  pace->note(0.0, nullptr, 0, nullptr);
  const Proposal step = pace->propose(0.0, 10.0, nullptr);
  CHECK(step.until == 1.0 && sentence(pace->reason(step.reason)) == "1, the next of the proven steps");
}

TEST(monitored_goes_on_from_what_it_remembered) {
  const auto pace = monitored(2.0);
  const auto other = monitored(2.0);
  pace->begin(0.0, 10.0);
  other->begin(0.0, 10.0);
  pace->propose(0.0, 10.0, nullptr);
  pace->note(2.0, nullptr, 0, nullptr);
  CHECK(other->stand(pace->state()));
  CHECK(other->propose(2.0, 10.0, nullptr).until == 3.0);
  CHECK(!other->stand({}));
  CHECK(!other->stand({2.0, -1.0, 0.0, 0.0}));
  CHECK(!other->stand({0.0, 2.0, 0.0, 0.0}));
  CHECK(!other->stand({0.0, -1.0, 0.0, 0.0, 1.0}));
}

TEST(monitored_checks_its_parameters) {
  CHECK(!make_pace("monitored", {}, {0}, {}));
  CHECK(!make_pace("monitored", {2, 2, 2, 1.0, 2.0, 0, 0, 0, 0, 0, 1, 0, -1, 0, 1, 0, 0, 2.0}, {0}, words));
  CHECK(!make_pace("monitored", {2, 2, 0, 2.0, 1.0, 0, 0, 0, 0, 0, 1, 0, -1, 0, 1, 0, 0, 2.0}, {0}, words));
  CHECK(!make_pace("monitored", {2, 2, 0, 1.0, 2.0, 0, 0, 0, 0, 0, 2, 0, -1, 0, 1, 0, 0, 2.0}, {0}, words));
  CHECK(!make_pace("monitored", {2, 2, 0, 1.0, 2.0, 0, 0, 0, 0, 0, 1, 0, -1, 0, 1, 0, -1, 2.0}, {0}, words));
  CHECK(!make_pace("monitored", {2, 2, 0, 1.0, 2.0, 0, 0, 0, 0, 0, 1, 0, -1, 0, 1, 0, 0}, {0}, words));
  CHECK(!make_pace("monitored", {2, 2, 0, 1.0, 2.0, 0, 0, 0, 0, 0, 1, 0, -1, 0, 1, 0, 0, 2.0}, {0}, {"event_driven"}));
  auto wrong = words;
  wrong[0] = "furlong";
  CHECK(!make_pace("monitored", {2, 2, 0, 1.0, 2.0, 0, 0, 0, 0, 0, 1, 0, -1, 0, 1, 0, 0, 2.0}, {0}, wrong));
}

TEST(monitored_chooses_among_blocks) {
  // Two policies of one size, by blocks 7 and 9; after the second comes the first. Inside: the second every time.
  const std::vector<std::string> said = {"pattern", "slow 1", "fast 1"};
  const std::vector<double> tables = {2, 2, 0, 1.0, 1.0, 0, 1, 0, 1, 0, 1, 0, -1, 0, 1, 0, 0, 1.0, 1};
  const auto pace = make_pace("monitored", tables, {7, 9}, said);
  CHECK(pace);
  pace->begin(0.0, 10.0);
  Proposal step = pace->propose(0.0, 10.0, nullptr);
  CHECK(step.until == 1.0 && step.block == 9 && sentence(pace->reason(step.reason)) == "as the pattern says");
  pace->note(1.0, nullptr, 0, nullptr);
  step = pace->propose(1.0, 10.0, nullptr);
  CHECK(step.until == 2.0 && step.block == 7 && sentence(pace->reason(step.reason)) == "slow 1 instead of fast 1, which is not proven here");
  CHECK(!make_pace("monitored", tables, {7}, said));  // there is no second block
}

TEST(pattern_repeats) {
  const auto pace = make_pace("pattern", {1.0, 2.0, 0, 1}, {3, 4}, {});
  CHECK(pace);
  pace->begin(0.0, 10.0);
  const double ends[] = {1.0, 3.0, 4.0, 6.0};
  double t = 0.0;
  for (int k = 0; k < 4; ++k) {
    const Proposal step = pace->propose(t, 10.0, nullptr);
    CHECK(step.until == ends[k] && step.block == (k % 2 == 0 ? 3 : 4));
    t = step.until;
  }
  CHECK(pace->propose(9.5, 10.0, nullptr).until == 10.0);
  CHECK(pace->stand({1.0, 0.0, 0.0}) && !pace->stand({2.0, 0.0, 0.0}) && !pace->stand({0.5, 0.0, 0.0}));
  CHECK(!pace->stand({}));
  CHECK(!make_pace("pattern", {}, {0}, {}) && !make_pace("pattern", {1.0}, {0}, {}));
  CHECK(!make_pace("pattern", {0.0, 0}, {0}, {}) && !make_pace("pattern", {1.0, 1}, {0}, {}));
}

TEST(monitored_asks_nothing_of_the_heap_the_second_time) {
  for (const double most : {2.0, 1.5}) {  // replaced every other time; rounded every time
    const auto pace = monitored(most);
    pace->begin(0.0, 100.0);
    double t = 0.0;
    std::int32_t last = 0;
    const auto steps = [&](int count) {
      for (int k = 0; k < count; ++k) {
        pace->note(t, nullptr, 0, nullptr);
        const Proposal step = pace->propose(t, 100.0, nullptr);
        t = step.until;
        last = step.reason;
      }
    };
    const std::size_t before = heap_requests();
    steps(4);
    const std::size_t first = heap_requests();
    CHECK(first > before);  // words were put together, and the counter counts
    const std::int32_t number = last;
    steps(10);
    CHECK(heap_requests() == first);
    CHECK(last == number && number >= static_cast<std::int32_t>(plain_reasons));
  }
}
