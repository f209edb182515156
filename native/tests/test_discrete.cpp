// Discrete-event units.
#include <cmath>
#include <limits>

#include "check.hpp"
#include "discrete.hpp"
#include "helpers.hpp"
#include "packing.hpp"

using namespace upbeat;

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

PieceTables code_of(std::vector<std::int32_t> from, std::vector<double> constants, std::vector<Operation> code,
                    std::vector<std::int32_t> results) {
  const auto inputs = static_cast<std::int32_t>(from.size());
  return {shared(kernel_of(inputs, std::move(constants), std::move(code), std::move(results))), std::move(from)};
}

// A lamp that is lit for `on` seconds when its button is pressed, says so, and can be dimmed by an ordinary
// input; pressing again goes on counting. Mode 0: dark, 1: lit. Due at once while dark if the input is negative.
DiscreteTables lamp() {
  DiscreteTables tables;
  tables.inputs = {{1, Kind::Real, 0}};
  tables.heard = {{1, Kind::Boolean, 1}, {2, Kind::Integer, 2}};
  tables.outputs = {{1, Kind::Real, 3}, {1, Kind::Boolean, 4}};
  tables.sent = {{2, Kind::Integer, 5}};
  tables.kinds = {Kind::Integer, Kind::Real, Kind::Integer};  // lit, until, how many times
  tables.start = {0.0, never, 0.0};
  tables.input_start = {1.0};
  tables.parameters = {2.5};
  tables.mode = 0;
  // arguments: 0 time, 1 lit, 2 until, 3 count, 4 u, 5 press, 6-7 pair, 8 press?, 9 pair?, 10 on
  const PieceTables nothing = code_of({}, {}, {}, {});
  ModeTables dark;
  dark.due = code_of({0, 4}, {0.0, never}, {{UPBEAT_LT, 4, 1, 2, 1}, {UPBEAT_WHERE, 5, 4, 0, 3}}, {5});
  dark.emissions = nothing;
  dark.internal = {code_of({}, {7.4}, {}, {0}), {2}};
  dark.external = {code_of({0, 3, 10}, {1.0}, {{UPBEAT_ADD, 4, 0, 2, 0}, {UPBEAT_ADD, 5, 1, 3, 1}}, {3, 4, 5}), {0, 1, 2}};
  ModeTables lit;
  lit.due = code_of({2}, {}, {}, {0});
  lit.emissions = code_of({3}, {1.0, 4.0}, {}, {1, 0, 2});
  lit.emitted = {0};
  lit.internal = {code_of({}, {0.0, never}, {}, {0, 1}), {0, 1}};
  lit.external = {code_of({3}, {1.0}, {{UPBEAT_ADD, 2, 0, 1, 0}}, {2}), {2}};
  tables.modes = {dark, lit};
  tables.compute = code_of({1, 4}, {}, {{UPBEAT_MUL, 2, 0, 1, 0}}, {2, 0});
  return tables;
}

struct Driven {
  explicit Driven(const DiscreteTables& tables, double start = 0.0) : unit(Discrete::make(tables, start)) {}
  Driven(const Driven&) = delete;
  Driven& operator=(const Driven&) = delete;
  ~Driven() { unit.destroy(unit.self); }

  double due() {
    double time = 0.0;
    CHECK(unit.due(unit.self, &time) == 0);
    return time;
  }
  bool jump() {
    int again = 0;
    CHECK(unit.jump(unit.self, &again) == 0);
    return again != 0;
  }
  void advance(double t, double to) {
    double reached = to;
    CHECK(unit.advance(unit.self, t, to, 0, &reached) == 0);
  }
  double light() {
    Cell cell;
    CHECK(unit.get(unit.self, 3, &cell) == 0);
    return cell.r;
  }
  void press() {
    const Cell yes = integer(1);
    CHECK(unit.set(unit.self, 1, &yes, 1) == 0);
  }
  std::vector<double> state() {
    std::vector<double> state;
    static_cast<Discrete*>(unit.self)->state(state);
    return state;
  }
  std::string message() { return unit.message(unit.self); }

