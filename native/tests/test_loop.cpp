// The loop, its paces, the recorder, and machines on several threads.
#include <algorithm>
#include <thread>

#include "check.hpp"
#include "helpers.hpp"
#include "loop.hpp"

using namespace upbeat;

namespace {

// One Echo whose output feeds its own input; cell 2 is recorded.
ProgramTables ring() {
  return program_of(2, {row(Op::Advance, {0, 0, 1, 3}), row(Op::Get, {0, 1, 2, 1, 0}), row(Op::Set, {0, 0, 1, 1, 2})});
}

struct Table {
  std::vector<Cell> cells;
  std::size_t rows = 0;
  Status status = Status::Paused;
  std::vector<StepRun> steps;
};

// Runs from 0 to the end, draining chunks of `capacity` rows.
Table run_all(Machine& machine, Pace& pace, double stop, std::int64_t every, std::size_t capacity, double budget = 10.0,
              std::int64_t most = INT64_MAX) {
  Recorder recorder({2}, every);
  StepLog log;
  Table table;
  std::vector<Cell> chunk(capacity * recorder.width());
  const auto drain = [&] {
    table.cells.insert(table.cells.end(), chunk.begin(), chunk.begin() + static_cast<std::ptrdiff_t>(2 * recorder.rows()));
    table.rows += recorder.rows();
    for (const StepRun& run : log.drain()) table.steps.push_back(run);
    recorder.open(chunk.data(), capacity);
  };
  recorder.open(chunk.data(), capacity);
  CHECK(begin(machine, pace, &recorder));
  do {
    drain();
    table.status = run(machine, pace, &recorder, log, stop, budget, most);
  } while (table.status == Status::Full || table.status == Status::Paused);
  drain();
  return table;
}

Table run_fixed(Machine& machine, double stop, double step, std::int64_t every, std::size_t capacity,
                double budget = 10.0, std::int64_t most = INT64_MAX) {
  Fixed pace(step, 0);
  return run_all(machine, pace, stop, every, capacity, budget, most);
}

// Rejects a step until it is at most half as long as proposed, and remembers how often.
class Halving final : public Pace {
 public:
  explicit Halving(double factor) : factor_(factor) { state_ = {0.0}; }
  bool retries() const override { return true; }
  void begin(double, double) override {}
  Proposal propose(double t, double limit, const Cell*) override { return {std::min(t + 1.0, limit), 0, 0}; }
  bool review(double t, double reached, const Cell*, Proposal& step) override {
    if (reached - t <= 0.5) return true;
    state_[0] += 1.0;
    step = {t + factor_ * (reached - t), 1, 0};
    return false;
  }
  void note(double t, const Fired* fired, std::size_t count, const Cell*) override {
    noted = t;
    events += static_cast<int>(count);
    if (count > 0) CHECK(fired[0].index == 0 && fired[0].time == t);
  }

  double noted = -1.0;
  int events = 0;

 private:
  double factor_;
};

}  // namespace

TEST(times_lie_on_the_grid) {
  Echo unit;
  Machine machine(ring(), {unit.table()}, 0.0);
  const Table table = run_fixed(machine, 1.05, 0.1, 1, 100);
  CHECK(table.status == Status::Finished && table.rows == 12);
  for (std::size_t i = 0; i < 11; ++i) CHECK(table.cells[2 * i].r == static_cast<double>(i) * 0.1);
  CHECK(table.cells[22].r == 1.05);
  CHECK(table.cells[1].r == 0.0 && table.cells[3].r == 1.0);
}

TEST(small_chunks_and_budgets_lose_nothing) {
  Echo one, two, three;
  Machine a(ring(), {one.table()}, 0.0);
  Machine b(ring(), {two.table()}, 0.0);
  Machine c(ring(), {three.table()}, 0.0);
  const Table whole = run_fixed(a, 10.0, 0.01, 1, 2000);
  const Table pieces = run_fixed(b, 10.0, 0.01, 1, 7);
  const Table paused = run_fixed(c, 10.0, 0.01, 1, 2000, 1e-6);
  CHECK(whole.rows == 1001 && pieces.rows == 1001 && paused.rows == 1001);
  for (std::size_t i = 0; i < whole.cells.size(); ++i) {
    CHECK(whole.cells[i].i == pieces.cells[i].i && whole.cells[i].i == paused.cells[i].i);
  }
}

