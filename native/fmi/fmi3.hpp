// The functions of one instance of FMI 3 (see fmu.hpp for what the members mean).
#pragma once

#include "fmi/fmi3_values.hpp"

namespace upbeat::fmi {

class Fmi3 : public Fmi3Values {
 public:
  static constexpr int version = 3;
  static constexpr const char* step = "fmi3DoStep";

  explicit Fmi3(const FmuTables& tables)
      : Fmi3Values(tables),
        do_step_(tables.find<DoStep>("DoStep")),
        exit_initialization_(tables.find<Plain>("ExitInitializationMode")),
        terminate_(tables.find<Plain>("Terminate")),
        free_(tables.find<Free>("FreeInstance")),
        get_state_(tables.find<GetState>("GetFMUState")),
        set_state_(tables.find<SetState>("SetFMUState")),
        free_state_(tables.find<GetState>("FreeFMUState")),
        state_size_(tables.find<StateSize>("SerializedFMUStateSize")),
        serialise_(tables.find<Serialise>("SerializeFMUState")),
        deserialise_(tables.find<Deserialise>("DeserializeFMUState")),
        directional_(tables.find<Directional>("GetDirectionalDerivative")),
        adjoint_(tables.find<Directional>("GetAdjointDerivative")),
        output_derivatives_(tables.find<OutputDerivatives>("GetOutputDerivatives")),
        enter_event_mode_(tables.find<Plain>("EnterEventMode")),
        update_(tables.find<Update>("UpdateDiscreteStates")),
        enter_step_mode_(tables.find<Plain>("EnterStepMode")),
        enter_continuous_time_mode_(tables.find<Plain>("EnterContinuousTimeMode")),
        get_clock_(tables.find<GetClock>("GetClock")),
        set_clock_(tables.find<SetClock>("SetClock")),
        get_interval_(tables.find<GetInterval>("GetIntervalDecimal")),
        get_shift_(tables.find<GetShift>("GetShiftDecimal")),
        set_time_(tables.find<SetTime>("SetTime")),
        set_states_(tables.find<SetStates>("SetContinuousStates")),
        get_states_(tables.find<GetNumbers>("GetContinuousStates")),
        get_derivatives_(tables.find<GetNumbers>("GetContinuousStateDerivatives")),
        get_indicators_(tables.find<GetNumbers>("GetEventIndicators")),
        get_nominals_(tables.find<GetNumbers>("GetNominalsOfContinuousStates")),
        completed_(tables.find<Completed>("CompletedIntegratorStep")) {}

  // -- life -------------------------------------------------------------------------------------

  bool leave_initialization() { return ask("fmi3ExitInitializationMode", exit_initialization_, c_); }
  bool terminate() { return ask("fmi3Terminate", terminate_, c_); }
  void free() {
    guarded("fmi3FreeInstance", [&] { return free_(c_), Ok; });
  }

  // -- co-simulation ----------------------------------------------------------------------------

  int attempt(double t, double length, bool no_prior, Stepped& ended) {
    bool early = false;
    double reached = ended.reached;
    const int status = guarded(
        step, [&] { return do_step_(c_, t, length, no_prior, &ended.event, &ended.terminate, &early, &reached); });
    if (early) ended.reached = reached;
    ended.early = early;
    return status;
  }
  bool steps() { return do_step_ != nullptr || missing("fmi3DoStep"); }
  static bool plain(int status, const Stepped& ended) {
    return status == Ok && !ended.event && !ended.terminate && !ended.early;
  }
  bool conclude(int status, double, Stepped&) { return done(status, "fmi3DoStep"); }
  bool give_slopes(const Variable&, const int*, std::size_t, const double*) { return true; }

  // -- events -----------------------------------------------------------------------------------

  bool enter_event_mode() { return plain(enter_event_mode_, "fmi3EnterEventMode"); }
  bool enter_step_mode() { return plain(enter_step_mode_, "fmi3EnterStepMode"); }
  bool enter_continuous_time_mode() { return plain(enter_continuous_time_mode_, "fmi3EnterContinuousTimeMode"); }
  bool update(Updated& to) {
    bool has_next = false;
    double next = 0.0;
    to = {};
    const bool updated = ask("fmi3UpdateDiscreteStates", update_, c_, &to.again, &to.terminate, &to.nominals_changed,
                             &to.states_changed, &has_next, &next);
    if (has_next) to.next = next;
    return updated;
  }
  bool ticking(std::uint32_t clock, bool* active) {
    return ask("fmi3GetClock", get_clock_, c_, &clock, 1, active);
  }
  bool tick(std::uint32_t clock) {
    const bool active = true;
    return ask("fmi3SetClock", set_clock_, c_, &clock, 1, &active);
  }
  // FMI's qualifier: 0, the interval is not known yet; 1, it is what it was; 2, it has changed.
  bool interval(std::uint32_t clock, double* seconds, int* qualifier) {
    return ask("fmi3GetIntervalDecimal", get_interval_, c_, &clock, 1, seconds, qualifier);
  }
  bool shift(std::uint32_t clock, double* seconds) {
    return ask("fmi3GetShiftDecimal", get_shift_, c_, &clock, 1, seconds);
  }

  // -- state ------------------------------------------------------------------------------------

