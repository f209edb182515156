// FMUs for model exchange, on functions of FMI 2 that are written here.
#include <cmath>
#include <cstring>
#include <string>

#include "ball_fmu.hpp"
#include "check.hpp"

using namespace upbeat;
using namespace upbeat::ball;

namespace {

struct Running {
  explicit Running(bool adaptive = false, double grid = 0.0) : unit(make(adaptive, grid)) {}
  ~Running() {
    if (unit.destroy) end();
  }
  upbeat_unit make(bool adaptive, double grid) {
    fmi::ExchangeTables tables = tables_of(ball, adaptive);
    tables.grid = grid;
    CHECK(fmi::problem_in(tables).empty());
    return fmi::make_exchange(tables).table;
  }
  void end() {
    unit.destroy(unit.self);
    unit.destroy = nullptr;
    CHECK(ball.life == Ball::Freed);
  }
  double height() {
    Cell cell;
    CHECK(unit.get(unit.self, 2, &cell) == 0);
    return cell.r;
  }
  double due() {
    double time = -1.0;
    CHECK(unit.due(unit.self, &time) == 0);
    return time;
  }
  bool jump() {
    int again = 0;
    CHECK(unit.jump(unit.self, &again) == 0);
    return again != 0;
  }
  double advance(double t, double to, bool early = false) {
    double reached = to;
    CHECK(unit.advance(unit.self, t, to, early ? 1 : 0, &reached) == 0);
    return reached;
  }
  int set(int port, std::initializer_list<double> coefficients) {
    std::vector<Cell> cells;
    for (const double value : coefficients) cells.push_back(port == 0 ? real(value) : integer(static_cast<std::int64_t>(value)));
    return unit.set(unit.self, port, cells.data(), static_cast<int>(cells.size()));
  }

  Ball ball;
  upbeat_unit unit;
};

}  // namespace

TEST(a_ball_in_model_exchange_bounces_when_it_should) {
  const double fall = std::sqrt(2.0 / g);
  for (const bool adaptive : {false, true}) {
    Running run(adaptive);
    CHECK(run.due() == 0.0);
    CHECK(!run.jump());
    CHECK(std::isinf(run.due()));
    const double first = run.advance(0.0, 2.0, true);
    CHECK(std::fabs(first - fall) < 1e-6);
    CHECK(run.due() == first && run.height() <= 0.0);
    CHECK(!run.jump());
    const double second = run.advance(first, 2.0, true);
    CHECK(std::fabs(second - (fall + 2 * e * fall)) < 1e-5);
    CHECK(run.advance(second, 1.5) == 1.5);  // it goes through the bounce by itself
    CHECK(run.ball.bounces == 2);
    run.end();
  }
}

TEST(an_fmu_is_asked_once_for_all_indicators) {
  Running run;
  const auto shown = [&](int port) {
    Cell cell;
    CHECK(run.unit.get(run.unit.self, port, &cell) == 0);
    return cell.r;
  };
  const auto look = [&] {  // how often the FMU was asked
    const int before = run.ball.looks;
    CHECK(shown(4) == run.ball.x[0] && shown(5) == -run.ball.x[0] && shown(4) == run.ball.x[0]);
    return run.ball.looks - before;
  };
  CHECK(!run.jump());
  CHECK(look() == 1 && look() == 0);
  run.advance(0.0, 0.1);
  CHECK(look() == 1 && look() == 0);
  CHECK(run.unit.save(run.unit.self, 0) == 0);
  run.advance(0.1, 0.2);
  CHECK(look() == 1);
  CHECK(run.unit.restore(run.unit.self, 0) == 0);
  CHECK(look() == 1 && run.set(0, {g}) == 0 && look() == 1);
  run.end();
}

