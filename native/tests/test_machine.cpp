// Programs: every instruction, failures, saving, and tables that cannot be trusted.
#include <cmath>
#include <cstddef>
#include <limits>

#include "check.hpp"
#include "helpers.hpp"
#include "table.hpp"

using namespace upbeat;

namespace {

// An expression over cells: cells[to] = cells[a] op cells[b].
void add_expression(ProgramTables& tables, std::int32_t op, std::int32_t a, std::int32_t b, std::vector<std::int32_t> to) {
  tables.kernels.push_back(kernel_of(2, {}, {{op, 2, 0, 1, 0}}, {2}));
  tables.expressions.push_back({static_cast<std::int32_t>(tables.kernels.size()) - 1, {a, b}, std::move(to)});
}

}  // namespace

TEST(values_travel_between_units) {
  Echo left, right;
  left.u = 3.0;
  // advance both, get left.y into cell 2, set right.u by it
  ProgramTables tables = program_of(3, {row(Op::Advance, {0, 0, 1, 3}), row(Op::Advance, {1, 0, 1, 4}),
                                        row(Op::Get, {0, 0, 2, 1, 0}), row(Op::Set, {1, 0, 1, 1, 2})});
  CHECK(problem_in(tables, 2).empty());
  Machine machine(tables, {left.table(), right.table()}, 0.0);
  machine.cells()[1].r = 0.5;
  CHECK(machine.execute(0));
  CHECK(machine.cells()[2].r == 3.0 && right.u == 3.0);
  CHECK(machine.cells()[3].r == 0.5 && left.time == 0.5);
}

TEST(coefficients_are_gathered) {
  Echo unit;
  ProgramTables tables = program_of(3, {row(Op::Gather, {0, 0, 2, 1, 0}), row(Op::Set, {0, 0, 3, 1, 2})});
  tables.operands = {4, 2};
  CHECK(problem_in(tables, 1).empty());
  Machine machine(tables, {unit.table()}, 0.0);
  machine.cells()[2].r = 1.0;
  machine.cells()[3].r = 2.0;
  machine.cells()[4].r = 3.0;
  CHECK(machine.execute(0));
  CHECK(unit.u == 1.0 + 1000.0 * 2.0 + 2000.0 * 3.0);  // the Set is last
}

TEST(a_value_that_is_not_finite_ends_the_run) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    Echo unit;
    unit.y = bad;
    Machine machine(program_of(1, {row(Op::Get, {0, 0, 2, 1, 0})}), {unit.table()}, 4.0);
    CHECK(!machine.execute(0));
    CHECK(machine.error().fault == Fault::NotFinite && machine.error().call == Call::Get);
    CHECK(machine.error().unit == 0 && machine.error().row == 0 && machine.error().time == 4.0);
  }
  Echo fine;
  fine.y = -std::numeric_limits<double>::max();
  Machine machine(program_of(1, {row(Op::Get, {0, 0, 2, 1, 0})}), {fine.table()}, 4.0);
  CHECK(machine.execute(0));
}

TEST(failures_name_unit_call_and_time) {
  Echo unit;
  unit.fail_after = 1;
  Machine machine(program_of(1, {row(Op::Advance, {0, 0, 1, 2})}), {unit.table()}, 0.0);
  machine.cells()[1].r = 0.25;
  CHECK(machine.execute(0));
  machine.cells()[0].r = 0.25;
  machine.cells()[1].r = 0.5;
  CHECK(!machine.execute(0));
  const Error& error = machine.error();
  CHECK(error.fault == Fault::Refused && error.call == Call::Advance && error.status == 7);
  CHECK(error.time == 0.25 && error.start == 0.25 && error.until == 0.5);
  CHECK(error.message == "it broke");
}

TEST(stopping_early_needs_permission) {
  for (const std::int32_t early : {0, 1}) {
    Echo unit;
    unit.early_at = 0.125;
    upbeat_unit table = unit.table();
    if (!early) {
      table.advance = [](void*, double, double, int, double* reached) {
        *reached = 0.125;
        return 0;
      };
    }
    Machine machine(program_of(1, {row(Op::Advance, {0, 0, 1, 2, early})}), {table}, 0.0);
    machine.cells()[1].r = 1.0;
    CHECK(machine.execute(0) == (early == 1));
    CHECK(early ? machine.cells()[2].r == 0.125 : machine.error().value == 0.125);
  }
}

