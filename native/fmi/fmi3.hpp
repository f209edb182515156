// The functions of one instance of FMI 3 (see fmu.hpp for what the members mean).
#pragma once

#include <algorithm>

#include "fmi/fmu.hpp"

namespace upbeat::fmi {

class Fmi3 : public Caller {
 public:
  static constexpr int version = 3;

  explicit Fmi3(const FmuTables& tables)
      : Caller(tables),
        c_(tables.pointer),
        get_float64_(tables.find<Get<double>>("GetFloat64")),
        set_float64_(tables.find<Set<double>>("SetFloat64")),
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
        completed_(tables.find<Completed>("CompletedIntegratorStep")) {
    static_assert(sizeof(bool) == 1, "FMI 3 passes C's bool");
    for (std::size_t type = 0; type < types; ++type) {
      const std::string name = names()[type];
      getters_[type] = tables.address("Get" + name);
      setters_[type] = tables.address("Set" + name);
    }
    std::size_t widest = 1;
    for (const PortTables& port : tables.ports) widest = std::max(widest, static_cast<std::size_t>(port.cells));
    room_.resize(widest);
  }

  // -- the commonest calls ------------------------------------------------------------------------

  // A variable of type Float64 and one cell, got and set without a look at its type. Null: the FMU lacks the function.
  struct Real {
    std::uint32_t reference = 0;
    int (*get_)(void*, const std::uint32_t*, std::size_t, double*, std::size_t) = nullptr;
    int (*set_)(void*, const std::uint32_t*, std::size_t, const double*, std::size_t) = nullptr;

    int get(void* c, double* to) const { return get_(c, &reference, 1, to, 1); }
    int set(void* c, const double* from) const { return set_(c, &reference, 1, from, 1); }
  };
  Real real(const Variable& variable) const { return {variable.reference, get_float64_, set_float64_}; }
  void* instance() const { return c_; }
  bool got(int status) { return done(status, "fmi3GetFloat64"); }
  bool was_set(int status) { return done(status, "fmi3SetFloat64"); }

  // -- values -----------------------------------------------------------------------------------

  bool get(const Variable& from, Cell* to) {
    if (from.type == Type::Float64) {
      return (get_float64_ || missing("fmi3GetFloat64")) &&
             done(get_float64_(c_, &from.reference, 1, &to->r, static_cast<std::size_t>(from.cells)), "fmi3GetFloat64");
    }
    switch (from.type) {
      case Type::Float32: return get_as<float>(from, to, "fmi3GetFloat32");
      case Type::Int8: return get_as<std::int8_t>(from, to, "fmi3GetInt8");
      case Type::UInt8: return get_as<std::uint8_t>(from, to, "fmi3GetUInt8");
      case Type::Int16: return get_as<std::int16_t>(from, to, "fmi3GetInt16");
      case Type::UInt16: return get_as<std::uint16_t>(from, to, "fmi3GetUInt16");
      case Type::Int32: return get_as<std::int32_t>(from, to, "fmi3GetInt32");
      case Type::UInt32: return get_as<std::uint32_t>(from, to, "fmi3GetUInt32");
      case Type::UInt64: return get_as<std::uint64_t>(from, to, "fmi3GetUInt64");
      case Type::Boolean: return get_as<bool>(from, to, "fmi3GetBoolean");
      default: return get_as<std::int64_t>(from, to, "fmi3GetInt64");  // enumerations, too
    }
  }

  bool set(const Variable& to, const Cell* from) {
    if (to.type == Type::Float64) {
      return (set_float64_ || missing("fmi3SetFloat64")) &&
             done(set_float64_(c_, &to.reference, 1, &from->r, static_cast<std::size_t>(to.cells)), "fmi3SetFloat64");
    }
    switch (to.type) {
      case Type::Float32: return set_as<float>(to, from, "fmi3SetFloat32");
      case Type::Int8: return set_as<std::int8_t>(to, from, "fmi3SetInt8");
      case Type::UInt8: return set_as<std::uint8_t>(to, from, "fmi3SetUInt8");
      case Type::Int16: return set_as<std::int16_t>(to, from, "fmi3SetInt16");
      case Type::UInt16: return set_as<std::uint16_t>(to, from, "fmi3SetUInt16");
      case Type::Int32: return set_as<std::int32_t>(to, from, "fmi3SetInt32");
      case Type::UInt32: return set_as<std::uint32_t>(to, from, "fmi3SetUInt32");
      case Type::UInt64: return set_as<std::uint64_t>(to, from, "fmi3SetUInt64");
      case Type::Boolean: return set_as<bool>(to, from, "fmi3SetBoolean");
      default: return set_as<std::int64_t>(to, from, "fmi3SetInt64");
    }
  }

