// An FMU for model exchange, made of functions of FMI 2 that are written here: a ball that bounces.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "check.hpp"
#include "fmi/units.hpp"

namespace upbeat::ball {

inline constexpr double g = 9.81;
inline constexpr double e = 0.7;
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
inline Ball& of(void* self) { return *static_cast<Ball*>(self); }
inline int status(bool bad) { return bad ? 3 : 0; }

inline int get_real(void* self, References which, std::size_t, double* to) {
  Ball& ball = of(self);
  *to = *which == Push ? ball.push : ball.x[*which];
  return status(ball.wrong(ball.life < Ball::Terminated));
}
inline int set_real(void* self, References which, std::size_t, const double* from) {
  CHECK(*which == Push);
  of(self).push = *from;
  return status(of(self).wrong(of(self).life < Ball::Terminated));
}
inline int get_integer(void* self, References, std::size_t, int* to) {
  *to = of(self).bounces;
  return 0;
}
inline int set_integer(void* self, References, std::size_t, const int* from) {
  of(self).on = *from;
  return status(of(self).wrong(of(self).life < Ball::Continuous));
}
inline int exit_initialization(void* self) {
  const bool bad = of(self).wrong(of(self).life == Ball::Initial);
  of(self).life = Ball::Event;
  return status(bad);
}
inline int enter_event_mode(void* self) {
  const bool bad = of(self).wrong(of(self).life == Ball::Continuous);
  of(self).life = Ball::Event;
  return status(bad);
}
inline int enter_continuous(void* self) {
  const bool bad = of(self).wrong(of(self).life == Ball::Event);
  of(self).life = Ball::Continuous;
  return status(bad);
}
struct EventInfo {
  int again, terminate, nominals_changed, states_changed, has_next;
  double next;
};
inline int new_discrete_states(void* self, EventInfo* info) {
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
inline int set_time(void* self, double t) {
  of(self).t = t;
  return status(of(self).wrong(of(self).life == Ball::Continuous));
}
inline int set_states(void* self, const double* x, std::size_t) {
  std::copy_n(x, 2, of(self).x);
  return status(of(self).wrong(of(self).life == Ball::Continuous));
}
inline int get_states(void* self, double* x, std::size_t) {
  std::copy_n(of(self).x, 2, x);
  return 0;
}
inline int get_derivatives(void* self, double* dx, std::size_t) {
  dx[0] = of(self).x[1];
  dx[1] = -g + of(self).push;
  if (of(self).x[0] > of(self).discard_above) return 2;
  return status(of(self).fails);
}
inline int get_indicators(void* self, double* z, std::size_t) {
  ++of(self).looks;
  z[0] = of(self).x[0];
  return 0;
}
inline int get_nominals(void*, double* to, std::size_t) {
  to[0] = 1.0;
  to[1] = -1.0;
  return 0;
}
inline int completed(void* self, int, int* event, int* end) {
  *event = *end = 0;
  return status(of(self).wrong(of(self).life == Ball::Continuous));
}
inline int get_state(void* self, void** state) {
  if (!*state) {
    *state = new Ball(of(self));
    ++of(self).states_kept;
  } else {
    *static_cast<Ball*>(*state) = of(self);
  }
  return 0;
}
inline int set_state(void* self, void* state) {
  const int kept = of(self).states_kept;
  of(self) = *static_cast<Ball*>(state);
  of(self).states_kept = kept;
  return 0;
}
inline int free_state(void* self, void** state) {
  delete static_cast<Ball*>(*state);
  *state = nullptr;
  --of(self).states_kept;
  return 0;
}
inline int state_size(void*, void*, std::size_t* size) {
  *size = sizeof(Ball);
  return 0;
}
inline int serialise(void*, void* state, char* to, std::size_t size) {
  std::memcpy(to, state, size);
  return 0;
}
inline int deserialise(void* self, const char* from, std::size_t size, void** state) {
  if (size != sizeof(Ball)) return 3;
  if (!*state) ++of(self).states_kept;
  if (!*state) *state = new Ball;
  std::memcpy(*state, from, size);
  return 0;
}
inline int terminate(void* self) {
  const bool bad = of(self).wrong(of(self).life == Ball::Event || of(self).life == Ball::Continuous);
  of(self).life = Ball::Terminated;
  return status(bad);
}
inline void free_instance(void* self) {
  CHECK(of(self).states_kept == 0);
  of(self).life = Ball::Freed;
}

inline fmi::ExchangeTables tables_of(Ball& ball, bool adaptive) {
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

}  // namespace upbeat::ball
