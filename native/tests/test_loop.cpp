// The loop, the instructions of paces, the recorder, and machines on several threads.
#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

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
Table run_all(Machine& machine, double stop, std::int64_t every, std::size_t capacity, double budget = 10.0,
              std::int64_t most = INT64_MAX) {
  CHECK(problem_in(machine.tables(), machine.units()).empty());
  Memory memory;
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
  CHECK(begin(machine, memory, &recorder));
  do {
    drain();
    table.status = run(machine, memory, &recorder, &log, stop, budget, most);
  } while (table.status == Status::Full || table.status == Status::Paused);
  drain();
  return table;
}

// A ring in steps of 1 at most, each of which is rejected until it is at most half as long, for `factor` times its length. The
// last cell counts how often.
ProgramTables halving(double factor) {
  ProgramTables tables = ring();
  const std::int32_t counter = 4;  // of program_of(2, ...): the cells after it are the pace's
  tables.start.push_back(real(0.0));
  tables.kinds.push_back(Kind::Real);
  const std::int32_t limit = 5, until = 6;
  // until := min(now + 1, limit), for the reason 0
  const std::int32_t propose = add_expression(
      tables, kernel_of(2, {1.0, 0.0}, {{UPBEAT_ADD, 4, 0, 2, 0}, {UPBEAT_MIN, 5, 4, 1, 0}}, {5, 3}), {0, limit}, {until, limit + 5});
  tables = paced(std::move(tables), {row(Op::Compute, {propose})});
  PaceTables& pace = tables.pace;
  const auto block = [&tables](std::vector<Row> rows) {
    tables.entries.push_back(static_cast<std::int32_t>(tables.code.size()));
    tables.code.insert(tables.code.end(), rows.begin(), rows.end());
    tables.code.push_back(row(Op::End));
    return static_cast<std::int32_t>(tables.entries.size() - 1);
  };
  // again := next - now > 0.5
  const std::int32_t judge = add_expression(
      tables, kernel_of(2, {0.5}, {{UPBEAT_SUB, 3, 1, 0, 0}, {UPBEAT_GT, 4, 3, 2, 0}}, {4}), {0, 1}, {pace.again});
  // until := now + factor·(next - now), reason := 1, counter := counter + 1
  const std::int32_t back = add_expression(
      tables,
      kernel_of(3, {factor, 1.0},
                {{UPBEAT_SUB, 5, 1, 0, 0}, {UPBEAT_MUL, 6, 3, 5, 0}, {UPBEAT_ADD, 7, 0, 6, 0}, {UPBEAT_ADD, 8, 2, 4, 0}}, {7, 4, 8}),
      {0, 1, counter}, {until, pace.reason, counter});
  const std::int32_t test = add_expression(tables, kernel_of(1, {}, {}, {0}), {pace.again}, {});
  const auto first = static_cast<std::int32_t>(tables.code.size());
  pace.review = block({row(Op::Compute, {judge}), row(Op::Unless, {test, first + 3}), row(Op::Compute, {back})});
  tables.slots = 1;
  tables.operands = {0, 0, 1, 2, 3};  // the unit, and all cells that are not the pace's
  pace.keep = block({row(Op::Save, {0, 0, 1, 4})});
  pace.back = block({row(Op::Restore, {0})});
  return tables;
}

Table run_fixed(Echo& unit, double stop, double step, std::int64_t every, std::size_t capacity, double budget = 10.0,
                std::int64_t most = INT64_MAX) {
  Machine machine(on_grid(ring(), step), {unit.table()}, 0.0);
  return run_all(machine, stop, every, capacity, budget, most);
}

}  // namespace

TEST(times_lie_on_the_grid) {
  Echo unit;
  const Table table = run_fixed(unit, 1.05, 0.1, 1, 100);
  CHECK(table.status == Status::Finished && table.rows == 12);
  for (std::size_t i = 0; i < 11; ++i) CHECK(table.cells[2 * i].r == static_cast<double>(i) * 0.1);
  CHECK(table.cells[22].r == 1.05);
  CHECK(table.cells[1].r == 0.0 && table.cells[3].r == 1.0);
}

TEST(small_chunks_and_budgets_lose_nothing) {
  Echo one, two, three;
  const Table whole = run_fixed(one, 10.0, 0.01, 1, 2000);
  const Table pieces = run_fixed(two, 10.0, 0.01, 1, 7);
  const Table paused = run_fixed(three, 10.0, 0.01, 1, 2000, 1e-6);
  CHECK(whole.rows == 1001 && pieces.rows == 1001 && paused.rows == 1001);
  for (std::size_t i = 0; i < whole.cells.size(); ++i) {
    CHECK(whole.cells[i].i == pieces.cells[i].i && whole.cells[i].i == paused.cells[i].i);
  }
}