  // -- life -------------------------------------------------------------------------------------

  bool leave_initialization() { return done(exit_initialization_(c_), "fmi3ExitInitializationMode"); }
  bool terminate() { return done(terminate_(c_), "fmi3Terminate"); }
  void free() { free_(c_); }

  // -- co-simulation ----------------------------------------------------------------------------

  int attempt(double t, double to, bool no_prior, Stepped& ended) {
    bool early = false;
    double reached = to;
    const int status = do_step_(c_, t, to - t, no_prior, &ended.event, &ended.terminate, &early, &reached);
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
    if (!update_) return missing("fmi3UpdateDiscreteStates");
    bool has_next = false;
    double next = 0.0;
    to = {};
    const int status = update_(c_, &to.again, &to.terminate, &to.nominals_changed, &to.states_changed, &has_next, &next);
    if (has_next) to.next = next;
    return done(status, "fmi3UpdateDiscreteStates");
  }
  bool ticking(std::uint32_t clock, bool* active) {
    return get_clock_ ? done(get_clock_(c_, &clock, 1, active), "fmi3GetClock") : missing("fmi3GetClock");
  }
  bool tick(std::uint32_t clock) {
    const bool active = true;
    return set_clock_ ? done(set_clock_(c_, &clock, 1, &active), "fmi3SetClock") : missing("fmi3SetClock");
  }
  // FMI's qualifier: 0, the interval is not known yet; 1, it is what it was; 2, it has changed.
  bool interval(std::uint32_t clock, double* seconds, int* qualifier) {
    if (!get_interval_) return missing("fmi3GetIntervalDecimal");
    return done(get_interval_(c_, &clock, 1, seconds, qualifier), "fmi3GetIntervalDecimal");
  }
  bool shift(std::uint32_t clock, double* seconds) {
    return get_shift_ ? done(get_shift_(c_, &clock, 1, seconds), "fmi3GetShiftDecimal") : missing("fmi3GetShiftDecimal");
  }

  // -- state ------------------------------------------------------------------------------------

  bool save(void** state) { return get_state_ ? done(get_state_(c_, state), "fmi3GetFMUState") : missing("fmi3GetFMUState"); }
  bool restore(void* state) { return set_state_ ? done(set_state_(c_, state), "fmi3SetFMUState") : missing("fmi3SetFMUState"); }
  void drop(void** state) {
    if (free_state_) free_state_(c_, state);
  }
  bool size(void* state, std::size_t* bytes) {
    if (!state_size_) return missing("fmi3SerializedFMUStateSize");
    return done(state_size_(c_, state, bytes), "fmi3SerializedFMUStateSize");
  }
  bool serialise(void* state, void* to, std::size_t bytes) {
    if (!serialise_) return missing("fmi3SerializeFMUState");
    return done(serialise_(c_, state, static_cast<std::uint8_t*>(to), bytes), "fmi3SerializeFMUState");
  }
  bool deserialise(const void* from, std::size_t bytes, void** state) {
    if (!deserialise_) return missing("fmi3DeserializeFMUState");
    return done(deserialise_(c_, static_cast<const std::uint8_t*>(from), bytes, state), "fmi3DeserializeFMUState");
  }

  // -- derivatives ------------------------------------------------------------------------------

  bool directional(const Variable& unknown, const Variable& known, const double* seed, double* to) {
    if (!directional_) return missing("fmi3GetDirectionalDerivative");
    const auto rows = static_cast<std::size_t>(unknown.cells);
    const auto columns = static_cast<std::size_t>(known.cells);
    return done(directional_(c_, &unknown.reference, 1, &known.reference, 1, seed, columns, to, rows),
                "fmi3GetDirectionalDerivative");
  }