TEST(thinning_keeps_the_first_and_the_last_row) {
  Echo unit;
  Machine machine(ring(), {unit.table()}, 0.0);
  const Table table = run_fixed(machine, 1.0, 0.1, 4, 100);
  CHECK(table.rows == 4);  // 0, 4, 8, 10
  CHECK(table.cells[0].r == 0.0 && table.cells[2].r == 4 * 0.1 && table.cells[4].r == 8 * 0.1 && table.cells[6].r == 1.0);
}

TEST(rows_of_any_width_are_copied) {
  for (std::int32_t width = 1; width <= 20; ++width) {
    std::vector<Cell> cells;
    std::vector<std::int32_t> columns;
    for (std::int32_t i = 0; i < width; ++i) {
      cells.push_back(real(i));
      columns.push_back(i);
    }
    columns.push_back(0);  // a second run of cells
    Recorder recorder(columns, 1);
    std::vector<Cell> row(recorder.width());
    recorder.open(row.data(), 1);
    recorder.offer(-1.0, cells.data(), false);
    CHECK(recorder.room() == 0 && row[0].r == -1.0 && row.back().r == 0.0);
    for (std::int32_t i = 0; i < width; ++i) CHECK(row[static_cast<std::size_t>(i + 1)].r == i);
  }
}

TEST(a_failure_keeps_the_rows_so_far) {
  Echo unit;
  unit.fail_after = 3;
  Machine machine(ring(), {unit.table()}, 0.0);
  const Table table = run_fixed(machine, 1.0, 0.1, 1, 100);
  CHECK(table.status == Status::Failed && table.rows == 4);
  CHECK(machine.error().call == Call::Advance && machine.error().time == 3 * 0.1);
}

TEST(a_limit_of_steps_pauses) {
  Echo unit;
  Machine machine(ring(), {unit.table()}, 0.0);
  Fixed pace(0.1, 0);
  StepLog log;
  CHECK(begin(machine, pace, nullptr));
  CHECK(run(machine, pace, nullptr, log, 1.0, 10.0, 3) == Status::Paused);
  CHECK(machine.cells()[0].r == 3 * 0.1);
  CHECK(run(machine, pace, nullptr, log, 0.35, 10.0, 3) == Status::Finished);  // a nearer limit
  CHECK(run(machine, pace, nullptr, log, 1.0, 10.0, 1) == Status::Paused);     // and back to the grid
  CHECK(machine.cells()[0].r == 4 * 0.1);
}

TEST(the_grid_survives_steps_that_end_early) {
  Fixed pace(0.1, 0);
  pace.begin(1.0, 10.0);
  CHECK(pace.propose(1.0, 9.0, nullptr).until == 1.0 + 0.1);
  CHECK(pace.propose(1.05, 9.0, nullptr).until == 1.0 + 0.1);
  CHECK(pace.propose(1.0 + 0.1, 9.0, nullptr).until == 1.0 + 2 * 0.1);
  CHECK(pace.propose(1.0 + 0.1 * (1.0 - 1e-9), 9.0, nullptr).until == 1.0 + 2 * 0.1);
  CHECK(pace.propose(0.95, 9.0, nullptr).until == 1.0);  // below the origin, too
  CHECK(pace.propose(1.0, 1.1 + 1e-9, nullptr).until == 1.1 + 1e-9);  // no last step of a billionth
  CHECK(pace.propose(1.0, 1.11, nullptr).until == 1.0 + 0.1);
}

