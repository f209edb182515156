/* The functions of FMI 3.0 around an exported scenario. */
#include <stdbool.h>

#include "instance.h"

#if defined(FMI3_FUNCTION_PREFIX) && !defined(FMI3_OVERRIDE_FUNCTION_PREFIX) && !defined(FMI3_ACTUAL_FUNCTION_PREFIX)
#define FMI3_ACTUAL_FUNCTION_PREFIX FMI3_FUNCTION_PREFIX
#endif
#if defined(FMI3_ACTUAL_FUNCTION_PREFIX) && !defined(FMI3_OVERRIDE_FUNCTION_PREFIX)
#define FMI3_PASTE(a, b) a##b
#define FMI3_JOIN(a, b) FMI3_PASTE(a, b)
#define FMI3(name) FMI3_JOIN(FMI3_ACTUAL_FUNCTION_PREFIX, fmi3##name)
#else
#define FMI3(name) fmi3##name
#endif

typedef enum { FMI3_OK, FMI3_WARNING, FMI3_DISCARD, FMI3_ERROR, FMI3_FATAL } fmi3_status;
typedef uint32_t fmi3_reference;
typedef void (*fmi3_logger)(void *environment, fmi3_status status, const char *category, const char *message);

static const char *const fmi3_categories[] = {"logStatusError", "logStatusWarning", "logEvents"};

/* A pointer to a function in the place of one to data, which C does not convert. */
typedef union {
  fmi3_logger function;
  void *data;
} fmi3_pointer;

static void fmi3_log(instance *o, instance_category category, const char *text) {
  static const fmi3_status statuses[] = {FMI3_ERROR, FMI3_WARNING, FMI3_OK};
  fmi3_pointer logger;
  logger.data = o->callbacks;
  if (logger.function) logger.function(o->environment, statuses[category], fmi3_categories[category], text);
}

static fmi3_status fmi3_status_of(int well) { return well ? FMI3_OK : FMI3_ERROR; }
static fmi3_status fmi3_lacks(instance *o) { return fmi3_status_of(fails(o, "the FMU has no such function")); }

/* ---------------------------------------------------------------------------------------------------- life */

FMI_EXPORT const char *FMI3(GetVersion)(void) { return "3.0"; }

FMI_EXPORT fmi3_status FMI3(SetDebugLogging)(instance *o, bool on, size_t count, const char *const *categories) {
  int *const wanted = &o->says[SAY_EVENT];
  *wanted = on && count == 0;
  for (size_t i = 0; i < count; ++i) {
    if (categories[i] && !strcmp(categories[i], fmi3_categories[SAY_EVENT])) *wanted = on;
  }
  listen_to_events(o);
  return FMI3_OK;
}

FMI_EXPORT instance *FMI3(InstantiateModelExchange)(const char *name, const char *token, const char *resources, bool visible,
                                                    bool logging, void *environment, fmi3_logger log) {
  (void)visible;
  fmi3_pointer logger;
  logger.function = log;
  return instance_new(name, token, resources, 1, environment, logger.data, fmi3_log, logging);
}
FMI_EXPORT instance *FMI3(InstantiateCoSimulation)(const char *name, const char *token, const char *resources, bool visible,
                                                   bool logging, bool event_mode, bool early_return,
                                                   const fmi3_reference *intermediate, size_t intermediate_count,
                                                   void *environment, fmi3_logger log, void (*update_intermediate)(void)) {
  (void)visible;
  (void)intermediate;
  (void)intermediate_count;
  (void)update_intermediate;
  fmi3_pointer logger;
  logger.function = log;
  instance *const o = instance_new(name, token, resources, 0, environment, logger.data, fmi3_log, logging);
  if (o) {
    o->event_mode = event_mode;
    o->early = early_return;
  }
  return o;
}
FMI_EXPORT instance *FMI3(InstantiateScheduledExecution)(const char *name, const char *token, const char *resources, bool visible,
                                                         bool logging, void *environment, fmi3_logger log, void (*tick)(void),
                                                         void (*lock)(void), void (*unlock)(void)) {
  (void)name;
  (void)token;
  (void)resources;
  (void)visible;
  (void)logging;
  (void)tick;
  (void)lock;
  (void)unlock;
  if (log) log(environment, FMI3_ERROR, fmi3_categories[SAY_ERROR], "the FMU is not for scheduled execution");
  return 0;
}
FMI_EXPORT void FMI3(FreeInstance)(instance *o) { instance_free(o); }