  bool save(void** state) { return ask("fmi3GetFMUState", get_state_, c_, state); }
  bool restore(void* state) { return ask("fmi3SetFMUState", set_state_, c_, state); }
  void drop(void** state) {
    if (free_state_) ask("fmi3FreeFMUState", free_state_, c_, state);
  }
  bool size(void* state, std::size_t* bytes) {
    return ask("fmi3SerializedFMUStateSize", state_size_, c_, state, bytes);
  }
  bool serialise(void* state, void* to, std::size_t bytes) {
    return ask("fmi3SerializeFMUState", serialise_, c_, state, static_cast<std::uint8_t*>(to), bytes);
  }
  bool deserialise(const void* from, std::size_t bytes, void** state) {
    return ask("fmi3DeserializeFMUState", deserialise_, c_, static_cast<const std::uint8_t*>(from), bytes, state);
  }

  // -- derivatives ------------------------------------------------------------------------------

  bool directional(const Variable& unknown, const Variable& known, const double* seed, double* to) {
    const auto rows = static_cast<std::size_t>(unknown.cells);
    const auto columns = static_cast<std::size_t>(known.cells);
    return ask("fmi3GetDirectionalDerivative", directional_, c_, &unknown.reference, 1, &known.reference, 1, seed, columns, to, rows);
  }

  bool adjoint(const Variable& unknown, const Variable& known, const double* seed, double* to) {
    const auto rows = static_cast<std::size_t>(unknown.cells);
    const auto columns = static_cast<std::size_t>(known.cells);
    return ask("fmi3GetAdjointDerivative", adjoint_, c_, &unknown.reference, 1, &known.reference, 1, seed, rows, to, columns);
  }
  bool output_derivative(const Variable& of, std::int32_t order, double* to) {
    return ask("fmi3GetOutputDerivatives", output_derivatives_, c_, &of.reference, 1, &order, to, static_cast<std::size_t>(of.cells));
  }

  // -- model exchange ---------------------------------------------------------------------------

  bool set_time(double t) { return ask("fmi3SetTime", set_time_, c_, t); }
  bool set_states(const double* x, std::size_t n) {
    return ask("fmi3SetContinuousStates", set_states_, c_, x, n);
  }
  bool get_states(double* x, std::size_t n) { return numbers(get_states_, x, n, "fmi3GetContinuousStates"); }
  bool get_derivatives(double* dx, std::size_t n) {
    return numbers(get_derivatives_, dx, n, "fmi3GetContinuousStateDerivatives");
  }
  bool get_indicators(double* z, std::size_t n) { return numbers(get_indicators_, z, n, "fmi3GetEventIndicators"); }
  bool get_nominals(double* to, std::size_t n) { return numbers(get_nominals_, to, n, "fmi3GetNominalsOfContinuousStates"); }
  bool completed(bool no_prior, bool* event, bool* terminate) {
    return ask("fmi3CompletedIntegratorStep", completed_, c_, no_prior, event, terminate);
  }

 private:
  using Plain = int(void*);
  using Free = void(void*);
  using DoStep = int(void*, double, double, bool, bool*, bool*, bool*, double*);
  using Update = int(void*, bool*, bool*, bool*, bool*, bool*, double*);
  using GetClock = int(void*, References, std::size_t, bool*);
  using SetClock = int(void*, References, std::size_t, const bool*);
  using GetInterval = int(void*, References, std::size_t, double*, int*);
  using GetShift = int(void*, References, std::size_t, double*);
  using GetState = int(void*, void**);
  using SetState = int(void*, void*);
  using StateSize = int(void*, void*, std::size_t*);
  using Serialise = int(void*, void*, std::uint8_t*, std::size_t);
  using Deserialise = int(void*, const std::uint8_t*, std::size_t, void**);
  using Directional = int(void*, References, std::size_t, References, std::size_t, const double*, std::size_t, double*,
                          std::size_t);
  using OutputDerivatives = int(void*, References, std::size_t, const std::int32_t*, double*, std::size_t);
  using SetTime = int(void*, double);
  using SetStates = int(void*, const double*, std::size_t);
  using GetNumbers = int(void*, double*, std::size_t);
  using Completed = int(void*, bool, bool*, bool*);

  bool plain(Plain* function, const char* call) { return ask(call, function, c_); }
  bool numbers(GetNumbers* function, double* to, std::size_t n, const char* call) {
    return ask(call, function, c_, to, n);
  }

  DoStep* do_step_;
  Plain* exit_initialization_;
  Plain* terminate_;
  Free* free_;
  GetState* get_state_;
  SetState* set_state_;
  GetState* free_state_;
  StateSize* state_size_;
  Serialise* serialise_;
  Deserialise* deserialise_;
  Directional* directional_;
  Directional* adjoint_;
  OutputDerivatives* output_derivatives_;
  Plain* enter_event_mode_;
  Update* update_;
  Plain* enter_step_mode_;
  Plain* enter_continuous_time_mode_;
  GetClock* get_clock_;
  SetClock* set_clock_;
  GetInterval* get_interval_;
  GetShift* get_shift_;
  SetTime* set_time_;
  SetStates* set_states_;
  GetNumbers* get_states_;
  GetNumbers* get_derivatives_;
  GetNumbers* get_indicators_;
  GetNumbers* get_nominals_;
  Completed* completed_;
};

}  // namespace upbeat::fmi