TEST(derivatives_of_indicators_are_those_of_the_motion) {
  Running run(false, 0.1);
  const auto shown = [&](int port) {
    Cell cell;
    CHECK(run.unit.get(run.unit.self, port, &cell) == 0);
    return cell.r;
  };
  CHECK(shown(6) == 0.0);  // not before the event at the start is over
  CHECK(!run.jump());
  CHECK(run.set(0, {g, 1.0}) == 0);  // h'' = τ from rest
  CHECK(std::fabs(shown(6)) < 1e-7 && std::fabs(shown(8)) < 1e-3);
  run.advance(0.0, 0.5);
  const double h = shown(4);
  CHECK(std::fabs(shown(6) - 0.125) < 1e-5 && shown(7) == -shown(6));
  CHECK(std::fabs(shown(8) - 0.5) < 1e-3 && shown(9) == -shown(8));
  CHECK(shown(4) == h && run.ball.x[0] == h && run.ball.t == 0.5);  // it is where it was
  run.end();
}

TEST(inputs_of_model_exchange_are_polynomials_or_events) {
  Running run;
  CHECK(run.set(0, {g, 1.0}) == 0);  // h'' = τ from rest: h = 1 + τ³/6
  CHECK(run.set(1, {0.0}) == 0);
  run.advance(0.0, 1.0);
  CHECK(std::fabs(run.height() - (1.0 + 1.0 / 6.0)) < 1e-4);
  CHECK(run.ball.push == g + 1.0);
  CHECK(run.set(1, {0.0}) == 0);
  CHECK(run.ball.life == Ball::Continuous);  // the same again is no event
  CHECK(run.set(1, {7.0}) == 0);
  CHECK(run.ball.life == Ball::Event && run.ball.on == 7 && run.due() == 1.0);
  run.advance(1.0, 1.1);
}

TEST(states_of_model_exchange_come_back_and_travel) {
  Running run(true);
  CHECK(run.set(0, {1.0, 0.5}) == 0);
  run.advance(0.0, 0.4);
  CHECK(run.unit.save(run.unit.self, 1) == 0);
  run.advance(0.4, 1.0);
  const double later = run.height();
  CHECK(run.unit.restore(run.unit.self, 1) == 0);
  run.advance(0.4, 1.0);
  CHECK(run.height() == later);
  CHECK(run.unit.restore(run.unit.self, 0) != 0);

  std::uint64_t size = 0;
  CHECK(run.unit.pack(run.unit.self, 1, nullptr, &size) == 0);
  std::vector<unsigned char> bytes(size);
  CHECK(run.unit.pack(run.unit.self, 1, bytes.data(), &size) == 0);
  Running other(true);
  CHECK(other.unit.unpack(other.unit.self, 0, bytes.data(), size) == 0);
  CHECK(other.unit.restore(other.unit.self, 0) == 0);
  other.ball.states_kept = 1;
  other.advance(0.4, 1.0);
  CHECK(other.height() == later);
  CHECK(other.unit.unpack(other.unit.self, 1, bytes.data(), 30) != 0);
  CHECK(std::string(other.unit.message(other.unit.self)).find("not a state of this unit") == 0);
  bytes[8] = 9;  // the mode
  CHECK(other.unit.unpack(other.unit.self, 1, bytes.data(), size) != 0);
}

TEST(what_an_fmu_discards_is_too_far_for_solvers_that_choose_their_steps) {
  Running run(true);
  run.ball.push = g;
  CHECK(run.set(0, {g}) == 0);
  run.ball.discard_above = 0.5;
  double reached = 1.0;
  CHECK(run.unit.advance(run.unit.self, 0.0, 1.0, 0, &reached) != 0);  // it never gets there
  CHECK(std::string(run.unit.message(run.unit.self)).find("SolverError: the step size fell") == 0);
  Running blunt(false);
  blunt.ball.discard_above = 0.5;
  CHECK(blunt.unit.advance(blunt.unit.self, 0.0, 1.0, 0, &reached) != 0);
  CHECK(std::string(blunt.unit.message(blunt.unit.self)) == "FmuError: fmi2GetDerivatives was discarded");
}

TEST(an_fmu_that_failed_is_freed_and_not_terminated) {
  Running run(false);
  run.advance(0.0, 0.1);
  run.ball.fails = true;
  double reached = 1.0;
  CHECK(run.unit.advance(run.unit.self, 0.1, 1.0, 0, &reached) != 0);
  run.ball.fails = false;
  run.end();
}
