// The functions of one instance of FMI 2 (see fmu.hpp for what the members mean).
#pragma once

#include <cstdlib>

#include "fmi/callbacks.hpp"
#include "fmi/fmu.hpp"

namespace upbeat::fmi {

class Fmi2 : public Caller {
 public:
  static constexpr int version = 2;
  static constexpr const char* step = "fmi2DoStep";

  explicit Fmi2(const InstanceTables& tables)
      : Caller(tables),
        c_(tables.pointer),
        callbacks_{reinterpret_cast<void*>(&upbeat_fmi2_log), reinterpret_cast<void*>(&std::calloc),
                   reinterpret_cast<void*>(&std::free), nullptr, reinterpret_cast<void*>(tables.environment)},
        instantiate_(tables.find<Instantiate>("Instantiate")),
        set_debug_logging_(tables.find<SetDebugLogging>("SetDebugLogging")),
        setup_(tables.find<Setup>("SetupExperiment")),
        enter_initialization_(tables.find<Plain>("EnterInitializationMode")),
        get_string_(tables.find<GetString>("GetString")),
        set_string_(tables.find<SetString>("SetString")),
        get_real_(tables.find<GetReal>("GetReal")),
        set_real_(tables.find<SetReal>("SetReal")),
        do_step_(tables.find<DoStep>("DoStep")),
        get_integer_(tables.find<GetInteger>("GetInteger")),
        set_integer_(tables.find<SetInteger>("SetInteger")),
        get_boolean_(tables.find<GetInteger>("GetBoolean")),
        set_boolean_(tables.find<SetInteger>("SetBoolean")),
        set_input_derivatives_(tables.find<SetInputDerivatives>("SetRealInputDerivatives")),
        get_real_status_(tables.find<GetRealStatus>("GetRealStatus")),
        get_boolean_status_(tables.find<GetBooleanStatus>("GetBooleanStatus")),
        exit_initialization_(tables.find<Plain>("ExitInitializationMode")),
        terminate_(tables.find<Plain>("Terminate")),
        reset_(tables.find<Plain>("Reset")),
        free_(tables.find<Free>("FreeInstance")),
        get_state_(tables.find<GetState>("GetFMUstate")),
        set_state_(tables.find<SetState>("SetFMUstate")),
        free_state_(tables.find<GetState>("FreeFMUstate")),
        state_size_(tables.find<StateSize>("SerializedFMUstateSize")),
        serialise_(tables.find<Serialise>("SerializeFMUstate")),
        deserialise_(tables.find<Deserialise>("DeSerializeFMUstate")),
        directional_(tables.find<Directional>("GetDirectionalDerivative")),
        output_derivatives_(tables.find<OutputDerivatives>("GetRealOutputDerivatives")),
        enter_event_mode_(tables.find<Plain>("EnterEventMode")),
        new_discrete_states_(tables.find<NewDiscreteStates>("NewDiscreteStates")),
        enter_continuous_time_mode_(tables.find<Plain>("EnterContinuousTimeMode")),
        set_time_(tables.find<SetTime>("SetTime")),
        set_states_(tables.find<SetStates>("SetContinuousStates")),
        get_states_(tables.find<GetNumbers>("GetContinuousStates")),
        get_derivatives_(tables.find<GetNumbers>("GetDerivatives")),
        get_indicators_(tables.find<GetNumbers>("GetEventIndicators")),
        get_nominals_(tables.find<GetNumbers>("GetNominalsOfContinuousStates")),
        completed_(tables.find<Completed>("CompletedIntegratorStep")) {}

  // -- the commonest calls ------------------------------------------------------------------------

  void reserve(std::size_t) {}

  // A real variable of one cell, got and set without a look at its type. Null: the FMU lacks the function.
  struct Real {
    std::uint32_t reference = 0;
    int (*get_)(void*, const std::uint32_t*, std::size_t, double*) = nullptr;
    int (*set_)(void*, const std::uint32_t*, std::size_t, const double*) = nullptr;

    int get(void* c, double* to) const { return get_(c, &reference, 1, to); }
    int set(void* c, const double* from) const { return set_(c, &reference, 1, from); }
  };
  Real real(const Variable& variable) const { return {variable.reference, get_real_, set_real_}; }
  void* instance() const { return c_; }
  int get(const Real& real, void* c, double* to) {
    return quick("fmi2GetReal", [&] { return real.get(c, to); });
  }
  int set(const Real& real, void* c, const double* from) {
    return quick("fmi2SetReal", [&] { return real.set(c, from); });
  }
  bool got(int status) { return done(status, "fmi2GetReal"); }
  bool was_set(int status) { return done(status, "fmi2SetReal"); }