  upbeat_unit unit;
};

}  // namespace

TEST(events_come_before_what_is_due_by_itself) {
  const DiscreteTables tables = lamp();
  CHECK(problem_in(tables).empty());
  Driven lamp(tables, 10.0);
  CHECK(lamp.due() == never && lamp.light() == 0.0);
  CHECK(!lamp.jump());
  lamp.press();
  CHECK(!lamp.jump());
  CHECK(lamp.due() == 12.5 && lamp.light() == 1.0);
  lamp.advance(10.0, 12.5);
  lamp.press();  // at the very instant: only counted
  CHECK(lamp.jump());
  CHECK(lamp.due() == 12.5);
  CHECK(!lamp.jump());
  CHECK(lamp.due() == never && lamp.light() == 0.0);
}

TEST(an_event_output_is_followed_by_whether_it_is_there) {
  Driven lamp(::lamp());
  Cell cells[3] = {integer(9), integer(9), integer(9)};
  lamp.press();
  lamp.jump();
  CHECK(lamp.unit.get(lamp.unit.self, 5, cells) == 0);
  CHECK(cells[0].i == 0 && cells[1].i == 0 && cells[2].i == 0);
  lamp.advance(0.0, 2.5);
  CHECK(lamp.unit.get(lamp.unit.self, 5, cells) == 0);
  CHECK(cells[0].i == 1 && cells[1].i == 4 && cells[2].i == 1);
}

TEST(conditions_on_ordinary_inputs_are_due_at_once) {
  Driven lamp(::lamp());
  const Cell falling[] = {real(1.0), real(-1.0)};
  CHECK(lamp.unit.set(lamp.unit.self, 0, falling, 2) == 0);
  lamp.advance(0.0, 1.0);
  CHECK(lamp.due() == never);
  lamp.advance(1.0, 1.5);
  CHECK(lamp.due() == 1.5);
  CHECK(lamp.jump());  // the condition still holds
  CHECK(lamp.state()[3] == 7.0);  // 7.4, as an integer
  const Cell held = real(0.5);
  CHECK(lamp.unit.set(lamp.unit.self, 0, &held, 1) == 0);
  CHECK(lamp.due() == never);
}

TEST(a_discrete_unit_is_set_back_with_its_events) {
  Driven lamp(::lamp());
  const Cell trajectory[] = {real(1.0), real(0.5)};
  lamp.unit.set(lamp.unit.self, 0, trajectory, 2);
  lamp.advance(0.0, 1.0);
  lamp.press();
  CHECK(lamp.unit.save(lamp.unit.self, 3) == 0);
  const std::vector<double> before = lamp.state();
  CHECK(before.size() == 1 + 3 + (2 + 6) + 3 + 2);
  lamp.jump();
  lamp.advance(1.0, 3.5);
  lamp.jump();
  CHECK(lamp.unit.restore(lamp.unit.self, 3) == 0);
  CHECK(lamp.state() == before);
  lamp.jump();
  CHECK(lamp.due() == 3.5 && lamp.light() == 1.5);
  CHECK(lamp.unit.restore(lamp.unit.self, 0) != 0);
}