TEST(repeat_counts_and_ends) {
  // cell 2 counts up by cell 3 until it reaches cell 4
  for (const std::int32_t fail : {0, 1}) {
    ProgramTables tables = program_of(
        3, {row(Op::Begin, {0}), row(Op::Compute, {0}), row(Op::Until, {0, 1, 10, 1, fail}), row(Op::Copy, {2, 1, 1})});
    tables.loops = 1;
    add_expression(tables, UPBEAT_ADD, 2, 3, {2});
    add_expression(tables, UPBEAT_GE, 2, 4, {});
    CHECK(problem_in(tables, 0).empty());
    Machine machine(tables, {}, 0.0);
    machine.cells()[3].r = 1.0;
    machine.cells()[4].r = 4.0;
    CHECK(machine.execute(0));
    CHECK(machine.cells()[2].r == 4.0 && machine.cells()[1].r == 4.0);
    machine.cells()[4].r = 1000.0;
    CHECK(machine.execute(0) == (fail == 0));
    CHECK(machine.cells()[2].r == 14.0);
    CHECK(fail == 0 || machine.error().fault == Fault::Exhausted);
  }
}

TEST(if_takes_one_branch_and_events_are_kept) {
  ProgramTables tables = program_of(3, {row(Op::Unless, {0, 3}), row(Op::Fire, {5}), row(Op::Goto, {4}), row(Op::Fire, {6})});
  add_expression(tables, UPBEAT_GT, 2, 3, {});
  CHECK(problem_in(tables, 0).empty());
  Machine machine(tables, {}, 0.0);
  CHECK(machine.execute(0));
  machine.cells()[2].r = 1.0;
  CHECK(machine.execute(0));
  CHECK(machine.fired().size() == 2 && machine.fired().data()[0].event == 6 && machine.fired().data()[1].event == 5);
}

TEST(mixed_kinds_are_converted) {
  ProgramTables tables = program_of(3, {row(Op::Compute, {0})});
  tables.kinds[3] = Kind::Integer;
  tables.kinds[4] = Kind::Boolean;
  tables.start[3] = integer(5);
  tables.kernels.push_back(kernel_of(2, {0.5}, {{UPBEAT_MUL, 3, 1, 2, 0}, {UPBEAT_ADD, 4, 0, 1, 0}}, {3, 4, 3}));
  tables.expressions.push_back({0, {2, 3}, {3, 2, 4}});
  CHECK(problem_in(tables, 0).empty());
  Machine machine(tables, {}, 0.0);
  machine.cells()[2].r = 0.25;
  CHECK(machine.execute(0));
  CHECK(machine.cells()[3].i == 2);  // 2.5, halves to even
  CHECK(machine.cells()[2].r == 5.25 && machine.cells()[4].i == 1);
}

TEST(slots_bring_back_units_and_registers) {
  Echo unit;
  unit.u = 1.0;
  ProgramTables tables = program_of(2, {row(Op::Save, {0, 0, 1, 1}), row(Op::End), row(Op::Advance, {0, 0, 1, 3}),
                                        row(Op::Get, {0, 0, 2, 1, 0}), row(Op::End), row(Op::Restore, {0})});
  tables.operands = {0, 2};
  tables.entries = {0, 2, 5};
  tables.slots = 1;
  CHECK(problem_in(tables, 1).empty());
  Machine machine(tables, {unit.table()}, 0.0);
  CHECK(!machine.execute(2));
  CHECK(machine.error().fault == Fault::EmptySlot);
  machine.cells()[2].r = 42.0;
  CHECK(machine.execute(0));
  CHECK(machine.execute(1));
  CHECK(machine.cells()[2].r == 1.0 && unit.y == 1.0);
  CHECK(machine.execute(2));
  CHECK(machine.cells()[2].r == 42.0 && unit.y == 0.0);
}

TEST(the_whole_machine_can_step_back) {
  Echo unit;
  Machine machine(program_of(2, {row(Op::Advance, {0, 0, 1, 3}), row(Op::Get, {0, 0, 2, 1, 0})}), {unit.table()}, 0.0);
  CHECK(!machine.restore(0));
  CHECK(machine.error().fault == Fault::EmptySlot);
  CHECK(machine.save(0));
  CHECK(machine.execute(0));
  CHECK(machine.save(2));  // places may be left out
  CHECK(!machine.restore(1));
  CHECK(machine.cells()[2].r == 1.0);
  for (int round = 0; round < 2; ++round) {
    CHECK(machine.restore(0));
    CHECK(machine.cells()[2].r == 0.0 && unit.y == 0.0);
    CHECK(machine.restore(2));
    CHECK(machine.cells()[2].r == 1.0 && unit.y == 1.0);
  }
  upbeat_unit stubborn = unit.table();
  stubborn.save = nullptr;
  Machine other(program_of(0, {}), {stubborn}, 0.0);
  CHECK(!other.save(0));
  CHECK(other.error().fault == Fault::Unable && other.error().call == Call::Save);
}

TEST(jumps_ask_for_more) {
  Echo unit;
  unit.jumps = 2;
  upbeat_unit without = unit.table();
  without.jump = nullptr;
  ProgramTables tables = program_of(2, {row(Op::Jump, {0, 2, 2}), row(Op::Jump, {1, 3, 0})});
  tables.kinds[2] = Kind::Boolean;
  Machine machine(tables, {unit.table(), without}, 0.0);
  CHECK(machine.execute(0));
  CHECK(machine.cells()[2].i == 1 && machine.cells()[3].r == 0.0);
  CHECK(machine.execute(0));
  CHECK(machine.cells()[2].i == 0);
}

