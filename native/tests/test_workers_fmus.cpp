// FMUs on several threads: each is called by one of them, and all give what they give on one. For the thread sanitizer.
#include <memory>

#include "ball_fmu.hpp"
#include "check.hpp"
#include "fake_fmu.hpp"
#include "fmi/units.hpp"
#include "helpers.hpp"

using namespace upbeat;

namespace {

// Three FMUs, each of which is handed what the one before it shows: for co-simulation of FMI 2 and of FMI 3, and for
// model exchange. On three threads, or on the one that calls.
struct Three {
  static constexpr int ports[3][2] = {{0, 1}, {0, 1}, {0, 2}};  // of each one its input and its output
  fmi::FakeFmu first, second;
  ball::Ball third;
  std::unique_ptr<Machine> machine;

  explicit Three(bool shared) {
    first.x = 0.25;
    second.x = -0.5;
    machine = std::make_unique<Machine>(
        tables(shared),
        std::vector<upbeat_unit>{fmi::make_cosimulation(fake2(first)).table, fmi::make_cosimulation(fake3(second)).table,
                                 fmi::make_exchange(ball::tables_of(third, true)).table},
        0.0);
  }

  // Cells 2 to 4 have the outputs, 5 to 7 how far each one has come.
  static ProgramTables tables(bool shared) {
    const auto advance = [](int unit) { return row(Op::Advance, {unit, 0, 1, 5 + unit, 0}); };
    const auto get = [](int unit) { return row(Op::Get, {unit, ports[unit][1], 2 + unit, 1, 0}); };
    const auto set = [](int unit) { return row(Op::Set, {unit, ports[unit][0], 1, 1, 2 + (unit + 2) % 3, 0}); };
    std::vector<Row> code;
    for (const auto& each : {advance(0), advance(1), advance(2), get(0), get(1), get(2), set(0), set(1), set(2)}) {
      code.push_back(each);
    }
    Shares shares(3);
    for (int unit = 0; unit < 3; ++unit) {
      code.push_back(row(Op::End));
      shares[static_cast<std::size_t>(unit)].push_back({static_cast<std::int32_t>(code.size()), {}});
      code.push_back(advance(unit));
      code.push_back(get(unit));
      code.push_back(row(Op::End));
      shares[static_cast<std::size_t>(unit)].push_back({static_cast<std::int32_t>(code.size()), {{(unit + 2) % 3, 0}}});
      code.push_back(set(unit));
    }
    ProgramTables made = program_of(6, code);
    if (shared) made.shares = {shares};
    return made;
  }

  bool step(double until) {
    machine->cells()[1].r = until;
    const bool done = machine->execute(0);
    machine->cells()[0].r = until;
    return done;
  }
};

}  // namespace

TEST(fmus_on_three_threads_give_what_they_give_on_one) {
  Three one(false), three(true);
  CHECK(problem_in(Three::tables(true), 3).empty());
  for (int i = 1; i <= 400; ++i) {
    CHECK(one.step(0.005 * i) && three.step(0.005 * i));
    for (std::size_t cell = 0; cell < 8; ++cell) CHECK(one.machine->cells()[cell].i == three.machine->cells()[cell].i);
  }
  CHECK(one.third.bounces > 0 && one.third.bounces == three.third.bounces);
  CHECK(one.first.x == three.first.x && one.second.x == three.second.x);
  one.machine.reset();
  three.machine.reset();
  CHECK(one.first.calls == three.first.calls && one.second.calls == three.second.calls);
  CHECK(three.third.life == ball::Ball::Freed);
}

TEST(an_fmu_that_fails_on_another_thread_is_named) {
  Three three(true);
  CHECK(three.step(0.1));
  three.third.fails = true;
  CHECK(!three.step(0.2));
  const Error& error = three.machine->error();
  CHECK(error.fault == Fault::Refused && error.call == Call::Advance && error.unit == 2);
  CHECK(error.start == 0.1 && error.until == 0.2);
  CHECK(error.message.find("FmuError: fmi2") == 0);
  CHECK(three.first.t == 0.2);  // what needs nothing of it is done all the same
}
