// Parts of a block on several threads: who waits for whom, what happens on failure, and that the results are those
// of one thread. These are the tests that the thread sanitizer is for.
#include <array>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "check.hpp"
#include "core_latency.hpp"
#include "helpers.hpp"
#include "workers.hpp"

using namespace upbeat;

namespace {

// Four cores that hand a number around: part k of core c doubles what core c - 1 has left, and adds its own number.
// None of the numbers is atomic: only the flags order what happens.
struct Ring {
  static constexpr std::size_t cores = 4;
  static constexpr std::int32_t laps = 5;
  std::array<double, cores> left{};
  std::int32_t fails = -1;  // the row at which a part fails
  bool slow = false;

  Shares shares() const {
    Shares made(cores);
    for (std::int32_t lap = 0; lap < laps; ++lap) {
      for (std::int32_t core = 0; core < static_cast<std::int32_t>(cores); ++core) {
        Part part{lap * 10 + core, {}};
        if (core > 0) part.waits.push_back({core - 1, lap});
        if (core == 0 && lap > 0) part.waits.push_back({static_cast<std::int32_t>(cores) - 1, lap - 1});
        made[static_cast<std::size_t>(core)].push_back(part);
      }
    }
    return made;
  }
  static bool work(void* self, std::size_t core, std::int32_t row) {
    Ring& ring = *static_cast<Ring*>(self);
    if (ring.slow && row % 10 == 2) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (row == ring.fails) return false;
    const double before = ring.left[(core + cores - 1) % cores];
    ring.left[core] = 2.0 * before + static_cast<double>(core);
    return true;
  }
  // The same on one thread, one lap after the other.
  double expected() const {
    double value = left[cores - 1];
    for (std::int32_t lap = 0; lap < laps; ++lap) {
      for (std::size_t core = 0; core < cores; ++core) value = 2.0 * value + static_cast<double>(core);
    }
    return value;
  }
};

// Units that are independent of each other: the sum of the rows that were done, by core.
struct Lists {
  std::array<std::atomic<int>, 8> done{};
  std::array<bool, 100> fails{};
  static bool work(void* self, std::size_t core, std::int32_t row) {
    Lists& lists = *static_cast<Lists*>(self);
    if (lists.fails[static_cast<std::size_t>(row)]) return false;
    lists.done[core] += row;
    return true;
  }
};

// Two Echo units on two cores: each advances, is read, and is handed what the other has read.
ProgramTables two_echoes(bool shared) {
  const auto advance = [](int unit) { return row(Op::Advance, {unit, 0, 1, 4 + unit, 0}); };
  const auto get = [](int unit) { return row(Op::Get, {unit, 0, 2 + unit, 1, 0}); };
  const auto set = [](int unit) { return row(Op::Set, {unit, 1, 1, 1, 2 + (1 - unit), 0}); };
  const Row end = row(Op::End);
  ProgramTables tables = program_of(4, {advance(0), advance(1), get(0), get(1), set(0), set(1), end,  // 0: all of it
                                        advance(0), get(0), end,                                      // 7
                                        set(0), end,                                                  // 10
                                        advance(1), get(1), end,                                      // 12
                                        set(1)});                                                     // 15
  if (shared) tables.shares = {{{{7, {}}, {10, {{1, 0}}}}, {{12, {}}, {15, {{0, 0}}}}}};
  return tables;
}

struct TwoEchoes {
  Echo left, right;
  Machine machine;
  explicit TwoEchoes(bool shared) : machine(two_echoes(shared), {left.table(), right.table()}, 0.0) {
    left.u = 3.0;
    right.u = 5.0;
  }
  bool step(double until) {
    machine.cells()[1].r = until;
    const bool done = machine.execute(0);
    machine.cells()[0].r = until;
    return done;
  }
};

}  // namespace

TEST(a_number_goes_around_four_threads) {
  Ring ring;
  const Shares shares = ring.shares();
  CHECK(problem_in(shares, 100) == nullptr);
  Workers workers(Ring::cores, 0, &Ring::work, &ring);
  for (int i = 0; i < 200; ++i) {
    ring.left[Ring::cores - 1] = i;
    const double expected = ring.expected();
    CHECK(workers.run(shares));
    CHECK(ring.left[Ring::cores - 1] == expected);
  }
}

TEST(threads_that_wait_for_long_sleep_and_are_woken) {
  Ring ring;
  ring.slow = true;
  const Shares shares = ring.shares();
  Workers workers(Ring::cores, 0, &Ring::work, &ring);
  for (int i = 0; i < 3; ++i) {
    const double expected = ring.expected();
    CHECK(workers.run(shares));
    CHECK(ring.left[Ring::cores - 1] == expected);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // between steps they sleep, too
  }
}