  // -- values -----------------------------------------------------------------------------------

  bool get(const Variable& from, Cell* to) {
    if (from.type == Type::Float64) {
      return ask("fmi2GetReal", get_real_, c_, &from.reference, 1, &to->r);
    }
    if (from.type == Type::String) {
      const char* text = nullptr;
      if (!ask("fmi2GetString", get_string_, c_, &from.reference, 1, &text)) return false;
      *to = cell_of(text ? text : "");
      return true;
    }
    const bool boolean = from.type == Type::Boolean;
    const char* const call = boolean ? "fmi2GetBoolean" : "fmi2GetInteger";
    GetInteger* const function = boolean ? get_boolean_ : get_integer_;
    int value = 0;
    if (!ask(call, function, c_, &from.reference, 1, &value)) return false;
    to->i = boolean ? value != 0 : value;
    return true;
  }

  bool set(const Variable& to, const Cell* from) {
    if (to.type == Type::Float64) {
      return ask("fmi2SetReal", set_real_, c_, &to.reference, 1, &from->r);
    }
    if (to.type == Type::String) {
      const std::string* text = nullptr;
      if (!text_of(to, *from, &text)) return false;
      const char* const given = text->c_str();
      return ask("fmi2SetString", set_string_, c_, &to.reference, 1, &given);
    }
    const bool boolean = to.type == Type::Boolean;
    const char* const call = boolean ? "fmi2SetBoolean" : "fmi2SetInteger";
    SetInteger* const function = boolean ? set_boolean_ : set_integer_;
    std::int32_t value = 0;
    std::int32_t misfit = 0;
    if (!function) return missing(call);
    if (!narrow(from, 1, &value, &misfit)) return beyond<std::int32_t>(to, *from);
    const int given = value;
    return ask(call, function, c_, &to.reference, 1, &given);
  }

  // -- life -------------------------------------------------------------------------------------

  // False: it could not be called, or (with an empty `why`) gave no instance.
  bool instantiate(const Birth& birth) {
    refuse("");
    if (!instantiate_) return missing("fmi2Instantiate");
    if (fatal()) return lost("fmi2Instantiate");
    const int status = guarded("fmi2Instantiate", [&] {
      c_ = instantiate_(birth.name.c_str(), birth.exchange ? 0 : 1, birth.token.c_str(), birth.resources.c_str(), &callbacks_,
                        birth.visible ? 1 : 0, birth.logging ? 1 : 0);
      return Ok;
    });
    return done(status, "fmi2Instantiate") && c_;
  }
  bool choose_categories(const std::vector<const char*>& names) {
    return ask("fmi2SetDebugLogging", set_debug_logging_, c_, 1, names.size(), names.data());
  }
  bool enter_configuration() { return missing("fmi3EnterConfigurationMode"); }
  bool exit_configuration() { return missing("fmi3ExitConfigurationMode"); }
  bool setup(const Experiment& run) {
    return ask("fmi2SetupExperiment", setup_, c_, run.has_tolerance ? 1 : 0, run.tolerance, run.start, run.has_stop ? 1 : 0,
               run.stop);
  }
  bool enter_initialization(const Experiment&) { return ask("fmi2EnterInitializationMode", enter_initialization_, c_); }
  bool leave_initialization() { return ask("fmi2ExitInitializationMode", exit_initialization_, c_); }
  bool reset() {
    if (!ask("fmi2Reset", reset_, c_)) return false;
    begin_again();
    return true;
  }
  bool terminate() { return ask("fmi2Terminate", terminate_, c_); }
  void free() {
    if (c_ && free_) guarded("fmi2FreeInstance", [&] { return free_(c_), Ok; });
    gone();
  }

  // -- co-simulation ----------------------------------------------------------------------------

  int attempt(double t, double length, bool no_prior, Stepped&) {
    return guarded(step, [&] { return do_step_(c_, t, length, no_prior ? 1 : 0); });
  }
  bool steps() { return do_step_ != nullptr || missing("fmi2DoStep"); }
  static bool plain(int status, const Stepped&) { return status == Ok; }
  bool conclude(int status, double t, Stepped& ended) { return status == Ok || not_stepped(status, t, ended); }

