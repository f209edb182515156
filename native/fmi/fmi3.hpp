// The functions of one instance of FMI 3 (see fmu.hpp for what the members mean).
#pragma once

#include "fmi/callbacks.hpp"
#include "fmi/fmu.hpp"

namespace upbeat::fmi {

// Getting and setting its variables, each type by functions of its own.
class Fmi3Values : public Caller {
 public:
  explicit Fmi3Values(const InstanceTables& tables)
      : Caller(tables),
        c_(tables.pointer),
        get_float64_(tables.find<Get<double>>("GetFloat64")),
        set_float64_(tables.find<Set<double>>("SetFloat64")) {
    static_assert(sizeof(bool) == 1, "FMI 3 passes C's bool");
    for (std::size_t type = 0; type < types; ++type) {
      const std::string name = names()[type];
      getters_[type] = tables.address("Get" + name);
      setters_[type] = tables.address("Set" + name);
    }
    room_.resize(1);
  }

  // Room for so many cells at once, which would be made when they come.
  void reserve(std::size_t cells) { room_.resize(std::max(room_.size(), cells)); }

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
  int get(const Real& real, void* c, double* to) {
    return quick("fmi3GetFloat64", [&] { return real.get(c, to); });
  }
  int set(const Real& real, void* c, const double* from) {
    return quick("fmi3SetFloat64", [&] { return real.set(c, from); });
  }
  bool got(int status) { return done(status, "fmi3GetFloat64"); }
  bool was_set(int status) { return done(status, "fmi3SetFloat64"); }

  // -- values -----------------------------------------------------------------------------------

  bool get(const Variable& from, Cell* to) {
    if (from.type == Type::Float64) {
      return ask("fmi3GetFloat64", get_float64_, c_, &from.reference, 1, &to->r, static_cast<std::size_t>(from.cells));
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
      case Type::String: return get_texts(from, to);
      case Type::Binary: return get_bytes(from, to);
      case Type::Clock: return get_clock(from, to);
      default: return get_as<std::int64_t>(from, to, "fmi3GetInt64");  // enumerations, too
    }
  }

  bool set(const Variable& to, const Cell* from) {
    if (to.type == Type::Float64) {
      return ask("fmi3SetFloat64", set_float64_, c_, &to.reference, 1, &from->r, static_cast<std::size_t>(to.cells));
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
      case Type::String: return set_texts(to, from);
      case Type::Binary: return set_bytes(to, from);
      case Type::Clock: return set_clock(to, from);
      default: return set_as<std::int64_t>(to, from, "fmi3SetInt64");
    }
  }

 protected:
  using References = const std::uint32_t*;

  void* c_;

 private:
  template <class T>
  using Get = int(void*, References, std::size_t, T*, std::size_t);
  template <class T>
  using Set = int(void*, References, std::size_t, const T*, std::size_t);

  static constexpr std::size_t types = static_cast<std::size_t>(Type::Clock) + 1;
  static const char* const* names() {
    static constexpr const char* all[types] = {"Float32", "Float64", "Int8",    "UInt8",  "Int16",  "UInt16", "Int32", "UInt32",
                                               "Int64",   "UInt64",  "Boolean", "String", "Binary", "Int64",  "Clock"};
    return all;
  }

  template <class T>
  bool get_as(const Variable& from, Cell* to, const char* call) {
    auto* const function = reinterpret_cast<Get<T>*>(getters_[static_cast<std::size_t>(from.type)]);
    reserve(static_cast<std::size_t>(from.cells));
    auto* const values = reinterpret_cast<T*>(room_.data());
    if (!ask(call, function, c_, &from.reference, 1, values, static_cast<std::size_t>(from.cells))) return false;
    std::int32_t misfit = 0;
    if (widen(values, from.cells, to, &misfit)) return true;
    return beyond_int64(from, static_cast<std::uint64_t>(values[misfit]));
  }
  template <class T>
  bool set_as(const Variable& to, const Cell* from, const char* call) {
    auto* const function = reinterpret_cast<Set<T>*>(setters_[static_cast<std::size_t>(to.type)]);
    if (!function) return missing(call);
    reserve(static_cast<std::size_t>(to.cells));
    auto* const values = reinterpret_cast<T*>(room_.data());
    std::int32_t misfit = 0;
    if (!narrow(from, to.cells, values, &misfit)) return beyond<T>(to, from[misfit]);
    return ask(call, function, c_, &to.reference, 1, values, static_cast<std::size_t>(to.cells));
  }
  bool beyond_int64(const Variable& variable, std::uint64_t value) {
    return refuse("'" + variable.name + "' is " + std::to_string(value) +
                  ", but integers above 9223372036854775807 are not supported");
  }