TEST(a_part_that_fails_stops_all_who_need_it) {
  Ring ring;
  const Shares shares = ring.shares();
  Workers workers(Ring::cores, 0, &Ring::work, &ring);
  for (const std::int32_t fails : {0, 3, 12, 21, 43}) {
    ring.fails = fails;
    ring.left.fill(1.0);
    CHECK(!workers.run(shares));
    CHECK(workers.failures(shares).front() == static_cast<std::size_t>(fails % 10));
    ring.fails = -1;
    const double expected = ring.expected();
    CHECK(workers.run(shares));  // they can be used again
    CHECK(ring.left[Ring::cores - 1] == expected);
  }
}

TEST(parts_that_need_nothing_of_a_failure_are_done) {
  Lists lists;
  const Shares shares{{{1, {}}, {2, {}}}, {{10, {}}, {20, {}}, {30, {}}}, {{40, {}}, {50, {{1, 1}}}}, {}};
  Workers workers(4, 0, &Lists::work, &lists);
  lists.fails[20] = true;
  CHECK(!workers.run(shares));
  CHECK((workers.failures(shares) == std::vector<std::size_t>{1}));
  CHECK(lists.done[0] == 3);   // all of it
  CHECK(lists.done[1] == 10);  // up to the failure
  CHECK(lists.done[2] == 40);  // up to what needs it
  lists.fails[40] = true;
  CHECK(!workers.run(shares));
  CHECK((workers.failures(shares) == std::vector<std::size_t>{1, 2}));  // by core, whatever the timing
  lists.fails[2] = true;
  CHECK(!workers.run(shares));
  CHECK(workers.failures(shares).front() == 0);
  lists.fails.fill(false);
  CHECK(workers.run({{}, {}, {}, {{5, {}}}}));
  CHECK(lists.done[3] == 5);
}

// Loose parts of unequal length, and after them a sum of all that were done, on the second core. The part `slow` takes
// until all other loose ones are done: forever, if these were left to the core that is late.
struct Uneven {
  static constexpr std::int32_t each = 4;  // parts of each of the two cores
  std::array<double, 2 * each> values{};
  std::atomic<int> done{0};
  double sum = 0.0;
  std::int32_t slow = -1, fails = -1;

  static Shares shares() {
    Shares made(2);
    for (std::int32_t i = 0; i < each; ++i) {
      made[0].push_back({i, {}, true});
      made[1].push_back({each + i, {}, true});
    }
    made[0].push_back({100, {}});
    made[1].push_back({101, {{0, each - 1}}});
    return made;
  }
  static bool work(void* self, std::size_t lane, std::int32_t row) {
    Uneven& own = *static_cast<Uneven*>(self);
    if (row == 101) own.sum = std::accumulate(own.values.begin(), own.values.end(), 0.0);
    if (row >= 100) return true;
    if (lane != 2 + static_cast<std::size_t>(row)) return false;  // its own, whoever does it
    while (row == own.slow && own.done < 2 * each - 1) std::this_thread::yield();
    ++own.done;
    own.values[static_cast<std::size_t>(row)] += row + 1.0;
    return row != own.fails;
  }
};

TEST(what_is_loose_is_taken_over_where_a_core_is_late) {
  Uneven uneven;
  const Shares shares = Uneven::shares();
  CHECK(problem_in(shares, 200) == nullptr);
  Workers workers(2, Uneven::each, &Uneven::work, &uneven);
  CHECK(workers.lanes() == 2 + 2 * Uneven::each);
  for (int i = 1; i <= 300; ++i) {  // whoever does what: each part once
    CHECK(workers.run(shares));
    CHECK(uneven.sum == 36.0 * i);
  }
  for (const std::int32_t slow : {0, static_cast<std::int32_t>(Uneven::each)}) {
    uneven.slow = slow;
    uneven.done = 0;
    uneven.values.fill(0.0);
    CHECK(workers.run(shares));
    CHECK(uneven.sum == 36.0);
  }
}

TEST(what_fails_in_what_is_loose_does_not_depend_on_who_did_it) {
  Uneven uneven;
  const Shares shares = Uneven::shares();
  Workers workers(2, Uneven::each, &Uneven::work, &uneven);
  for (int i = 0; i < 40; ++i) {
    uneven.fails = i % 8;
    uneven.sum = -1.0;
    CHECK(!workers.run(shares));
    CHECK((workers.failures(shares) == std::vector<std::size_t>{2 + static_cast<std::size_t>(uneven.fails)}));
    CHECK(uneven.sum == -1.0);  // it needs all of them
    uneven.fails = -1;
    uneven.values.fill(0.0);
    CHECK(workers.run(shares));
    CHECK(uneven.sum == 36.0);
  }
}

TEST(a_wait_lets_go_of_what_others_need) {
  static std::atomic<bool> held{true};
  struct Needs {
    static bool work(void*, std::size_t core, std::int32_t) {
      while (core == 1 && held) std::this_thread::yield();
      return true;
    }
  };
  static int outside = 0;
  Workers workers(2, 0, &Needs::work, &outside);
  workers.set_pause({[]() -> void* {
                       held = false;
                       return &outside;
                     },
                     [](void* left) {
                       held = true;
                       ++*static_cast<int*>(left);
                     }});
  for (int i = 1; i <= 5; ++i) {
    CHECK(workers.run({{{0, {}}}, {{1, {}}}}));
    CHECK(held);
    CHECK(outside == i);
  }
}

