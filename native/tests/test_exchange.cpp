// FMUs for model exchange, on functions of FMI 2 that are written here.
#include <cmath>
#include <cstring>
#include <string>

#include "check.hpp"
#include "fmi/exchange.hpp"

using namespace upbeat;

namespace {

constexpr double g = 9.81;
constexpr double e = 0.7;
enum Reference : std::uint32_t { H, V, Push, Switch, Bounces };

// A ball that bounces, pushed by an input; a discrete input counts how often it has changed.
struct Ball {
  double t = 0.0;
  double x[2] = {1.0, 0.0};
  double push = 0.0;
  int on = 0;
  int bounces = 0;
  int looks = 0;  // at the indicators
  enum { Initial, Event, Continuous, Terminated, Freed } life = Initial;
  int states_kept = 0;
  double discard_above = 1e9;  // of the height
  bool fails = false;

  bool wrong(bool allowed) {
    if (!allowed) std::printf("a call in the wrong mode\n");
    CHECK(allowed);
    return fails;
  }
};

using References = const std::uint32_t*;
Ball& of(void* self) { return *static_cast<Ball*>(self); }
int status(bool bad) { return bad ? 3 : 0; }

int get_real(void* self, References which, std::size_t, double* to) {
  Ball& ball = of(self);
  *to = *which == Push ? ball.push : ball.x[*which];
  return status(ball.wrong(ball.life < Ball::Terminated));
}
int set_real(void* self, References which, std::size_t, const double* from) {
  CHECK(*which == Push);
  of(self).push = *from;
  return status(of(self).wrong(of(self).life < Ball::Terminated));
}
int get_integer(void* self, References, std::size_t, int* to) {
  *to = of(self).bounces;
  return 0;
}
int set_integer(void* self, References, std::size_t, const int* from) {
  of(self).on = *from;
  return status(of(self).wrong(of(self).life < Ball::Continuous));
}
int exit_initialization(void* self) {
  const bool bad = of(self).wrong(of(self).life == Ball::Initial);
  of(self).life = Ball::Event;
  return status(bad);
}
int enter_event_mode(void* self) {
  const bool bad = of(self).wrong(of(self).life == Ball::Continuous);
  of(self).life = Ball::Event;
  return status(bad);
}
int enter_continuous(void* self) {
  const bool bad = of(self).wrong(of(self).life == Ball::Event);
  of(self).life = Ball::Continuous;
  return status(bad);
}
struct EventInfo {
  int again, terminate, nominals_changed, states_changed, has_next;
  double next;
};
int new_discrete_states(void* self, EventInfo* info) {
  Ball& ball = of(self);
  *info = {};
  if (ball.x[0] <= 0.0 && ball.x[1] < 0.0) {
    ++ball.bounces;
    ball.x[0] = 1e-300;
    ball.x[1] = -e * ball.x[1];
    info->states_changed = 1;
  }
  return status(ball.wrong(ball.life == Ball::Event));
}
int set_time(void* self, double t) {
  of(self).t = t;
  return status(of(self).wrong(of(self).life == Ball::Continuous));
}
int set_states(void* self, const double* x, std::size_t) {
  std::copy_n(x, 2, of(self).x);
  return status(of(self).wrong(of(self).life == Ball::Continuous));
}
int get_states(void* self, double* x, std::size_t) {
  std::copy_n(of(self).x, 2, x);
  return 0;
}
int get_derivatives(void* self, double* dx, std::size_t) {
  dx[0] = of(self).x[1];
  dx[1] = -g + of(self).push;
  if (of(self).x[0] > of(self).discard_above) return 2;
  return status(of(self).fails);
}
int get_indicators(void* self, double* z, std::size_t) {
  ++of(self).looks;
  z[0] = of(self).x[0];
  return 0;
}
int get_nominals(void*, double* to, std::size_t) {
  to[0] = 1.0;
  to[1] = -1.0;
  return 0;
}
int completed(void* self, int, int* event, int* end) {
  *event = *end = 0;
  return status(of(self).wrong(of(self).life == Ball::Continuous));
}
int get_state(void* self, void** state) {
  if (!*state) {
    *state = new Ball(of(self));
    ++of(self).states_kept;
  } else {
    *static_cast<Ball*>(*state) = of(self);
  }
  return 0;
}
int set_state(void* self, void* state) {
  const int kept = of(self).states_kept;
  of(self) = *static_cast<Ball*>(state);
  of(self).states_kept = kept;
  return 0;
}
int free_state(void* self, void** state) {
  delete static_cast<Ball*>(*state);
  *state = nullptr;
  --of(self).states_kept;
  return 0;
}
int state_size(void*, void*, std::size_t* size) {
  *size = sizeof(Ball);
  return 0;
}
int serialise(void*, void* state, char* to, std::size_t size) {
  std::memcpy(to, state, size);
  return 0;
}
int deserialise(void* self, const char* from, std::size_t size, void** state) {
  if (size != sizeof(Ball)) return 3;
  if (!*state) ++of(self).states_kept;
  if (!*state) *state = new Ball;
  std::memcpy(*state, from, size);
  return 0;
}
int terminate(void* self) {
  const bool bad = of(self).wrong(of(self).life == Ball::Event || of(self).life == Ball::Continuous);
  of(self).life = Ball::Terminated;
  return status(bad);
}
void free_instance(void* self) {
  CHECK(of(self).states_kept == 0);
  of(self).life = Ball::Freed;
}

template <class Function>
std::uintptr_t address(Function* function) {
  return reinterpret_cast<std::uintptr_t>(function);
}

fmi::ExchangeTables tables_of(Ball& ball, bool adaptive) {
  fmi::ExchangeTables tables;
  tables.version = 2;
  tables.pointer = &ball;
  tables.addresses = {{"GetReal", address(get_real)},
                      {"SetReal", address(set_real)},
                      {"GetInteger", address(get_integer)},
                      {"SetInteger", address(set_integer)},
                      {"ExitInitializationMode", address(exit_initialization)},
                      {"EnterEventMode", address(enter_event_mode)},
                      {"EnterContinuousTimeMode", address(enter_continuous)},
                      {"NewDiscreteStates", address(new_discrete_states)},
                      {"SetTime", address(set_time)},
                      {"SetContinuousStates", address(set_states)},
                      {"GetContinuousStates", address(get_states)},
                      {"GetDerivatives", address(get_derivatives)},
                      {"GetEventIndicators", address(get_indicators)},
                      {"GetNominalsOfContinuousStates", address(get_nominals)},
                      {"CompletedIntegratorStep", address(completed)},
                      {"GetFMUstate", address(get_state)},
                      {"SetFMUstate", address(set_state)},
                      {"FreeFMUstate", address(free_state)},
                      {"SerializedFMUstateSize", address(state_size)},
                      {"SerializeFMUstate", address(serialise)},
                      {"DeSerializeFMUstate", address(deserialise)},
                      {"Terminate", address(terminate)},
                      {"FreeInstance", address(free_instance)}};
  const auto port = [&](int number, fmi::Type type, std::uint32_t reference, bool input) {
    fmi::PortTables made;
    made.type = type;
    made.reference = reference;
    made.port = number;
    made.input = input;
    tables.ports.push_back(made);
  };
  port(0, fmi::Type::Float64, Push, true);
  port(1, fmi::Type::Int32, Switch, true);
  port(2, fmi::Type::Float64, H, false);
  port(3, fmi::Type::Int32, Bounces, false);
  tables.event_mode = tables.saves = tables.serialises = true;
  tables.states = 2;
  tables.indicators = 1;
  tables.shown = 4;  // the indicator, its reverse, and the count of events
  tables.input_start = {0.0};
  tables.held_start = {0};
  SolverTables& solver = tables.solver;
  if (adaptive) {
    solver.method = Method::Adaptive;
    solver.rtol = solver.atol = 1e-8;
    solver.c = {0.0, 1.0};
    solver.a = {0, 0, 1, 0};
    solver.b = {0.5, 0.5};
    solver.e = {-0.5, 0.5};
  } else {
    solver.step = 0.01;
    solver.c = {0.0, 0.5};
    solver.a = {0.0, 0.0, 0.5, 0.0};
    solver.b = {0.0, 1.0};
  }
  return tables;
}

struct Running {
  explicit Running(bool adaptive = false) : unit(make(adaptive)) {}
  ~Running() {
    if (unit.destroy) end();
  }
  upbeat_unit make(bool adaptive) {
    const fmi::ExchangeTables tables = tables_of(ball, adaptive);
    CHECK(fmi::problem_in(tables).empty());
    return fmi::make_exchange(tables);
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