  // `slopes`: the derivatives of order 1 to `count` of an input.
  bool give_slopes(const Variable& of, const int* orders, std::size_t count, const double* slopes) {
    for (std::size_t k = 0; k < count; ++k) {  // one by one: the references would have to be repeated otherwise
      if (!ask("fmi2SetRealInputDerivatives", set_input_derivatives_, c_, &of.reference, 1, orders + k, slopes + k)) return false;
    }
    return true;
  }

  // -- events (model exchange only) ---------------------------------------------------------------

  bool enter_event_mode() { return plain(enter_event_mode_, "fmi2EnterEventMode"); }
  bool enter_step_mode() { return true; }
  bool enter_continuous_time_mode() { return plain(enter_continuous_time_mode_, "fmi2EnterContinuousTimeMode"); }
  bool update(Updated& to) {
    EventInfo info{};
    if (!ask("fmi2NewDiscreteStates", new_discrete_states_, c_, &info)) return false;
    to.again = info.again != 0;
    to.terminate = info.terminate != 0;
    to.nominals_changed = info.nominals_changed != 0;
    to.states_changed = info.states_changed != 0;
    to.next = info.has_next != 0 ? info.next : std::numeric_limits<double>::infinity();
    return true;
  }
  bool ticking(std::uint32_t, bool*) { return missing("fmi3GetClock"); }
  bool tick(std::uint32_t) { return missing("fmi3SetClock"); }
  bool interval(std::uint32_t, double*, int*) { return missing("fmi3GetIntervalDecimal"); }
  bool shift(std::uint32_t, double*) { return missing("fmi3GetShiftDecimal"); }

  // -- state ------------------------------------------------------------------------------------

  bool save(void** state) { return ask("fmi2GetFMUstate", get_state_, c_, state); }
  bool restore(void* state) { return ask("fmi2SetFMUstate", set_state_, c_, state); }
  void drop(void** state) {
    if (free_state_) ask("fmi2FreeFMUstate", free_state_, c_, state);
  }
  bool size(void* state, std::size_t* bytes) {
    return ask("fmi2SerializedFMUstateSize", state_size_, c_, state, bytes);
  }
  bool serialise(void* state, void* to, std::size_t bytes) {
    return ask("fmi2SerializeFMUstate", serialise_, c_, state, static_cast<char*>(to), bytes);
  }
  bool deserialise(const void* from, std::size_t bytes, void** state) {
    return ask("fmi2DeSerializeFMUstate", deserialise_, c_, static_cast<const char*>(from), bytes, state);
  }

  // -- derivatives ------------------------------------------------------------------------------

  bool directional(const Variables& unknown, const Variables& known, const double* seed, double* to) {
    return ask("fmi2GetDirectionalDerivative", directional_, c_, unknown.references, unknown.count,
               known.references, known.count, seed, to);
  }

  bool adjoint(const Variables&, const Variables&, const double*, double*) { return missing("fmi3GetAdjointDerivative"); }
  bool output_derivative(const Variable& of, std::int32_t order, double* to) {
    return ask("fmi2GetRealOutputDerivatives", output_derivatives_, c_, &of.reference, 1, &order, to);
  }

  // -- model exchange ---------------------------------------------------------------------------

  bool states(std::size_t*) { return false; }  // the description says it
  bool indicators(std::size_t*) { return false; }
  bool set_time(double t) { return ask("fmi2SetTime", set_time_, c_, t); }
  bool set_states(const double* x, std::size_t n) {
    return ask("fmi2SetContinuousStates", set_states_, c_, x, n);
  }
  bool get_states(double* x, std::size_t n) { return numbers(get_states_, x, n, "fmi2GetContinuousStates"); }
  bool get_derivatives(double* dx, std::size_t n) { return numbers(get_derivatives_, dx, n, "fmi2GetDerivatives"); }
  bool get_indicators(double* z, std::size_t n) { return numbers(get_indicators_, z, n, "fmi2GetEventIndicators"); }
  bool get_nominals(double* to, std::size_t n) { return numbers(get_nominals_, to, n, "fmi2GetNominalsOfContinuousStates"); }
  bool completed(bool no_prior, bool* event, bool* terminate) {
    int enter = 0;
    int end = 0;
    if (!ask("fmi2CompletedIntegratorStep", completed_, c_, no_prior ? 1 : 0, &enter, &end)) return false;
    *event = enter != 0;
    *terminate = end != 0;
    return true;
  }