TEST(thinning_keeps_the_first_and_the_last_row) {
  Echo unit;
  const Table table = run_fixed(unit, 1.0, 0.1, 4, 100);
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

TEST(a_jump_is_two_rows_whatever_is_thinned) {
  std::vector<Cell> cells = {real(1.0), real(2.0), real(3.0)};
  Recorder recorder({0, 2}, 3, true);
  std::vector<Cell> rows(20 * recorder.width());
  recorder.open(rows.data(), 20);
  CHECK(recorder.room() == 10);
  for (int k = 0; k < 8; ++k) {
    recorder.before(k, cells.data());
    if (k == 1) cells[1].r = 7.0;                // not recorded
    if (k == 4 || k == 7) cells[2].r = 10.0 * k;  // the last one, too
    recorder.offer(k, cells.data(), k == 7);
    CHECK(recorder.left_out() == (k == 1 || k == 2 || k == 5));
  }
  CHECK(recorder.rows() == 7);
  const double times[] = {0.0, 3.0, 4.0, 4.0, 6.0, 7.0, 7.0};
  const double values[] = {3.0, 3.0, 3.0, 40.0, 40.0, 40.0, 70.0};
  for (std::size_t i = 0; i < 7; ++i) CHECK(rows[3 * i].r == times[i] && rows[3 * i + 1].r == 1.0 && rows[3 * i + 2].r == values[i]);
  recorder.open(rows.data(), 1);
  CHECK(recorder.room() == 0);
}

TEST(a_failure_keeps_the_rows_so_far) {
  Echo unit;
  unit.fail_after = 3;
  Machine machine(on_grid(ring(), 0.1), {unit.table()}, 0.0);
  const Table table = run_all(machine, 1.0, 1, 100);
  CHECK(table.status == Status::Failed && table.rows == 4);
  CHECK(machine.error().call == Call::Advance && machine.error().time == 3 * 0.1);
}

TEST(a_limit_of_steps_pauses) {
  Echo unit;
  Machine machine(on_grid(ring(), 0.1), {unit.table()}, 0.0);
  Memory memory;
  StepLog log;
  CHECK(begin(machine, memory, nullptr));
  CHECK(run(machine, memory, nullptr, &log, 1.0, 10.0, 3) == Status::Paused);
  CHECK(machine.cells()[0].r == 3 * 0.1);
  CHECK(run(machine, memory, nullptr, &log, 0.35, 10.0, 3) == Status::Finished);  // a nearer limit
  CHECK(run(machine, memory, nullptr, &log, 1.0, 10.0, 1) == Status::Paused);     // and back to the grid
  CHECK(machine.cells()[0].r == 4 * 0.1);
}

TEST(the_grid_survives_steps_that_end_early) {
  Machine machine(on_grid(program_of(0, {}), 0.1, 1.0), {}, 0.0);
  const auto next = [&machine](double t, double limit) {
    machine.cells()[0].r = t;
    machine.cells()[machine.tables().pace.limit].r = limit;
    CHECK(machine.execute(machine.tables().pace.propose));
    return machine.cells()[machine.tables().pace.until].r;
  };
  CHECK(next(1.0, 9.0) == 1.0 + 0.1);
  CHECK(next(1.05, 9.0) == 1.0 + 0.1);
  CHECK(next(1.0 + 0.1, 9.0) == 1.0 + 2 * 0.1);
  CHECK(next(1.0 + 0.1 * (1.0 - 1e-9), 9.0) == 1.0 + 2 * 0.1);
  CHECK(next(0.95, 9.0) == 1.0);                  // below the origin, too
  CHECK(next(1.0, 1.1 + 1e-9) == 1.1 + 1e-9);  // no last step of a billionth
  CHECK(next(1.0, 1.11) == 1.0 + 0.1);
}

TEST(a_step_that_does_not_move_on_is_an_error) {
  ProgramTables tables = program_of(1, {row(Op::Copy, {0, 1, 1})});  // next := now
  Machine machine(on_grid(tables, 0.1), {}, 0.0);
  CHECK(run_all(machine, 1.0, 1, 10).status == Status::Failed);
  CHECK(machine.error().fault == Fault::NoProgress);
}

TEST(events_carry_the_time_at_the_end_of_their_step) {
  ProgramTables tables = program_of(1, {row(Op::Fire, {3}), row(Op::End), row(Op::Fire, {4})});
  tables.entries = {0, 2};
  tables.instant_block = 1;
  Machine machine(on_grid(tables, 0.1), {}, 0.0);
  CHECK(run_all(machine, 0.2, 1, 10).status == Status::Finished);
  FiredLog& fired = machine.fired();
  CHECK(fired.size() == 5);
  CHECK(fired.data()[0].event == 4 && fired.data()[0].time == 0.0 && fired.data()[0].index == 0);  // at the start time
  CHECK(fired.data()[1].event == 3 && fired.data()[1].time == 0.1 && fired.data()[1].index == 0);
  CHECK(fired.data()[2].event == 4 && fired.data()[2].time == 0.1 && fired.data()[2].index == 1);
  CHECK(fired.data()[4].time == 0.2 && fired.data()[4].index == 1);
}

TEST(a_step_sent_back_leaves_no_trace_but_its_count) {
  Echo unit;
  Machine machine(halving(0.5), {unit.table()}, 0.0);
  const Table table = run_all(machine, 2.0, 1, 100);
  CHECK(table.status == Status::Finished && table.rows == 5);
  CHECK(unit.time == 2.0);
  CHECK(machine.cells()[4].r == 3.0);  // the last proposal was short enough by itself
  CHECK(table.steps.size() == 2);
  CHECK(table.steps[0].count == 3 && table.steps[0].reason == 1 && table.steps[0].rejected == 3);
  CHECK(table.steps[1].count == 1 && table.steps[1].reason == 0 && table.steps[1].last == 2.0);
}

TEST(retries_and_proposals_have_their_limits) {
  Echo one, two;
  Machine endless(halving(1.0), {one.table()}, 0.0);
  CHECK(run_all(endless, 2.0, 1, 100).status == Status::Failed);
  CHECK(endless.error().fault == Fault::Rejected);
  Machine machine(halving(5.0), {two.table()}, 0.0);
  CHECK(run_all(machine, 2.0, 1, 100).status == Status::Failed);
  CHECK(machine.error().fault == Fault::BadStep && machine.error().until == 5.0 && machine.error().value == 2.0);
}

TEST(reasons_are_numbered_by_what_they_tell) {
  PaceTables pace;
  pace.reasons = {{false, 0, false}, {true, 0, true}, {false, 2, false}};
  Reasons reasons;
  const auto number = [&](double a, double b, double c, double d) {
    const Cell told[] = {real(a), real(b), real(c), real(d)};
    return reasons.number(pace, told);
  };
  CHECK(number(0.0, 1.0, 2.0, 3.0) == 0 && number(0.0, 9.0, 9.0, 9.0) == 0);
  const std::int32_t first = number(1.0, 0.5, 7.0, 7.0);
  CHECK(first == 3 && number(1.0, 0.5, 8.0, 8.0) == first && number(1.0, 0.6, 7.0, 7.0) == 4);
  CHECK(number(2.0, 0.5, 7.0, 8.0) == 5 && number(2.0, 0.6, 7.0, 8.0) == 5 && number(2.0, 0.5, 7.0, 9.0) == 6);
  CHECK(number(3.0, 1.0, 0.0, 0.0) == 7 && number(3.0, 0.0, 0.0, 0.0) == 7);  // the host knows what it means
  CHECK(reasons.of(0)[0] == 0.0 && reasons.of(first)[1] == 0.5 && reasons.of(5)[3] == 8.0 && reasons.of(7)[0] == 3.0);
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
  ProgramTables tables = ring();
  const std::int32_t limit = 4;
  // until := min(now + 1e-3 + 0.003·now, limit)
  const std::int32_t propose = add_expression(
      tables,
      kernel_of(2, {1e-3, 0.003},
                {{UPBEAT_ADD, 4, 0, 2, 0}, {UPBEAT_MUL, 5, 3, 0, 0}, {UPBEAT_ADD, 6, 4, 5, 0}, {UPBEAT_MIN, 7, 6, 1, 0}}, {7}),
      {0, limit}, {limit + 1});
  Machine machine(paced(tables, {row(Op::Compute, {propose})}), {unit.table()}, 0.0);
  Memory memory;
  StepLog log;
  CHECK(begin(machine, memory, nullptr));
  std::int64_t count = 0;
  Status status = Status::Full;
  int rounds = 0;
  while (status == Status::Full) {
    status = run(machine, memory, nullptr, &log, 1e6, 10.0, INT64_MAX);
    for (const StepRun& run : log.drain()) count += run.count;
    ++rounds;
  }
  CHECK(status == Status::Finished && rounds == 2 && count > 4500);
}

TEST(another_thread_can_ask_to_stop) {
  Echo unit;
  Machine machine(on_grid(ring(), 1e-9), {unit.table()}, 0.0);
  Memory memory;
  StepLog log;
  CHECK(begin(machine, memory, nullptr));
  std::thread other([&machine] { machine.ask_to_stop(); });
  CHECK(run(machine, memory, nullptr, &log, 1e9, 60.0, INT64_MAX) == Status::Stopped);
  other.join();
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
      Machine machine(on_grid(ring(), 0.001), {Ode::make(model, 0.0)}, 0.0);
      table = run_all(machine, 1.0, 1, 100);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Table& table : tables) {
    CHECK(table.status == Status::Finished && table.rows == 1001);
    for (std::size_t i = 0; i < table.cells.size(); ++i) CHECK(table.cells[i].i == tables[0].cells[i].i);
  }
}

