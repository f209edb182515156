// Scenarios inside scenarios: their own steps, setting back, failures with the whole way, stopping from outside.
#include <atomic>
#include <thread>

#include "check.hpp"
#include "helpers.hpp"
#include "loop.hpp"
#include "nested.hpp"

using namespace upbeat;

namespace {

// One unit inside: advance, then get its output into cell 2. Block 0 is the step, block 1 the exchange, which
// only gets.
ProgramTables one_unit(bool early = false) {
  ProgramTables tables = program_of(2, {row(Op::Advance, {0, 0, 1, early ? 1 : 3, early ? 1 : 0}), row(Op::Get, {0, 0, 2, 1, 0})});
  tables.entries.push_back(static_cast<std::int32_t>(tables.code.size()));
  tables.code.push_back(row(Op::Get, {0, 0, 2, 1, 0}));
  tables.code.push_back(row(Op::End));
  return tables;
}

NestedTables ports_of_one(const std::string& name) { return {{{0, 0, 1}, {-1, 2, 1}}, {name}, 1}; }

upbeat_unit nest(upbeat_unit unit, const std::string& name, double step, bool early = false) {
  ProgramTables tables = on_grid(one_unit(early), step);
  CHECK(problem_in(tables, 1).empty());
  CHECK(problem_in(ports_of_one(name), tables, 1).empty());
  auto machine = std::make_unique<Machine>(tables, std::vector<upbeat_unit>{unit}, 0.0);
  return Nested::make(std::move(machine), ports_of_one(name), 0.0);
}

double output(const upbeat_unit& unit) {
  Cell cell = real(-1.0);
  CHECK(unit.get(unit.self, 1, &cell) == 0);
  return cell.r;
}

int advance(const upbeat_unit& unit, double from, double to, bool early, double& reached) {
  reached = to;
  return unit.advance(unit.self, from, to, early ? 1 : 0, &reached);
}

}  // namespace

TEST(a_nest_makes_steps_of_its_own) {
  Echo inside;
  inside.fail_after = 4;  // four steps of 0.25 and no more
  const upbeat_unit unit = nest(inside.table(), "echo", 0.25);
  CHECK(Nested::behind(unit)->begin());
  const Cell trajectory[] = {real(3.0), real(1.0)};
  CHECK(unit.set(unit.self, 0, trajectory, 2) == 0);
  double reached = 0.0;
  CHECK(advance(unit, 0.0, 1.0, false, reached) == 0 && reached == 1.0 && inside.time == 1.0);
  CHECK(output(unit) == 3.0 + 1000.0);  // the course arrives as it is
  CHECK(advance(unit, 1.0, 2.0, false, reached) != 0);
  unit.destroy(unit.self);
  CHECK(inside.destroyed == 1);
}

TEST(a_new_input_is_seen_inside_before_an_output_is_read) {
  Echo inside;
  const upbeat_unit unit = nest(inside.table(), "echo", 0.5);
  CHECK(Nested::behind(unit)->begin());
  inside.y = 5.0;
  CHECK(output(unit) == 0.0);  // nothing was set: what the last exchange has left
  const Cell value = real(1.0);
  CHECK(unit.set(unit.self, 0, &value, 1) == 0);
  CHECK(output(unit) == 5.0);
  unit.destroy(unit.self);
}

TEST(a_nest_can_be_set_back) {
  Echo inside;
  const upbeat_unit unit = nest(inside.table(), "echo", 0.25);
  CHECK(Nested::behind(unit)->begin());
  double reached = 0.0;
  CHECK(advance(unit, 0.0, 0.6, false, reached) == 0);
  CHECK(unit.save(unit.self, 1) == 0);
  const Cell value = real(8.0);
  for (int again = 0; again < 2; ++again) {
    CHECK(unit.set(unit.self, 0, &value, 1) == 0);
    CHECK(advance(unit, 0.6, 1.0, false, reached) == 0 && inside.time == 1.0 && output(unit) == 8.0);
    CHECK(unit.restore(unit.self, 1) == 0);
    CHECK(inside.time == 0.6 && output(unit) == 1.0);
  }
  CHECK(unit.restore(unit.self, 2) != 0);
  unit.destroy(unit.self);

  Echo forward;
  upbeat_unit table = forward.table();
  table.save = nullptr;
  table.restore = nullptr;
  const upbeat_unit only_forward = nest(table, "echo", 0.25);
  CHECK(!only_forward.save && !only_forward.restore);
  only_forward.destroy(only_forward.self);
}