  template <class Function>
  Function* getter(const Variable& of) const {
    return reinterpret_cast<Function*>(getters_[static_cast<std::size_t>(of.type)]);
  }
  template <class Function>
  Function* setter(const Variable& of) const {
    return reinterpret_cast<Function*>(setters_[static_cast<std::size_t>(of.type)]);
  }
  bool get_texts(const Variable& from, Cell* to) {
    const auto cells = static_cast<std::size_t>(from.cells);
    std::vector<const char*> texts(cells);
    if (!ask("fmi3GetString", getter<Get<const char*>>(from), c_, &from.reference, 1, texts.data(), cells)) return false;
    for (std::size_t i = 0; i < cells; ++i) to[i] = cell_of(texts[i] ? texts[i] : "");
    return true;
  }
  bool set_texts(const Variable& to, const Cell* from) {
    const auto cells = static_cast<std::size_t>(to.cells);
    std::vector<const char*> texts;
    for (std::size_t i = 0; i < cells; ++i) {
      const std::string* text = nullptr;
      if (!text_of(to, from[i], &text)) return false;
      texts.push_back(text->c_str());
    }
    using SetTexts = int(void*, References, std::size_t, const char* const*, std::size_t);
    return ask("fmi3SetString", setter<SetTexts>(to), c_, &to.reference, 1, texts.data(), cells);
  }
  bool get_bytes(const Variable& from, Cell* to) {
    const auto cells = static_cast<std::size_t>(from.cells);
    std::vector<std::size_t> sizes(cells);
    std::vector<const unsigned char*> values(cells);
    using GetBinary = int(void*, References, std::size_t, std::size_t*, const unsigned char**, std::size_t);
    if (!ask("fmi3GetBinary", getter<GetBinary>(from), c_, &from.reference, 1, sizes.data(), values.data(), cells)) return false;
    for (std::size_t i = 0; i < cells; ++i) to[i] = cell_of(digits_of(values[i], sizes[i]));
    return true;
  }
  bool set_bytes(const Variable& to, const Cell* from) {
    const auto cells = static_cast<std::size_t>(to.cells);
    std::vector<std::string> bytes(cells);
    std::vector<std::size_t> sizes;
    std::vector<const unsigned char*> values;
    for (std::size_t i = 0; i < cells; ++i) {
      if (!bytes_of(to, from[i], &bytes[i])) return false;
      sizes.push_back(bytes[i].size());
      values.push_back(reinterpret_cast<const unsigned char*>(bytes[i].data()));
    }
    using SetBinary = int(void*, References, std::size_t, const std::size_t*, const unsigned char* const*, std::size_t);
    return ask("fmi3SetBinary", setter<SetBinary>(to), c_, &to.reference, 1, sizes.data(), values.data(), cells);
  }
  bool get_clock(const Variable& from, Cell* to) {
    bool active = false;
    using GetClock = int(void*, References, std::size_t, bool*);
    if (!ask("fmi3GetClock", getter<GetClock>(from), c_, &from.reference, 1, &active)) return false;
    to->i = active ? 1 : 0;
    return true;
  }
  bool set_clock(const Variable& to, const Cell* from) {
    const bool active = from->i != 0;
    using SetClock = int(void*, References, std::size_t, const bool*);
    return ask("fmi3SetClock", setter<SetClock>(to), c_, &to.reference, 1, &active);
  }

  Get<double>* get_float64_;
  Set<double>* set_float64_;
  std::uintptr_t getters_[types];  // by type
  std::uintptr_t setters_[types];
  std::vector<std::uint64_t> room_;  // for values on their way
};


class Fmi3 : public Fmi3Values {
 public:
  static constexpr int version = 3;
  static constexpr const char* step = "fmi3DoStep";