TEST(a_discrete_unit_travels_as_bytes) {
  Driven lamp(::lamp());
  const Cell trajectory[] = {real(1.0), real(0.5)};
  lamp.unit.set(lamp.unit.self, 0, trajectory, 2);
  lamp.press();
  CHECK(lamp.unit.save(lamp.unit.self, 0) == 0);
  std::uint64_t size = 0;
  CHECK(lamp.unit.pack(lamp.unit.self, 0, nullptr, &size) == 0 && size == 8 * lamp.state().size());
  std::vector<unsigned char> bytes(size);
  CHECK(lamp.unit.pack(lamp.unit.self, 0, bytes.data(), &size) == 0);
  CHECK(lamp.unit.pack(lamp.unit.self, 9, bytes.data(), &size) != 0);

  Driven other(::lamp(), 7.0);
  CHECK(other.unit.unpack(other.unit.self, 2, bytes.data(), size) == 0);
  CHECK(other.unit.restore(other.unit.self, 2) == 0);
  CHECK(other.state() == lamp.state());
  CHECK(!other.jump() && other.due() == 2.5);

  const auto refused = [&](std::size_t word, double value, const std::string& why) {
    std::vector<unsigned char> wrong = bytes;
    write_word(wrong.data() + 8 * word, bits_of(value));
    return other.unit.unpack(other.unit.self, 0, wrong.data(), size) != 0 &&
           other.message() == "not a state of this unit: " + why;
  };
  CHECK(refused(1, 2.0, "there is no mode 2, only 0 to 1"));
  CHECK(refused(1, std::nan(""), "there is no mode nan, only 0 to 1"));
  CHECK(refused(5, 7.0, "an input with 7 coefficients"));
  CHECK(refused(5, 0.0, "an input with 0 coefficients"));
  CHECK(other.unit.unpack(other.unit.self, 0, bytes.data(), size - 8) != 0);
}

TEST(a_discrete_unit_says_what_is_wrong) {
  DiscreteTables tables = lamp();
  tables.modes[0].external = {code_of({}, {2.0}, {}, {0}), {0}};
  Driven lost(tables);
  lost.press();
  int again = 0;
  CHECK(lost.unit.jump(lost.unit.self, &again) != 0);
  CHECK(lost.message() == "DiscreteError: there is no mode 2, only 0 to 1");

  tables.modes[0].external = {code_of({}, {never}, {}, {0}), {2}};
  Driven large(tables);
  large.press();
  CHECK(large.unit.jump(large.unit.self, &again) != 0);
  CHECK(large.message() == "DiscreteError: inf is not an integer");

  tables.modes[0].due = code_of({}, {std::nan("")}, {}, {0});
  Driven blind(tables);
  double time = 0.0;
  CHECK(blind.unit.due(blind.unit.self, &time) != 0);
  CHECK(blind.message() == "DiscreteError: the time of the next event is nan");

  Driven lamp(::lamp());
  const Cell two[] = {integer(1), integer(1)};
  Cell cell;
  CHECK(lamp.unit.set(lamp.unit.self, 1, two, 2) != 0);
  CHECK(lamp.unit.set(lamp.unit.self, 3, two, 1) != 0);
  CHECK(lamp.unit.set(lamp.unit.self, 99, two, 1) != 0);
  CHECK(lamp.unit.get(lamp.unit.self, 0, &cell) != 0);
  CHECK(lamp.unit.advance(lamp.unit.self, 1.0, 0.0, 0, &time) != 0);
}

TEST(broken_tables_of_a_discrete_unit_are_refused) {
  const auto refused = [](void (*breaks)(DiscreteTables&)) {
    DiscreteTables tables = lamp();
    breaks(tables);
    return !problem_in(tables).empty();
  };
  CHECK(refused([](DiscreteTables& t) { t.modes.clear(); }));
  CHECK(refused([](DiscreteTables& t) { t.mode = 7; }));
  CHECK(refused([](DiscreteTables& t) { t.start[0] = 2.0; }));
  CHECK(refused([](DiscreteTables& t) { t.start.pop_back(); }));
  CHECK(refused([](DiscreteTables& t) { t.input_start.clear(); }));
  CHECK(refused([](DiscreteTables& t) { t.modes[1].due.from[0] = 11; }));
  CHECK(refused([](DiscreteTables& t) { t.modes[1].due.from.clear(); }));
  CHECK(refused([](DiscreteTables& t) { t.modes[1].emitted[0] = 1; }));
  CHECK(refused([](DiscreteTables& t) { t.modes[1].internal.to[0] = 3; }));
  CHECK(refused([](DiscreteTables& t) { t.modes[1].internal.to.pop_back(); }));
  CHECK(refused([](DiscreteTables& t) { t.compute.kernel = nullptr; }));
  CHECK(refused([](DiscreteTables& t) { t.sent[0].kind = Kind::String; }));
}