namespace {

// How a trial ends where a step takes so long on several cores and on one, and after how many steps.
template <class Times>
std::pair<bool, std::size_t> tried(Times seconds) {
  Trial trial;
  trial.begin();
  std::size_t steps = 0;
  while (!trial.over()) trial.took(seconds(trial.several(), steps++));
  return {trial.several(), steps};
}

}  // namespace

TEST(measured_times_decide_whether_cores_share) {
  constexpr std::size_t soon = 5 * Trial::batch, late = (Trial::max_batches + 1) * Trial::batch;
  CHECK(Trial().over() && Trial().several());  // nobody has asked
  CHECK((tried([](bool several, std::size_t) { return several ? 7.0 : 1.0; }) == std::pair{false, soon}));
  CHECK((tried([](bool several, std::size_t) { return several ? 1.0 : 2.0; }) == std::pair{true, soon}));
  // As quick: one core, and the others are free for other work.
  CHECK((tried([](bool, std::size_t) { return 1.0; }) == std::pair{false, late}));
  // The first stretch and the first step of each do not count.
  CHECK(tried([](bool several, std::size_t k) { return several && (k < 4 || k % 4 == 0) ? 1e3 : several ? 1.0 : 2.0; }).first);
  // A few steps that something else has held up do not, either.
  CHECK(tried([](bool several, std::size_t k) { return k % 11 == 7 ? 1e3 : several ? 1.0 : 2.0; }).first);
  // Steps that take longer and longer, or every second and every eighth of which is long.
  CHECK(tried([](bool several, std::size_t k) { return (several ? 0.9 : 1.0) * (1.0 + 0.05 * static_cast<double>(k)); }).first);
  for (std::size_t period : {2u, 8u}) {
    const auto long_ones = [&](std::size_t k) { return k % period == 1 ? 100.0 : 1.0; };
    CHECK(tried([&](bool several, std::size_t k) { return (several ? 0.9 : 1.0) * long_ones(k); }).first);
    CHECK(!tried([&](bool several, std::size_t k) { return (several ? 1.1 : 1.0) * long_ones(k); }).first);
  }
}

TEST(shares_that_nobody_can_do_are_refused) {
  CHECK(problem_in(Shares{{{0, {}}}, {{1, {{0, 0}}}}}, 2) == nullptr);
  CHECK(problem_in(Shares{{{2, {}}}}, 2) != nullptr);               // no such row
  CHECK(problem_in(Shares{{{0, {{1, 0}}, true}}, {{1, {}}}}, 2) != nullptr);  // any core may do it, and yet it waits
  CHECK(problem_in(Shares{{{-1, {}}}}, 2) != nullptr);
  CHECK(problem_in(Shares{{{0, {{0, 0}}}}}, 2) != nullptr);         // waits for itself
  CHECK(problem_in(Shares{{{0, {{1, 0}}}}}, 2) != nullptr);         // no such core
  CHECK(problem_in(Shares{{{0, {{1, 1}}}}, {{1, {}}}}, 2) != nullptr);  // no such part
  CHECK(problem_in(Shares{{{0, {{1, -1}}}}, {{1, {}}}}, 2) != nullptr);
  CHECK(problem_in(Shares{{{0, {{1, 0}}}}, {{1, {{0, 0}}}}}, 2) != nullptr);  // each waits for the other
  ProgramTables tables = two_echoes(true);
  CHECK(problem_in(tables, 2).empty());
  tables.shares.push_back({});
  CHECK(!problem_in(tables, 2).empty());  // there are not as many blocks
  tables = two_echoes(true);
  tables.shares[0][0][0].row = 99;
  CHECK(!problem_in(tables, 2).empty());
}

TEST(what_a_wait_costs_can_be_measured) {
  const double seconds = core_latency(0.01);
  CHECK(seconds > 1e-9 && seconds < 1.0);
}

TEST(a_machine_on_two_cores_does_what_it_does_on_one) {
  TwoEchoes one(false), two(true);
  for (int i = 1; i <= 1000; ++i) {
    CHECK(one.step(0.1 * i) && two.step(0.1 * i));
    for (std::size_t cell = 0; cell < 6; ++cell) CHECK(one.machine.cells()[cell].i == two.machine.cells()[cell].i);
    CHECK(one.left.u == two.left.u && one.right.u == two.right.u);
    CHECK(two.left.u == (i % 2 == 1 ? 5.0 : 3.0));  // they hand their values to each other
  }
}

TEST(a_unit_that_refuses_on_another_core_is_named) {
  TwoEchoes two(true);
  two.right.fail_after = 2;
  CHECK(two.step(1.0) && two.step(2.0) && !two.step(3.0));
  const Error& error = two.machine.error();
  CHECK(error.fault == Fault::Refused && error.call == Call::Advance && error.unit == 1);
  CHECK(error.row == 12 && error.status == 7 && error.message == "it broke");
  CHECK(error.time == 2.0 && error.start == 2.0 && error.until == 3.0);
}