TEST(a_step_that_does_not_move_on_is_an_error) {
  ProgramTables tables = program_of(1, {row(Op::Copy, {0, 1, 1})});  // next := now
  Machine machine(tables, {}, 0.0);
  CHECK(run_fixed(machine, 1.0, 0.1, 1, 10).status == Status::Failed);
  CHECK(machine.error().fault == Fault::NoProgress);
}

TEST(events_carry_the_time_at_the_end_of_their_step) {
  ProgramTables tables = program_of(1, {row(Op::Fire, {3}), row(Op::End), row(Op::Fire, {4})});
  tables.entries = {0, 2};
  tables.instant_block = 1;
  Machine machine(tables, {}, 0.0);
  CHECK(run_fixed(machine, 0.2, 0.1, 1, 10).status == Status::Finished);
  FiredLog& fired = machine.fired();
  CHECK(fired.size() == 5);
  CHECK(fired.data()[0].event == 4 && fired.data()[0].time == 0.0 && fired.data()[0].index == 0);  // at the start time
  CHECK(fired.data()[1].event == 3 && fired.data()[1].time == 0.1 && fired.data()[1].index == 0);
  CHECK(fired.data()[2].event == 4 && fired.data()[2].time == 0.1 && fired.data()[2].index == 1);
  CHECK(fired.data()[4].time == 0.2 && fired.data()[4].index == 1);
}

TEST(a_step_sent_back_leaves_no_trace_but_its_count) {
  Echo unit;
  ProgramTables tables = ring();
  tables.code.insert(tables.code.begin(), row(Op::Fire, {0}));
  Machine machine(tables, {unit.table()}, 0.0);
  Halving pace(0.5);
  const Table table = run_all(machine, pace, 2.0, 1, 100);
  CHECK(table.status == Status::Finished && table.rows == 5);
  CHECK(unit.time == 2.0 && pace.noted == 2.0);
  CHECK(machine.fired().size() == 4 && pace.events == 4);
  CHECK(pace.state()[0] == 3.0);  // the last proposal was short enough by itself
  CHECK(table.steps.size() == 2);
  CHECK(table.steps[0].count == 3 && table.steps[0].reason == 1 && table.steps[0].rejected == 3);
  CHECK(table.steps[1].count == 1 && table.steps[1].reason == 0 && table.steps[1].last == 2.0);
}

TEST(retries_and_proposals_have_their_limits) {
  Echo one, two;
  Machine endless(ring(), {one.table()}, 0.0);
  Halving never(1.0);
  CHECK(run_all(endless, never, 2.0, 1, 100).status == Status::Failed);
  CHECK(endless.error().fault == Fault::Rejected && endless.error().cell == 1);
  Machine machine(ring(), {two.table()}, 0.0);
  Halving too_far(5.0);
  CHECK(run_all(machine, too_far, 2.0, 1, 100).status == Status::Failed);
  CHECK(machine.error().fault == Fault::BadStep && machine.error().until == 5.0 && machine.error().value == 2.0);
}

TEST(the_log_does_not_show_who_drained_it) {
  std::vector<std::vector<StepRun>> logs;
  for (const int often : {1, 3, 1000}) {
    StepLog log;
    std::vector<StepRun> whole;
    for (int k = 0; k < 100; ++k) {
      const double from = k < 50 ? 0.1 * k : 5.0 + 0.2 * (k - 50);
      const double to = k < 50 ? 0.1 * (k + 1) : 5.0 + 0.2 * (k - 49);
      log.append(from, to, 0, k < 75 ? 0 : 1, k % 2);
      if ((k + 1) % often == 0 || k == 99) {
        for (const StepRun& run : log.drain()) {
          const bool goes_on = !whole.empty() && whole.back().block == run.block && whole.back().last == run.first &&
                               run.first != 5.0;
          if (goes_on) {
            whole.back().last = run.last;
            whole.back().count += run.count;
            whole.back().rejected += run.rejected;
          } else {
            whole.push_back(run);
          }
        }
      }
    }
    logs.push_back(whole);
  }
  for (const auto& log : logs) {
    CHECK(log.size() == 3 && log[0].count == 50 && log[1].count == 25 && log[2].count == 25);
    CHECK(log[0].rejected == 25 && log[2].last == logs[0][2].last);
  }
}