TEST(the_short_cut_of_the_grid_changes_nothing) {
  // The same points from a grid that remembers its last one and from one that cannot.
  for (const double origin : {0.0, -3.7, 1e6}) {
    for (const double step : {0.1, 1e-3, 1.0 / 3.0, 7e-3, 1e-4}) {
      Machine machine(on_grid(program_of(0, {}), step, origin), {}, 0.0);
      const PaceTables& pace = machine.tables().pace;
      Cell* const cells = machine.cells();
      const double limit = origin + 20000.5 * step;
      cells[pace.limit].r = limit;
      double t = origin;
      while (t < limit) {
        cells[0].r = t;
        CHECK(machine.execute(pace.propose));
        const double until = cells[pace.until].r;
        const double safe = std::exchange(cells[6].r, std::nan(""));
        CHECK(machine.execute(pace.propose));
        CHECK(until == cells[pace.until].r && until > t);
        cells[6].r = safe;
        t = until;
      }
    }
  }
}

TEST(tables_and_ranks) {
  ProgramTables tables = program_of(4, {row(Op::Pick, {2, 3, 0, 5}), row(Op::End), row(Op::Rank, {2, 3, 0, 5})});
  tables.entries = {0, 2};
  for (int i = 0; i < 3; ++i) tables.start[static_cast<std::size_t>(2 + i)] = real(10.0 * (i + 1));
  Machine machine(tables, {}, 0.0);
  const auto found = [&machine](std::int32_t block, double given) {
    machine.cells()[0].r = given;
    CHECK(machine.execute(block));
    return machine.cells()[5].r;
  };
  for (const double wild : {-1e300, -1.0, 0.0, std::nan("")}) CHECK(found(0, wild) == 10.0);
  CHECK(found(0, 1.0) == 20.0 && found(0, 2.0) == 30.0 && found(0, 3.0) == 30.0 && found(0, 1e300) == 30.0);
  CHECK(found(1, 9.0) == 0.0 && found(1, 10.0) == 1.0 && found(1, 29.0) == 2.0 && found(1, 1e300) == 3.0);
}