FMI_EXPORT fmi3_status FMI3(EnterInitializationMode)(instance *o, bool tolerance_defined, double tolerance, double start,
                                                     bool stop_defined, double stop) {
  (void)tolerance_defined;
  (void)tolerance;
  (void)stop_defined;
  (void)stop;
  return fmi3_status_of(enter_initialization(o, start));
}
FMI_EXPORT fmi3_status FMI3(ExitInitializationMode)(instance *o) {
  return fmi3_status_of(exit_initialization(o, o->event_mode || o->exchange ? MODE_EVENT : MODE_STEP));
}
FMI_EXPORT fmi3_status FMI3(EnterEventMode)(instance *o) { return fmi3_status_of(enter_mode(o, MODE_EVENT)); }
FMI_EXPORT fmi3_status FMI3(EnterStepMode)(instance *o) { return fmi3_status_of(enter_mode(o, MODE_STEP)); }
FMI_EXPORT fmi3_status FMI3(EnterContinuousTimeMode)(instance *o) { return fmi3_status_of(enter_mode(o, MODE_CONTINUOUS)); }
FMI_EXPORT fmi3_status FMI3(EnterConfigurationMode)(instance *o) { return fmi3_lacks(o); }
FMI_EXPORT fmi3_status FMI3(ExitConfigurationMode)(instance *o) { return fmi3_lacks(o); }
FMI_EXPORT fmi3_status FMI3(Terminate)(instance *o) {
  if (o->mode != MODE_FAILED) o->mode = MODE_OVER;
  return FMI3_OK;
}
FMI_EXPORT fmi3_status FMI3(Reset)(instance *o) { return fmi3_status_of(reset(o)); }

/* ---------------------------------------------------------------------------------------------------- values */

/* Of each type: variables one after the other, all cells of each. */
#define FMI3_GET(name, type, kind, as)                                                                                         \
  FMI_EXPORT fmi3_status FMI3(Get##name)(instance * o, const fmi3_reference *which, size_t count, type *to, size_t size) {     \
    for (size_t i = 0; i < count; ++i) {                                                                                       \
      const scenario_variable *const v = variable_of(o, which[i], kind);                                                       \
      if (!v) return FMI3_ERROR;                                                                                               \
      if ((size_t)v->cells > size) return fmi3_status_of(fails(o, "the variables have more values than there is room for"));   \
      if (!get_cells(o, v, o->read)) return FMI3_ERROR;                                                                        \
      for (int32_t k = 0; k < v->cells; ++k) *to++ = as(o->read[k]);                                                           \
      size -= (size_t)v->cells;                                                                                                \
    }                                                                                                                          \
    return FMI3_OK;                                                                                                            \
  }
#define FMI3_SET(name, type, kind, as)                                                                                         \
  FMI_EXPORT fmi3_status FMI3(Set##name)(instance * o, const fmi3_reference *which, size_t count, const type *from,            \
                                         size_t size) {                                                                        \
    for (size_t i = 0; i < count; ++i) {                                                                                       \
      const scenario_variable *const v = variable_of(o, which[i], kind);                                                       \
      if (!v) return FMI3_ERROR;                                                                                               \
      if ((size_t)v->cells > size) return fmi3_status_of(fails(o, "the variables have more values than are given"));           \
      for (int32_t k = 0; k < v->cells; ++k) o->read[k] as(*from++);                                                           \
      if (!set_cells(o, v, o->read)) return FMI3_ERROR;                                                                        \
      size -= (size_t)v->cells;                                                                                                \
    }                                                                                                                          \
    return FMI3_OK;                                                                                                            \
  }