TEST(a_long_log_is_drained_like_rows) {
  Echo unit;
  Machine machine(ring(), {unit.table()}, 0.0);
  class Growing final : public Pace {
   public:
    void begin(double, double) override {}
    Proposal propose(double t, double limit, const Cell*) override { return {std::min(t + 1e-3 + 0.003 * t, limit), 0, 0}; }
    bool review(double, double, const Cell*, Proposal&) override { return true; }
    void note(double, const Fired*, std::size_t, const Cell*) override {}
  } pace;
  StepLog log;
  CHECK(begin(machine, pace, nullptr));
  std::int64_t count = 0;
  Status status = Status::Full;
  int rounds = 0;
  while (status == Status::Full) {
    status = run(machine, pace, nullptr, log, 1e6, 10.0, INT64_MAX);
    for (const StepRun& run : log.drain()) count += run.count;
    ++rounds;
  }
  CHECK(status == Status::Finished && rounds == 2 && count > 4500);
}

TEST(another_thread_can_ask_to_stop) {
  Echo unit;
  Machine machine(ring(), {unit.table()}, 0.0);
  Fixed pace(1e-9, 0);
  StepLog log;
  CHECK(begin(machine, pace, nullptr));
  std::thread other([&machine] { machine.ask_to_stop(); });
  CHECK(run(machine, pace, nullptr, log, 1e9, 60.0, INT64_MAX) == Status::Stopped);
  other.join();
}

TEST(paces_are_made_by_name) {
  CHECK(make_pace("fixed", {0.5}, {3})->propose(0.0, 9.0, nullptr).block == 3);
  CHECK(!make_pace("fixed", {0.0}, {3}) && !make_pace("fixed", {0.5}, {}) && !make_pace("furlong", {}, {0}));
}

TEST(machines_share_nothing_that_changes) {
  // Units of one model share its kernels, also across threads.
  OdeTables model;
  model.inputs = {{1, Kind::Real}};
  model.outputs = {{1, Kind::Real, 1}};
  model.states = {1.0};
  model.input_start = {0.0};
  model.derivatives = shared(kernel_of(3, {}, {{UPBEAT_SUB, 3, 2, 1, 0}}, {3}));
  model.compute = shared(kernel_of(3, {2.0}, {{UPBEAT_MUL, 4, 1, 3, 0}}, {4}));
  model.solver.c = {0.0};
  model.solver.a = {0.0};
  model.solver.b = {1.0};
  std::vector<Table> tables(4);
  std::vector<std::thread> threads;
  for (Table& table : tables) {
    threads.emplace_back([&model, &table] {
      Machine machine(ring(), {Ode::make(model, 0.0)}, 0.0);
      table = run_fixed(machine, 1.0, 0.001, 1, 100);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Table& table : tables) {
    CHECK(table.status == Status::Finished && table.rows == 1001);
    for (std::size_t i = 0; i < table.cells.size(); ++i) CHECK(table.cells[i].i == tables[0].cells[i].i);
  }
}

TEST(the_short_cut_of_the_grid_changes_nothing) {
  // The same proposals from a pace that remembers its last one and from one that cannot.
  for (const double origin : {0.0, -3.7, 1e6}) {
    for (const double step : {0.1, 1e-3, 1.0 / 3.0, 7e-3, 1e-4}) {
      Fixed pace(step, 0);
      const double limit = origin + 20000.5 * step;
      pace.begin(origin, limit);
      double t = origin;
      while (t < limit) {
        Fixed fresh(step, 0);
        fresh.begin(origin, limit);
        const double until = pace.propose(t, limit, nullptr).until;
        CHECK(until == fresh.propose(t, limit, nullptr).until && until > t);
        t = until;
      }
    }
  }
}