TEST(tables_of_paces_are_checked) {
  const ProgramTables good = halving(0.5);
  CHECK(problem_in(good, 1).empty());
  const auto refused = [&good](auto change) {
    ProgramTables tables = good;
    change(tables);
    return !problem_in(tables, 1).empty();
  };
  CHECK(refused([](ProgramTables& t) { t.pace.limit = 1000; }));
  CHECK(refused([](ProgramTables& t) { t.pace.reason = static_cast<std::int32_t>(t.start.size()) - 3; }));
  CHECK(refused([](ProgramTables& t) { t.pace.steps = {17}; }));
  CHECK(refused([](ProgramTables& t) { t.pace.propose = -1; }));
  CHECK(refused([](ProgramTables& t) { t.pace.back = -1; }));
  CHECK(refused([](ProgramTables& t) { t.pace.reasons[0].of = 3; }));
  CHECK(refused([](ProgramTables& t) { t.code[0] = row(Op::Pick, {0, 1000, 0, 0}); }));
  CHECK(refused([](ProgramTables& t) { t.code[0] = row(Op::Fit, {1, 0}); }));
  CHECK(refused([](ProgramTables& t) { t.code[0] = row(Op::Fall, {1, 0}); }));
  CHECK(refused([](ProgramTables& t) { t.code[0] = row(Op::Grid, {1000, 0, 0, 0}); }));
  CHECK(refused([](ProgramTables& t) { t.code[0] = row(Op::Call, {0}); }));
}
