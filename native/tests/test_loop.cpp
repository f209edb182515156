// The loop over steps of one size, the recorder, and machines on several threads.
#include <thread>

#include "check.hpp"
#include "helpers.hpp"
#include "loop.hpp"

using namespace upbeat;

namespace {

// One Echo whose output feeds its own input; cell 2 is recorded.
ProgramTables ring() {
  return program_of(2, {row(Op::Advance, {0, 0, 1, 3}), row(Op::Get, {0, 0, 2, 1, 0}), row(Op::Set, {0, 0, 1, 1, 2})});
}

FixedRun grid(double stop, double step, std::int64_t count) {
  FixedRun run;
  run.stop = stop;
  run.step = step;
  run.count = count;
  return run;
}

struct Table {
  std::vector<Cell> cells;
  std::size_t rows = 0;
  Status status = Status::Paused;
};

// Runs to the end, draining chunks of `capacity` rows.
Table run_all(Machine& machine, FixedRun run, std::int64_t every, std::size_t capacity, double budget = 10.0) {
  Recorder recorder({2}, every);
  Table table;
  std::vector<Cell> chunk(capacity * recorder.width());
  do {
    recorder.open(chunk.data(), capacity);
    table.status = run_fixed(machine, run, recorder, budget, INT64_MAX);
    table.cells.insert(table.cells.end(), chunk.begin(), chunk.begin() + static_cast<std::ptrdiff_t>(2 * recorder.rows()));
    table.rows += recorder.rows();
  } while (table.status == Status::Full || table.status == Status::Paused);
  return table;
}

}  // namespace

TEST(times_lie_on_the_grid) {
  Echo unit;
  Machine machine(ring(), {unit.table()}, 0.0);
  const Table table = run_all(machine, grid(1.05, 0.1, 11), 1, 100);
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
  const Table whole = run_all(a, grid(10.0, 0.01, 1000), 1, 2000);
  const Table pieces = run_all(b, grid(10.0, 0.01, 1000), 1, 7);
  const Table paused = run_all(c, grid(10.0, 0.01, 1000), 1, 2000, 1e-6);
  CHECK(whole.rows == 1001 && pieces.rows == 1001 && paused.rows == 1001);
  for (std::size_t i = 0; i < whole.cells.size(); ++i) {
    CHECK(whole.cells[i].i == pieces.cells[i].i && whole.cells[i].i == paused.cells[i].i);
  }
}

TEST(thinning_keeps_the_first_and_the_last_row) {
  Echo unit;
  Machine machine(ring(), {unit.table()}, 0.0);
  const Table table = run_all(machine, grid(1.0, 0.1, 10), 4, 100);
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
    recorder.row(-1.0, cells.data());
    CHECK(recorder.full() && row[0].r == -1.0 && row.back().r == 0.0);
    for (std::int32_t i = 0; i < width; ++i) CHECK(row[static_cast<std::size_t>(i + 1)].r == i);
  }
}

TEST(a_failure_keeps_the_rows_so_far) {
  Echo unit;
  unit.fail_after = 3;
  Machine machine(ring(), {unit.table()}, 0.0);
  const Table table = run_all(machine, grid(1.0, 0.1, 10), 1, 100);
  CHECK(table.status == Status::Failed && table.rows == 4);
  CHECK(machine.error().call == Call::Advance && machine.error().time == 3 * 0.1);
}

TEST(a_limit_of_steps_pauses) {
  Echo unit;
  Machine machine(ring(), {unit.table()}, 0.0);
  FixedRun run = grid(1.0, 0.1, 10);
  Recorder recorder({2}, 1);
  std::vector<Cell> chunk(100);
  recorder.open(chunk.data(), 50);
  CHECK(run_fixed(machine, run, recorder, 10.0, 3) == Status::Paused);
  CHECK(run.done == 3 && recorder.rows() == 4);
}

TEST(a_step_that_does_not_move_on_is_an_error) {
  ProgramTables tables = program_of(0, {row(Op::Copy, {0, 1, 1})});  // next := now
  Machine machine(tables, {}, 0.0);
  FixedRun run = grid(1.0, 0.1, 10);
  Recorder recorder({}, 1);
  std::vector<Cell> chunk(100);
  recorder.open(chunk.data(), 100);
  CHECK(run_fixed(machine, run, recorder, 10.0, INT64_MAX) == Status::Failed);
  CHECK(machine.error().fault == Fault::NoProgress);
}

TEST(events_carry_the_time_at_the_end_of_their_step) {
  ProgramTables tables = program_of(0, {row(Op::Fire, {3}), row(Op::End), row(Op::Fire, {4})});
  tables.entries = {0, 2};
  Machine machine(tables, {}, 0.0);
  FixedRun run = grid(0.2, 0.1, 2);
  run.instant = 1;
  Recorder recorder({}, 1);
  std::vector<Cell> chunk(10);
  recorder.open(chunk.data(), 10);
  CHECK(run_fixed(machine, run, recorder, 10.0, INT64_MAX) == Status::Finished);
  const std::vector<Fired>& fired = machine.fired();
  CHECK(fired.size() == 4);
  CHECK(fired[0].event == 3 && fired[0].time == 0.1 && fired[0].index == 0);
  CHECK(fired[1].event == 4 && fired[1].time == 0.1 && fired[1].index == 1);
  CHECK(fired[3].time == 0.2 && fired[3].index == 1);
}

TEST(machines_share_nothing_that_changes) {
  // Units of one model share its kernels, also across threads.
  OdeTables model;
  model.inputs = {{1, Kind::Real}};
  model.outputs = {{1, Kind::Real}};
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
      table = run_all(machine, grid(1.0, 0.001, 1000), 1, 100);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Table& table : tables) {
    CHECK(table.status == Status::Finished && table.rows == 1001);
    for (std::size_t i = 0; i < table.cells.size(); ++i) CHECK(table.cells[i].i == tables[0].cells[i].i);
  }
}
