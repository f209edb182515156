// Many runs on one machine: what they tell, that none knows of the one before, and that none allocates.
#include <cmath>
#include <limits>

#include "check.hpp"
#include "ensemble.hpp"
#include "heap.hpp"
#include "helpers.hpp"

using namespace upbeat;

namespace {

// x' = -p·x in steps of RK4, with the output x in cell 2.
OdeTables decay() {
  OdeTables tables;
  tables.outputs = {{1, Kind::Real, 0}};
  tables.states = {1.0};
  tables.parameters = {1.0};
  tables.derivatives = shared(kernel_of(3, {}, {{UPBEAT_MUL, 3, 2, 1, 0}, {UPBEAT_NEG, 4, 3, 0, 0}}, {4}));
  tables.compute = shared(kernel_of(3, {}, {}, {1}));
  tables.solver.steps = 4;
  tables.solver.c = {0.0, 0.5, 0.5, 1.0};
  tables.solver.a = {0, 0, 0, 0, 0.5, 0, 0, 0, 0, 0.5, 0, 0, 0, 0, 1, 0};
  tables.solver.b = {1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6};
  return tables;
}

ProgramTables stepping() {
  ProgramTables tables = program_of(1, {row(Op::Advance, {0, 0, 1, 1}), row(Op::Get, {0, 0, 2, 1, 0})});
  tables.entries.push_back(static_cast<std::int32_t>(tables.code.size()));
  tables.code.push_back(row(Op::Get, {0, 0, 2, 1, 0}));
  tables.code.push_back(row(Op::End));
  tables.start_block = 1;
  return on_grid(std::move(tables), 0.1);
}

// Signals: x and x > 0.5, which is held.
Asked asked() {
  Asked asked;
  asked.cells = {2};
  asked.kernel = shared(kernel_of(4, {0.5}, {{UPBEAT_GT, 5, 1, 4, 0}}, {1, 5}));  // time, x, two columns
  asked.held = {false, true};
  using What = Statistic::What;
  asked.statistics = {{What::Initial, 0}, {What::Final, 0}, {What::Minimum, 0},  {What::Maximum, 0},
                      {What::Integral, 0}, {What::Last, 1}, {What::Integral, 1}, {What::First, 1}};
  asked.sampled = {0, 1};
  asked.grid = {0.0, 0.05, 1.0, 3.0};
  asked.events = 2;
  return asked;
}

struct Room {
  double statistics[8], samples[8], times[2], totals[4];
  std::int32_t events[2];
  Told told() { return {statistics, samples, events, times, totals}; }
};

const std::vector<Varied> varied = {{0, 0, 0}, {1, 0, 1}};

}  // namespace

TEST(an_ensemble_tells_what_was_asked) {
  Machine machine(stepping(), {Ode::make(decay(), 0.0)}, 0.0);
  CHECK(problem_in(asked(), varied, 2, machine.tables(), {{1.0, 1.0}}).empty());
  Ensemble ensemble(machine, asked(), varied, 2, {{1.0, 1.0}}, {}, 0.0, 2.0);
  Room room;
  const double rows[][2] = {{1.0, 1.0}, {2.0, 0.5}, {1.0, 1.0}};
  double first = 0.0;
  for (int i = 0; i < 3; ++i) {
    CHECK(ensemble.run(rows[i], room.told()) == Status::Finished);
    const double x = rows[i][0], p = rows[i][1];
    CHECK(room.statistics[0] == x);
    CHECK(std::fabs(room.statistics[1] - x * std::exp(-2.0 * p)) < 1e-7);
    CHECK(room.statistics[2] == room.statistics[1] && room.statistics[3] == x);
    CHECK(std::fabs(room.statistics[4] - x / p * (1.0 - std::exp(-2.0 * p))) < 2e-3);
    CHECK(room.samples[0] == x && room.samples[6] != room.samples[6]);  // behind the end: not a number
    CHECK(room.totals[0] == 20.0 && room.totals[2] == 0.0 && room.totals[3] == 2.0);
    CHECK(room.events[0] == -1);
    if (i == 0) first = room.statistics[1];
    if (i == 2) CHECK(room.statistics[1] == first);  // whatever ran in between
  }
  CHECK(std::fabs(room.statistics[5] - 0.6) < 1e-12 && std::fabs(room.statistics[6] - 0.7) < 1e-12);
  CHECK(room.statistics[7] == 0.0);
}

TEST(an_ensemble_does_not_allocate) {
  Machine machine(stepping(), {Ode::make(decay(), 0.0)}, 0.0);
  Ensemble ensemble(machine, asked(), varied, 2, {{1.0, 1.0}}, {}, 0.0, 2.0);
  Room room;
  const double row[] = {1.0, 1.0};
  CHECK(ensemble.run(row, room.told()) == Status::Finished);
  const std::size_t before = heap_requests();
  for (int i = 0; i < 5; ++i) CHECK(ensemble.run(row, room.told()) == Status::Finished);
  CHECK(heap_requests() == before);
}

TEST(a_run_of_an_ensemble_that_fails_leaves_the_next_one_alone) {
  Machine machine(stepping(), {Ode::make(decay(), 0.0)}, 0.0);
  Ensemble ensemble(machine, asked(), varied, 2, {{1.0, 1.0}}, {}, 0.0, 2.0);
  Room room;
  const double wrong[] = {std::numeric_limits<double>::infinity(), 1.0}, right[] = {1.0, 1.0};
  CHECK(ensemble.run(wrong, room.told()) == Status::Failed);
  CHECK(machine.error().fault == Fault::NotFinite);
  CHECK(ensemble.run(right, room.told()) == Status::Finished);
  CHECK(std::fabs(room.statistics[1] - std::exp(-2.0)) < 1e-7);
}

TEST(what_cannot_be_asked_is_refused) {
  const ProgramTables tables = stepping();
  const std::vector<std::vector<double>> values = {{1.0, 1.0}};
  Asked wrong = asked();
  wrong.cells = {99};
  CHECK(!problem_in(wrong, varied, 2, tables, values).empty());
  wrong = asked();
  wrong.statistics.push_back({Statistic::What::Final, 7});
  CHECK(!problem_in(wrong, varied, 2, tables, values).empty());
  wrong = asked();
  wrong.grid = {1.0, 0.0};
  CHECK(!problem_in(wrong, varied, 2, tables, values).empty());
  CHECK(!problem_in(asked(), {{0, 0, 2}}, 2, tables, values).empty());
  CHECK(!problem_in(asked(), {{2, 0, 0}}, 2, tables, values).empty());
}

TEST(a_unit_that_cannot_begin_again_is_told) {
  Echo echo;
  Machine machine(stepping(), {echo.table()}, 0.0);
  CHECK(!machine.resets());
  CHECK(!machine.reset(0.0));
  CHECK(machine.error().fault == Fault::Unable);
}