#define AS_REAL(cell) (cell).r
#define AS_WHOLE(cell) (cell).i
#define AS_TRUTH(cell) (cell).i != 0
#define AS_TEXT(cell) scenario_text(o->s, (cell).i)
#define FROM_REAL(value) .r = (value)
#define FROM_WHOLE(value) .i = (value)
#define FROM_TRUTH(value) .i = (value) ? 1 : 0
#define FROM_TEXT(value) .i = scenario_intern(o->s, (value))
FMI3_GET(Float64, double, KIND_REAL, AS_REAL)
FMI3_SET(Float64, double, KIND_REAL, FROM_REAL)
FMI3_GET(Int64, int64_t, KIND_INTEGER, AS_WHOLE)
FMI3_SET(Int64, int64_t, KIND_INTEGER, FROM_WHOLE)
FMI3_GET(Boolean, bool, KIND_TRUTH, AS_TRUTH)
FMI3_SET(Boolean, bool, KIND_TRUTH, FROM_TRUTH)
FMI3_GET(String, const char *, KIND_TEXT, AS_TEXT)
FMI3_SET(String, char *const, KIND_TEXT, FROM_TEXT)

/* Types that no variable has. */
#define FMI3_NONE(name)                                                                                              \
  FMI_EXPORT fmi3_status FMI3(name)(instance * o, const fmi3_reference *which, size_t count, void *values, size_t size) { \
    (void)which;                                                                                                     \
    (void)values;                                                                                                    \
    (void)size;                                                                                                      \
    return count ? fmi3_status_of(fails(o, "the FMU has no variables of this type")) : FMI3_OK;                     \
  }
FMI3_NONE(GetFloat32)
FMI3_NONE(GetInt8)
FMI3_NONE(GetUInt8)
FMI3_NONE(GetInt16)
FMI3_NONE(GetUInt16)
FMI3_NONE(GetInt32)
FMI3_NONE(GetUInt32)
FMI3_NONE(GetUInt64)
FMI3_NONE(SetFloat32)
FMI3_NONE(SetInt8)
FMI3_NONE(SetUInt8)
FMI3_NONE(SetInt16)
FMI3_NONE(SetUInt16)
FMI3_NONE(SetInt32)
FMI3_NONE(SetUInt32)
FMI3_NONE(SetUInt64)
FMI_EXPORT fmi3_status FMI3(GetBinary)(instance *o, const fmi3_reference *which, size_t count, size_t *sizes, const uint8_t **to,
                                       size_t size) {
  (void)which, (void)sizes, (void)to, (void)size;
  return count ? fmi3_lacks(o) : FMI3_OK;
}
FMI_EXPORT fmi3_status FMI3(SetBinary)(instance *o, const fmi3_reference *which, size_t count, const size_t *sizes,
                                       const uint8_t *const *from, size_t size) {
  (void)which, (void)sizes, (void)from, (void)size;
  return count ? fmi3_lacks(o) : FMI3_OK;
}

/* ---------------------------------------------------------------------------------------------------- states */

FMI_EXPORT fmi3_status FMI3(GetFMUState)(instance *o, instance_state **state) { return fmi3_status_of(save(o, state)); }
FMI_EXPORT fmi3_status FMI3(SetFMUState)(instance *o, const instance_state *state) {
  return state ? fmi3_status_of(restore(o, state)) : FMI3_ERROR;
}
FMI_EXPORT fmi3_status FMI3(FreeFMUState)(instance *o, instance_state **state) {
  if (state) {
    state_free(o, *state);
    *state = 0;
  }
  return FMI3_OK;
}
FMI_EXPORT fmi3_status FMI3(SerializedFMUStateSize)(instance *o, const instance_state *state, size_t *size) {
  *size = 0;
  return fmi3_status_of(pack(o, state, 0, size));
}
FMI_EXPORT fmi3_status FMI3(SerializeFMUState)(instance *o, const instance_state *state, uint8_t *to, size_t size) {
  size_t needed = size;
  if (!pack(o, state, (char *)to, &needed)) return FMI3_ERROR;
  return needed <= size ? FMI3_OK : fmi3_status_of(fails(o, "there is not enough room for the state"));
}
FMI_EXPORT fmi3_status FMI3(DeserializeFMUState)(instance *o, const uint8_t *from, size_t size, instance_state **state) {
  return fmi3_status_of(unpack(o, (const char *)from, size, state));
}

/* ---------------------------------------------------------------------------------------------------- derivatives */