  explicit Fmi3(const InstanceTables& tables)
      : Fmi3Values(tables),
        environment_(reinterpret_cast<void*>(tables.environment)),
        instantiate_exchange_(tables.find<InstantiateExchange>("InstantiateModelExchange")),
        instantiate_(tables.find<Instantiate>("InstantiateCoSimulation")),
        set_debug_logging_(tables.find<SetDebugLogging>("SetDebugLogging")),
        enter_configuration_(tables.find<Plain>("EnterConfigurationMode")),
        exit_configuration_(tables.find<Plain>("ExitConfigurationMode")),
        enter_initialization_(tables.find<EnterInitialization>("EnterInitializationMode")),
        states_(tables.find<Count>("GetNumberOfContinuousStates")),
        indicators_(tables.find<Count>("GetNumberOfEventIndicators")),
        do_step_(tables.find<DoStep>("DoStep")),
        exit_initialization_(tables.find<Plain>("ExitInitializationMode")),
        terminate_(tables.find<Plain>("Terminate")),
        reset_(tables.find<Plain>("Reset")),
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
        get_interval_fraction_(tables.find<GetIntervalFraction>("GetIntervalFraction")),
        get_shift_(tables.find<GetShift>("GetShiftDecimal")),
        get_shift_fraction_(tables.find<GetShiftFraction>("GetShiftFraction")),
        set_time_(tables.find<SetTime>("SetTime")),
        set_states_(tables.find<SetStates>("SetContinuousStates")),
        get_states_(tables.find<GetNumbers>("GetContinuousStates")),
        get_derivatives_(tables.find<GetNumbers>("GetContinuousStateDerivatives")),
        get_indicators_(tables.find<GetNumbers>("GetEventIndicators")),
        get_nominals_(tables.find<GetNumbers>("GetNominalsOfContinuousStates")),
        completed_(tables.find<Completed>("CompletedIntegratorStep")) {}

  // -- life -------------------------------------------------------------------------------------