 private:
  struct EventInfo {
    int again, terminate, nominals_changed, states_changed, has_next;
    double next;
  };
  struct Callbacks {
    void *logger, *allocate, *free, *step_finished, *environment;
  };
  using References = const std::uint32_t*;
  using Instantiate = void*(const char*, int, const char*, const char*, const Callbacks*, int, int);
  using SetDebugLogging = int(void*, int, std::size_t, const char* const*);
  using Setup = int(void*, int, double, double, int, double);
  using GetString = int(void*, References, std::size_t, const char**);
  using SetString = int(void*, References, std::size_t, const char* const*);
  using Plain = int(void*);
  using Free = void(void*);
  using GetReal = int(void*, References, std::size_t, double*);
  using SetReal = int(void*, References, std::size_t, const double*);
  using GetInteger = int(void*, References, std::size_t, int*);
  using SetInteger = int(void*, References, std::size_t, const int*);
  using DoStep = int(void*, double, double, int);
  using SetInputDerivatives = int(void*, References, std::size_t, const int*, const double*);
  using GetRealStatus = int(void*, int, double*);
  using GetBooleanStatus = int(void*, int, int*);
  using GetState = int(void*, void**);
  using SetState = int(void*, void*);
  using StateSize = int(void*, void*, std::size_t*);
  using Serialise = int(void*, void*, char*, std::size_t);
  using Deserialise = int(void*, const char*, std::size_t, void**);
  using Directional = int(void*, References, std::size_t, References, std::size_t, const double*, double*);
  using NewDiscreteStates = int(void*, EventInfo*);
  using OutputDerivatives = int(void*, References, std::size_t, const int*, double*);
  using SetTime = int(void*, double);
  using SetStates = int(void*, const double*, std::size_t);
  using GetNumbers = int(void*, double*, std::size_t);
  using Completed = int(void*, int, int*, int*);

  static constexpr int last_successful_time = 2;
  static constexpr int terminated = 3;

  bool plain(Plain* function, const char* call) { return ask(call, function, c_); }
  bool numbers(GetNumbers* function, double* to, std::size_t n, const char* call) {
    return ask(call, function, c_, to, n);
  }

  // A step that was discarded may have come some way.
  UPBEAT_APART bool not_stepped(int status, double t, Stepped& ended) {
    if (status != Discard) return done(status, "fmi2DoStep");
    double reached = t;
    if (!answers("fmi2GetRealStatus", get_real_status_, c_, last_successful_time, &reached)) {
      return !fatal() && done(status, "fmi2DoStep");
    }
    ended.early = true;
    int end = 0;
    if (answers("fmi2GetBooleanStatus", get_boolean_status_, c_, terminated, &end)) {
      ended.terminate = end != 0;
    } else if (get_boolean_status_ && fatal()) {
      return false;
    }
    ended.reached = reached;
    return true;
  }

  void* c_;
  Callbacks callbacks_;  // the FMU may keep the pointer to it for as long as it lives
  Instantiate* instantiate_;
  SetDebugLogging* set_debug_logging_;
  Setup* setup_;
  Plain* enter_initialization_;
  GetString* get_string_;
  SetString* set_string_;
  GetReal* get_real_;
  SetReal* set_real_;
  DoStep* do_step_;
  GetInteger* get_integer_;
  SetInteger* set_integer_;
  GetInteger* get_boolean_;
  SetInteger* set_boolean_;
  SetInputDerivatives* set_input_derivatives_;
  GetRealStatus* get_real_status_;
  GetBooleanStatus* get_boolean_status_;
  Plain* exit_initialization_;
  Plain* terminate_;
  Plain* reset_;
  Free* free_;
  GetState* get_state_;
  SetState* set_state_;
  GetState* free_state_;
  StateSize* state_size_;
  Serialise* serialise_;
  Deserialise* deserialise_;
  Directional* directional_;
  OutputDerivatives* output_derivatives_;
  Plain* enter_event_mode_;
  NewDiscreteStates* new_discrete_states_;
  Plain* enter_continuous_time_mode_;
  SetTime* set_time_;
  SetStates* set_states_;
  GetNumbers* get_states_;
  GetNumbers* get_derivatives_;
  GetNumbers* get_indicators_;
  GetNumbers* get_nominals_;
  Completed* completed_;
};

}  // namespace upbeat::fmi