FMI_EXPORT fmi3_status FMI3(GetDirectionalDerivative)(instance *o, const fmi3_reference *unknowns, size_t unknown_count,
                                                      const fmi3_reference *knowns, size_t known_count, const double *seeds,
                                                      size_t seed_count, double *to, size_t size) {
  return fmi3_status_of(directional(o, unknowns, unknown_count, knowns, known_count, seeds, seed_count, to, size));
}
FMI_EXPORT fmi3_status FMI3(GetAdjointDerivative)(instance *o, const fmi3_reference *unknowns, size_t unknown_count,
                                                  const fmi3_reference *knowns, size_t known_count, const double *seeds,
                                                  size_t seed_count, double *to, size_t size) {
  (void)unknowns, (void)unknown_count, (void)knowns, (void)known_count, (void)seeds, (void)seed_count, (void)to, (void)size;
  return fmi3_lacks(o);
}
FMI_EXPORT fmi3_status FMI3(GetOutputDerivatives)(instance *o, const fmi3_reference *which, size_t count, const int32_t *orders,
                                                  double *to, size_t size) {
  for (size_t i = 0; i < count; ++i) {
    const scenario_variable *const v = variable_of(o, which[i], KIND_REAL);
    if (!v || (size_t)v->cells > size || !get_rate(o, v, orders[i], to)) return FMI3_ERROR;
    to += v->cells;
    size -= (size_t)v->cells;
  }
  return FMI3_OK;
}
FMI_EXPORT fmi3_status FMI3(GetNumberOfVariableDependencies)(instance *o, fmi3_reference which, size_t *to) {
  (void)which;
  *to = 0;
  return fmi3_lacks(o);
}
FMI_EXPORT fmi3_status FMI3(GetVariableDependencies)(instance *o, fmi3_reference which, size_t *elements, fmi3_reference *others,
                                                     size_t *places, int *kinds, size_t count) {
  (void)which, (void)elements, (void)others, (void)places, (void)kinds, (void)count;
  return fmi3_lacks(o);
}

/* ---------------------------------------------------------------------------------------------------- events */

FMI_EXPORT fmi3_status FMI3(EvaluateDiscreteStates)(instance *o) {
  (void)o;
  return FMI3_OK;
}
FMI_EXPORT fmi3_status FMI3(UpdateDiscreteStates)(instance *o, bool *again, bool *terminate, bool *nominals_changed,
                                                  bool *states_changed, bool *next_defined, double *next_time) {
  int changed = 0;
  double next = INFINITY;
  *again = *terminate = *nominals_changed = *states_changed = *next_defined = false;
  *next_time = 0.0;
  if (!update(o, &changed, &next)) return FMI3_ERROR;
  *states_changed = changed;
  *terminate = o->over != 0;
  *next_defined = next < INFINITY;
  if (*next_defined) *next_time = next;
  return FMI3_OK;
}

/* ---------------------------------------------------------------------------------------------------- co-simulation */

FMI_EXPORT fmi3_status FMI3(DoStep)(instance *o, double t, double length, bool no_prior, bool *event_needed, bool *terminate,
                                    bool *early_return, double *reached) {
  (void)no_prior;
  int event = 0;
  *event_needed = *terminate = *early_return = false;
  *reached = o->now;
  if (o->mode != MODE_STEP) return fmi3_status_of(fails(o, "steps are made in step mode, and not after a failure"));
  if (!step(o, t, length, o->early, &event)) return FMI3_ERROR;
  if (event && !o->event_mode && !happen(o)) return FMI3_ERROR;
  *event_needed = event && o->event_mode;
  *early_return = o->reached < t + length;
  *terminate = o->over && !*event_needed; /* after event mode, if it is used */
  *reached = o->reached;
  return FMI3_OK;
}
FMI_EXPORT fmi3_status FMI3(ActivateModelPartition)(instance *o, fmi3_reference clock, double t) {
  (void)clock, (void)t;
  return fmi3_lacks(o);
}

/* ---------------------------------------------------------------------------------------------------- model exchange */