  // False: it could not be called, or (with an empty `why`) gave no instance.
  bool instantiate(const Birth& birth) {
    refuse("");
    const char* const call = birth.exchange ? "fmi3InstantiateModelExchange" : "fmi3InstantiateCoSimulation";
    if (birth.exchange ? !instantiate_exchange_ : !instantiate_) return missing(call);
    if (fatal()) return lost(call);
    const char *const name = birth.name.c_str(), *const token = birth.token.c_str(), *const resources = birth.resources.c_str();
    const int status = guarded(call, [&] {
      c_ = birth.exchange
               ? instantiate_exchange_(name, token, resources, birth.visible, birth.logging, environment_, &upbeat_fmi3_log)
               : instantiate_(name, token, resources, birth.visible, birth.logging, birth.event_mode, birth.early_return,
                              birth.required.empty() ? nullptr : birth.required.data(), birth.required.size(), environment_,
                              &upbeat_fmi3_log, birth.intermediate ? &upbeat_fmi3_intermediate : nullptr);
      return Ok;
    });
    return done(status, call) && c_;
  }
  bool choose_categories(const std::vector<const char*>& names) {
    return ask("fmi3SetDebugLogging", set_debug_logging_, c_, true, names.size(), names.data());
  }
  bool enter_configuration() { return plain(enter_configuration_, "fmi3EnterConfigurationMode"); }
  bool exit_configuration() { return plain(exit_configuration_, "fmi3ExitConfigurationMode"); }
  bool setup(const Experiment&) { return true; }
  bool enter_initialization(const Experiment& run) {
    return ask("fmi3EnterInitializationMode", enter_initialization_, c_, run.has_tolerance, run.tolerance, run.start, run.has_stop,
               run.stop);
  }
  bool leave_initialization() { return ask("fmi3ExitInitializationMode", exit_initialization_, c_); }
  bool reset() {
    if (!ask("fmi3Reset", reset_, c_)) return false;
    begin_again();
    return true;
  }
  bool terminate() { return ask("fmi3Terminate", terminate_, c_); }
  void free() {
    if (c_ && free_) guarded("fmi3FreeInstance", [&] { return free_(c_), Ok; });
    gone();
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
    if (get_interval_ || !get_interval_fraction_) {
      return ask("fmi3GetIntervalDecimal", get_interval_, c_, &clock, 1, seconds, qualifier);
    }
    std::uint64_t counter = 0;
    std::uint64_t resolution = 0;
    if (!ask("fmi3GetIntervalFraction", get_interval_fraction_, c_, &clock, 1, &counter, &resolution, qualifier)) return false;
    *seconds = quotient(counter, resolution);
    return true;
  }
  bool shift(std::uint32_t clock, double* seconds) {
    if (get_shift_ || !get_shift_fraction_) return ask("fmi3GetShiftDecimal", get_shift_, c_, &clock, 1, seconds);
    std::uint64_t counter = 0;
    std::uint64_t resolution = 0;
    if (!ask("fmi3GetShiftFraction", get_shift_fraction_, c_, &clock, 1, &counter, &resolution)) return false;
    *seconds = quotient(counter, resolution);
    return true;
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

  bool directional(const Variables& unknown, const Variables& known, const double* seed, double* to) {
    return sensitivity("fmi3GetDirectionalDerivative", directional_, unknown, known, seed, known.cells, to, unknown.cells);
  }
  bool adjoint(const Variables& unknown, const Variables& known, const double* seed, double* to) {
    return sensitivity("fmi3GetAdjointDerivative", adjoint_, unknown, known, seed, unknown.cells, to, known.cells);
  }
  bool output_derivative(const Variable& of, std::int32_t order, double* to) {
    return ask("fmi3GetOutputDerivatives", output_derivatives_, c_, &of.reference, 1, &order, to, static_cast<std::size_t>(of.cells));
  }

  // -- model exchange ---------------------------------------------------------------------------

  bool states(std::size_t* count) { return states_ && ask("fmi3GetNumberOfContinuousStates", states_, c_, count); }
  bool indicators(std::size_t* count) { return indicators_ && ask("fmi3GetNumberOfEventIndicators", indicators_, c_, count); }
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
  using Log = void(void*, int, const char*, const char*);
  using Intermediate = void(void*, double, bool, bool, bool, bool, bool*, double*);
  using InstantiateExchange = void*(const char*, const char*, const char*, bool, bool, void*, Log*);
  using Instantiate = void*(const char*, const char*, const char*, bool, bool, bool, bool, References, std::size_t, void*, Log*,
                            Intermediate*);
  using SetDebugLogging = int(void*, bool, std::size_t, const char* const*);
  using EnterInitialization = int(void*, bool, double, double, bool, double);
  using Count = int(void*, std::size_t*);
  using GetIntervalFraction = int(void*, References, std::size_t, std::uint64_t*, std::uint64_t*, int*);
  using GetShiftFraction = int(void*, References, std::size_t, std::uint64_t*, std::uint64_t*);
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

  static double quotient(std::uint64_t counter, std::uint64_t resolution) {
    return resolution == 0 ? 0.0 : static_cast<double>(counter) / static_cast<double>(resolution);
  }
  bool sensitivity(const char* call, Directional* function, const Variables& unknown, const Variables& known, const double* seed,
                   std::size_t seeds, double* to, std::size_t found) {
    return ask(call, function, c_, unknown.references, unknown.count, known.references,
               known.count, seed, seeds, to, found);
  }
  bool plain(Plain* function, const char* call) { return ask(call, function, c_); }
  bool numbers(GetNumbers* function, double* to, std::size_t n, const char* call) {
    return ask(call, function, c_, to, n);
  }

  void* environment_;
  InstantiateExchange* instantiate_exchange_;
  Instantiate* instantiate_;
  SetDebugLogging* set_debug_logging_;
  Plain* enter_configuration_;
  Plain* exit_configuration_;
  EnterInitialization* enter_initialization_;
  Count* states_;
  Count* indicators_;
  DoStep* do_step_;
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
  Directional* adjoint_;
  OutputDerivatives* output_derivatives_;
  Plain* enter_event_mode_;
  Update* update_;
  Plain* enter_step_mode_;
  Plain* enter_continuous_time_mode_;
  GetClock* get_clock_;
  SetClock* set_clock_;
  GetInterval* get_interval_;
  GetIntervalFraction* get_interval_fraction_;
  GetShift* get_shift_;
  GetShiftFraction* get_shift_fraction_;
  SetTime* set_time_;
  SetStates* set_states_;
  GetNumbers* get_states_;
  GetNumbers* get_derivatives_;
  GetNumbers* get_indicators_;
  GetNumbers* get_nominals_;
  Completed* completed_;
};

}  // namespace upbeat::fmi