TEST(a_nest_stops_early_where_the_inside_does) {
  Echo inside;
  inside.early_at = 0.6;
  const upbeat_unit unit = nest(inside.table(), "echo", 0.25, true);
  CHECK(Nested::behind(unit)->begin());
  double reached = 0.0;
  CHECK(advance(unit, 0.0, 1.0, true, reached) == 0 && reached == 0.6);
  inside.early_at = 1e300;
  CHECK(advance(unit, 0.6, 1.0, true, reached) == 0 && reached == 1.0);
  unit.destroy(unit.self);
}

TEST(a_failure_names_the_whole_way) {
  Echo inside;
  inside.fail_after = 2;
  Machine outer(one_unit(), {nest(nest(inside.table(), "wheel", 0.25), "axle", 0.5)}, 0.0);
  CHECK(outer.begin_units());
  outer.cells()[1].r = 2.0;
  CHECK(!outer.execute(0));
  const Error& error = outer.error();
  CHECK(error.fault == Fault::Refused && error.unit == 0 && error.inside);
  CHECK(error.inside->way == "axle.wheel");
  CHECK(error.message == "'axle.wheel' failed at t = 0.5: it broke");
  const Error& innermost = error.inside->error.inside->error;
  CHECK(innermost.fault == Fault::Refused && innermost.status == 7 && innermost.time == 0.5);
  CHECK(error.inside->error.inside->cells.size() == one_unit().start.size() + 14);
}

TEST(a_nest_that_cannot_begin_says_so) {
  Echo inside;
  ProgramTables tables = on_grid(one_unit(), 0.5);
  tables.start_block = 0;
  inside.fail_after = 0;
  auto machine = std::make_unique<Machine>(tables, std::vector<upbeat_unit>{inside.table()}, 0.0);
  const upbeat_unit unit = Nested::make(std::move(machine), ports_of_one("echo"), 0.0);
  Machine outer(one_unit(), {unit}, 0.0);
  CHECK(!outer.begin_units());
  CHECK(outer.error().call == Call::Begin && outer.error().inside->way == "echo");
}

TEST(asking_a_machine_to_stop_stops_those_inside) {
  Echo inside;
  Machine outer(on_grid(one_unit(), 1e6), {nest(nest(inside.table(), "wheel", 1e-9), "axle", 1e6)}, 0.0);
  CHECK(outer.begin_units());
  Memory memory;
  StepLog log;
  std::atomic<bool> going{false};
  std::thread other([&] {
    while (!going) std::this_thread::yield();
    outer.ask_to_stop();
  });
  CHECK(begin(outer, memory, nullptr));
  going = true;
  const Status status = run(outer, memory, nullptr, &log, 1e6, 1e9, INT64_MAX);
  CHECK(status == Status::Stopped || status == Status::Abandoned);  // between two steps, or within one
  other.join();
}

TEST(tables_of_a_nest_are_checked) {
  const ProgramTables program = one_unit();
  const auto sound = [&](NestedTables tables) { return problem_in(tables, program, 1).empty(); };
  CHECK(sound(ports_of_one("a")));
  CHECK(!sound({{{1, 0, 1}}, {"a"}, 1}));
  CHECK(!sound({{{0, -1, 1}}, {"a"}, 1}));
  CHECK(!sound({{{-1, 3, 2}}, {"a"}, 1}));
  CHECK(!sound({{{-1, 2, 1}}, {}, 1}));
  CHECK(!sound({{{-1, 2, 1}}, {"a"}, 2}));
  CHECK(!sound({{{-1, 2, 1}}, {"a"}, -1}));
}