TEST(units_are_destroyed_with_the_machine) {
  Echo unit;
  { Machine machine(program_of(0, {}), {unit.table()}, 0.0); }
  CHECK(unit.destroyed == 1);
}

TEST(a_machine_runs_inside_a_unit_of_another) {
  // The outer unit's advance executes a block of the inner machine.
  Echo echo;
  echo.u = 7.0;
  Machine inner(program_of(2, {row(Op::Advance, {0, 0, 1, 3}), row(Op::Get, {0, 0, 2, 1, 0})}), {echo.table()}, 0.0);
  upbeat_unit wrapped{};
  wrapped.size = sizeof wrapped;
  wrapped.self = &inner;
  wrapped.get = [](void* self, int, Cell* to) {
    *to = static_cast<Machine*>(self)->cells()[2];
    return 0;
  };
  wrapped.set = [](void*, int, const Cell*, int) { return 0; };
  wrapped.advance = [](void* self, double t, double to, int, double*) {
    auto& machine = *static_cast<Machine*>(self);
    machine.cells()[0].r = t;
    machine.cells()[1].r = to;
    return machine.execute(0) ? 0 : 1;
  };
  Machine outer(program_of(2, {row(Op::Advance, {0, 0, 1, 3}), row(Op::Get, {0, 0, 2, 1, 0})}), {wrapped}, 0.0);
  outer.cells()[1].r = 1.0;
  CHECK(outer.execute(0));
  CHECK(outer.cells()[2].r == 7.0);
}

TEST(slopes_are_asked_for_or_missed) {
  Echo echo;
  const ProgramTables tables = program_of(2, {row(Op::Slope, {0, 1, 0, 2, 2})});
  CHECK(problem_in(tables, 1).empty());
  upbeat_unit able = echo.table();
  able.slope = [](void*, int output, int input, Cell* to) {
    to[0].r = output;
    to[1].r = std::numeric_limits<double>::infinity();
    return input == 0 ? 0 : 3;
  };
  Machine machine(tables, {able}, 0.0);
  CHECK(machine.execute(0));
  CHECK(machine.cells()[2].r == 1.0 && std::isinf(machine.cells()[3].r));
  Machine refusing(program_of(2, {row(Op::Slope, {0, 1, 7, 2, 2})}), {able}, 0.0);
  CHECK(!refusing.execute(0));
  CHECK(refusing.error().fault == Fault::Refused && refusing.error().call == Call::Slope && refusing.error().status == 3);
  Machine unable(tables, {echo.table()}, 0.0);
  CHECK(!unable.execute(0));
  CHECK(unable.error().fault == Fault::Unable && unable.error().call == Call::Slope);
  CHECK(!problem_in(program_of(2, {row(Op::Slope, {0, 1, 0, 2, 3})}), 1).empty());  // too many cells
}

TEST(unsound_tables_are_refused) {
  CHECK(!problem_in(program_of(1, {row(Op::Get, {0, 0, 2, 1, 0})}), 0).empty());      // no such unit
  CHECK(!problem_in(program_of(1, {row(Op::Get, {0, 0, 2, 2, 0})}), 1).empty());      // too many cells
  CHECK(!problem_in(program_of(1, {row(Op::Get, {0, 0, -1, 1, 0})}), 1).empty());     // a cell before the first
  CHECK(!problem_in(program_of(1, {row(Op::Compute, {0})}), 0).empty());              // no such expression
  CHECK(!problem_in(program_of(1, {row(Op::Goto, {99})}), 0).empty());                // nowhere
  CHECK(!problem_in(program_of(1, {row(Op::Save, {0, 0, 0, 0})}), 0).empty());        // no such slot
  CHECK(!problem_in(program_of(1, {row(Op::Gather, {0, 0, 2, 1, 0})}), 1).empty());   // no operands
  CHECK(!problem_in(program_of(1, {row(static_cast<Op>(77))}), 0).empty());
  ProgramTables open = program_of(1, {row(Op::Fire, {0})});
  open.code.pop_back();
  CHECK(!problem_in(open, 0).empty());
}

TEST(tables_of_other_versions_fit) {
  Echo unit;
  upbeat_unit table = unit.table();
  table.size = offsetof(upbeat_unit, jump);  // compiled when there was nothing after `advance`
  upbeat_unit old = adopted(&table);
  CHECK(old.advance == table.advance && old.self == &unit && !old.jump && !old.save && !old.destroy);
  CHECK(old.size == sizeof old && problem_in(old).empty());
  struct {
    upbeat_unit known;
    void* later;
  } grown = {unit.table(), &unit};
  grown.known.size = sizeof grown;
  CHECK(adopted(&grown.known).destroy == grown.known.destroy);
  table.size = 0;  // nobody filled it in
  CHECK(!problem_in(adopted(&table)).empty());
}