FMI_EXPORT fmi3_status FMI3(CompletedIntegratorStep)(instance *o, bool no_prior, bool *event_mode, bool *terminate) {
  (void)no_prior;
  *event_mode = *terminate = false;
  return fmi3_status_of(equations_of(o) != 0);
}
FMI_EXPORT fmi3_status FMI3(SetTime)(instance *o, double t) { return fmi3_status_of(place(o, t, 0)); }
FMI_EXPORT fmi3_status FMI3(SetContinuousStates)(instance *o, const double *x, size_t count) {
  return fmi3_status_of(counts(o, count, 0) && place(o, o->now, x));
}
FMI_EXPORT fmi3_status FMI3(GetContinuousStateDerivatives)(instance *o, double *to, size_t count) {
  return fmi3_status_of(counts(o, count, 0) && continuous(o, RATES, to));
}
FMI_EXPORT fmi3_status FMI3(GetEventIndicators)(instance *o, double *to, size_t count) {
  return fmi3_status_of(counts(o, count, 1) && continuous(o, INDICATORS, to));
}
FMI_EXPORT fmi3_status FMI3(GetContinuousStates)(instance *o, double *to, size_t count) {
  return fmi3_status_of(counts(o, count, 0) && continuous(o, STATES, to));
}
FMI_EXPORT fmi3_status FMI3(GetNominalsOfContinuousStates)(instance *o, double *to, size_t count) {
  if (!counts(o, count, 0)) return FMI3_ERROR;
  for (size_t i = 0; i < count; ++i) to[i] = 1.0;
  return FMI3_OK;
}
FMI_EXPORT fmi3_status FMI3(GetNumberOfEventIndicators)(instance *o, size_t *to) {
  const scenario_equations *const e = equations_of(o);
  *to = e ? (size_t)e->indicators : 0;
  return fmi3_status_of(e != 0);
}
FMI_EXPORT fmi3_status FMI3(GetNumberOfContinuousStates)(instance *o, size_t *to) {
  *to = (size_t)o->d->state_count;
  return FMI3_OK;
}

/* ---------------------------------------------------------------------------------------------------- clocks: there are none */

FMI_EXPORT fmi3_status FMI3(GetClock)(instance *o, const fmi3_reference *which, size_t count, bool *to) {
  (void)which, (void)to;
  return count ? fmi3_lacks(o) : FMI3_OK;
}
FMI_EXPORT fmi3_status FMI3(SetClock)(instance *o, const fmi3_reference *which, size_t count, const bool *from) {
  (void)which, (void)from;
  return count ? fmi3_lacks(o) : FMI3_OK;
}
#define FMI3_CLOCK(name, first, second)                                                                               \
  FMI_EXPORT fmi3_status FMI3(name)(instance * o, const fmi3_reference *which, size_t count, first a, second b) {     \
    (void)which, (void)a, (void)b;                                                                                    \
    return count ? fmi3_lacks(o) : FMI3_OK;                                                                           \
  }
FMI3_CLOCK(GetIntervalDecimal, double *, int *)
FMI3_CLOCK(GetShiftFraction, uint64_t *, uint64_t *)
FMI3_CLOCK(SetIntervalFraction, const uint64_t *, const uint64_t *)
FMI3_CLOCK(SetShiftFraction, const uint64_t *, const uint64_t *)
FMI_EXPORT fmi3_status FMI3(GetIntervalFraction)(instance *o, const fmi3_reference *which, size_t count, uint64_t *counters,
                                                 uint64_t *resolutions, int *qualifiers) {
  (void)which, (void)counters, (void)resolutions, (void)qualifiers;
  return count ? fmi3_lacks(o) : FMI3_OK;
}
FMI_EXPORT fmi3_status FMI3(GetShiftDecimal)(instance *o, const fmi3_reference *which, size_t count, double *to) {
  (void)which, (void)to;
  return count ? fmi3_lacks(o) : FMI3_OK;
}
FMI_EXPORT fmi3_status FMI3(SetIntervalDecimal)(instance *o, const fmi3_reference *which, size_t count, const double *from) {
  (void)which, (void)from;
  return count ? fmi3_lacks(o) : FMI3_OK;
}
FMI_EXPORT fmi3_status FMI3(SetShiftDecimal)(instance *o, const fmi3_reference *which, size_t count, const double *from) {
  (void)which, (void)from;
  return count ? fmi3_lacks(o) : FMI3_OK;
}