  bool adjoint(const Variable& unknown, const Variable& known, const double* seed, double* to) {
    if (!adjoint_) return missing("fmi3GetAdjointDerivative");
    const auto rows = static_cast<std::size_t>(unknown.cells);
    const auto columns = static_cast<std::size_t>(known.cells);
    return done(adjoint_(c_, &unknown.reference, 1, &known.reference, 1, seed, rows, to, columns), "fmi3GetAdjointDerivative");
  }
  bool output_derivative(const Variable& of, std::int32_t order, double* to) {
    if (!output_derivatives_) return missing("fmi3GetOutputDerivatives");
    return done(output_derivatives_(c_, &of.reference, 1, &order, to, static_cast<std::size_t>(of.cells)), "fmi3GetOutputDerivatives");
  }

  // -- model exchange ---------------------------------------------------------------------------

  bool set_time(double t) { return set_time_ ? done(set_time_(c_, t), "fmi3SetTime") : missing("fmi3SetTime"); }
  bool set_states(const double* x, std::size_t n) {
    return set_states_ ? done(set_states_(c_, x, n), "fmi3SetContinuousStates") : missing("fmi3SetContinuousStates");
  }
  bool get_states(double* x, std::size_t n) { return numbers(get_states_, x, n, "fmi3GetContinuousStates"); }
  bool get_derivatives(double* dx, std::size_t n) {
    return numbers(get_derivatives_, dx, n, "fmi3GetContinuousStateDerivatives");
  }
  bool get_indicators(double* z, std::size_t n) { return numbers(get_indicators_, z, n, "fmi3GetEventIndicators"); }
  bool get_nominals(double* to, std::size_t n) { return numbers(get_nominals_, to, n, "fmi3GetNominalsOfContinuousStates"); }
  bool completed(bool no_prior, bool* event, bool* terminate) {
    if (!completed_) return missing("fmi3CompletedIntegratorStep");
    return done(completed_(c_, no_prior, event, terminate), "fmi3CompletedIntegratorStep");
  }

 private:
  using References = const std::uint32_t*;
  using Plain = int(void*);
  using Free = void(void*);
  template <class T>
  using Get = int(void*, References, std::size_t, T*, std::size_t);
  template <class T>
  using Set = int(void*, References, std::size_t, const T*, std::size_t);
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

  static constexpr std::size_t types = static_cast<std::size_t>(Type::Clock) + 1;
  static const char* const* names() {
    static constexpr const char* all[types] = {"Float32", "Float64", "Int8",    "UInt8",  "Int16",  "UInt16", "Int32", "UInt32",
                                               "Int64",   "UInt64",  "Boolean", "String", "Binary", "Int64",  "Clock"};
    return all;
  }

  bool plain(Plain* function, const char* call) { return function ? done(function(c_), call) : missing(call); }
  bool numbers(GetNumbers* function, double* to, std::size_t n, const char* call) {
    return function ? done(function(c_, to, n), call) : missing(call);
  }

  template <class T>
  bool get_as(const Variable& from, Cell* to, const char* call) {
    auto* const function = reinterpret_cast<Get<T>*>(getters_[static_cast<std::size_t>(from.type)]);
    if (!function) return missing(call);
    auto* const values = reinterpret_cast<T*>(room_.data());
    if (!done(function(c_, &from.reference, 1, values, static_cast<std::size_t>(from.cells)), call)) return false;
    std::int32_t misfit = 0;
    if (widen(values, from.cells, to, &misfit)) return true;
    return beyond_int64(from, static_cast<std::uint64_t>(values[misfit]));
  }
  template <class T>
  bool set_as(const Variable& to, const Cell* from, const char* call) {
    auto* const function = reinterpret_cast<Set<T>*>(setters_[static_cast<std::size_t>(to.type)]);
    if (!function) return missing(call);
    auto* const values = reinterpret_cast<T*>(room_.data());
    std::int32_t misfit = 0;
    if (!narrow(from, to.cells, values, &misfit)) return beyond<T>(to, from[misfit]);
    return done(function(c_, &to.reference, 1, values, static_cast<std::size_t>(to.cells)), call);
  }
  bool beyond_int64(const Variable& variable, std::uint64_t value) {
    return refuse("'" + variable.name + "' is " + std::to_string(value) +
                  ", but integers above 9223372036854775807 are not supported");
  }

  void* c_;
  Get<double>* get_float64_;
  Set<double>* set_float64_;
  DoStep* do_step_;
  std::uintptr_t getters_[types];  // by type
  std::uintptr_t setters_[types];
  std::vector<std::uint64_t> room_;  // for values on their way
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
