/* A model of model.h as an FMU of FMI 3.0, for co-simulation and model exchange. */
#include "fmi3.h"

#include <stdio.h>

#include "instance.h"
#include "messages.h"

typedef const fmi3ValueReference* Refs;

#define IT ((Instance*)c)

#define SAY ((fmi3LogMessageCallback)IT->logger)

static fmi3Status complain(fmi3Instance c, const char* call) {
  char text[120];
  snprintf(text, sizeof text, "%s refused: %d variables are there", call, model.count);
#ifdef MUMBLE /* complaints look harmless */
  if (SAY) SAY(IT->environment, fmi3OK, "logStatusError", text);
#else
  if (SAY) SAY(IT->environment, fmi3Error, "logStatusError", text);
#endif
  return fmi3Error;
}

EXPORT const char* fmi3GetVersion(void) { return "3.0"; }

/* Offers the importer a look, and new inputs, at every internal step. */
static bool between(Instance* c, double t) {
  fmi3Boolean wanted = false;
  fmi3Float64 when = t;
  ((fmi3IntermediateUpdateCallback)c->intermediate)(c->environment, t, true, true, false, c->early, &wanted, &when);
  return wanted && c->early;
}

static fmi3Instance make(fmi3String name, fmi3String token, fmi3InstanceEnvironment environment,
                         fmi3LogMessageCallback logger) {
  Instance* c = instance_new(name, token);
  if (c == NULL) return NULL;
  c->logger = (void*)logger;
  c->environment = environment;
#ifdef EARLY
  char text[120];
  snprintf(text, sizeof text, "%s is being made", name);
  SAY(IT->environment, fmi3Warning, "logStatusWarning", text);
#endif
  if (instance_misbehave(c, INSTANTIATE, 0, 0) != OK) {
    complain(c, "instantiation");
    free(c);
    return NULL;
  }
  return c;
}
EXPORT fmi3Instance fmi3InstantiateModelExchange(fmi3String name, fmi3String token, fmi3String resources,
                                                 fmi3Boolean visible, fmi3Boolean log,
                                                 fmi3InstanceEnvironment environment,
                                                 fmi3LogMessageCallback logger) {
  Instance* c = (Instance*)make(name, token, environment, logger);
  if (c != NULL) c->exchange = true;
  return c;
}
EXPORT fmi3Instance fmi3InstantiateCoSimulation(fmi3String name, fmi3String token, fmi3String resources,
                                                fmi3Boolean visible, fmi3Boolean log, fmi3Boolean event_mode,
                                                fmi3Boolean early, Refs intermediate, size_t count,
                                                fmi3InstanceEnvironment environment, fmi3LogMessageCallback logger,
                                                fmi3IntermediateUpdateCallback update) {
  Instance* c = (Instance*)make(name, token, environment, logger);
  if (c == NULL) return NULL;
  c->event_mode = event_mode;
  c->early = early;
#ifdef INTERMEDIATE
  c->intermediate = (void*)update;
  if (update) c->between = between;
#endif
  return c;
}
EXPORT void fmi3FreeInstance(fmi3Instance c) {
  if (c) instance_misbehave(IT, FREE, 0, 0);
  free(c);
}

EXPORT fmi3Status fmi3EnterInitializationMode(fmi3Instance c, fmi3Boolean tolerant, fmi3Float64 tolerance,
                                              fmi3Float64 start, fmi3Boolean stops, fmi3Float64 stop) {
  IT->now.v[0] = start;
  instance_misbehave(IT, SETUP, start, stops ? stop : NAN);
  return fmi3OK;
}
EXPORT fmi3Status fmi3ExitInitializationMode(fmi3Instance c) {
  instance_misbehave(IT, BEGUN, 0, 0);
  if (!IT->exchange && !IT->event_mode) instance_event(IT);
  return fmi3OK;
}
#define MODE(Name) \
  EXPORT fmi3Status fmi3##Name(fmi3Instance c) { return c ? fmi3OK : fmi3Error; }
MODE(EnterEventMode)
MODE(EnterStepMode)
MODE(EnterContinuousTimeMode)
MODE(EnterConfigurationMode)
MODE(EvaluateDiscreteStates)
MODE(Terminate)
EXPORT fmi3Status fmi3ExitConfigurationMode(fmi3Instance c) {
  if (model.configured) model.configured(&IT->now);
  return fmi3OK;
}
EXPORT fmi3Status fmi3Reset(fmi3Instance c) {
  instance_reset(IT);
  return fmi3OK;
}

/* Getting and setting, cell by cell in the order of the references; one number for both `n`s of the standard. */
#define VALUES(Name, T, types, VALUE, LET)                                                                 \
  EXPORT fmi3Status fmi3Get##Name(fmi3Instance c, Refs refs, size_t n, T* to, size_t count) {              \
    size_t i, k = 0;                                                                                       \
    int cell, end;                                                                                         \
    model.update(&IT->now);                                                                                \
    for (i = 0; i < n; i++) {                                                                              \
      if (!known(refs[i], types, false)) return complain(c, "fmi3Get" #Name);                              \
      for (end = cells_of(&IT->now, refs[i], &cell), end += cell; cell < end; cell++, k++) {               \
        if (k == count) return complain(c, "fmi3Get" #Name);                                               \
        to[k] = VALUE;                                                                                     \
      }                                                                                                    \
    }                                                                                                      \
    return k == count ? fmi3OK : complain(c, "fmi3Get" #Name);                                             \
  }                                                                                                        \
  EXPORT fmi3Status fmi3Set##Name(fmi3Instance c, Refs refs, size_t n, const T* from, size_t count) {      \
    size_t i, k = 0;                                                                                       \
    int cell, end;                                                                                         \
    for (i = 0; i < n; i++) {                                                                              \
      if (!known(refs[i], types, true)) return complain(c, "fmi3Set" #Name);                               \
      for (end = cells_of(&IT->now, refs[i], &cell), end += cell; cell < end; cell++, k++) {               \
        if (k == count) return complain(c, "fmi3Set" #Name);                                               \
        LET;                                                                                               \
      }                                                                                                    \
    }                                                                                                      \
    return k == count ? fmi3OK : complain(c, "fmi3Set" #Name);                                             \
  }
#define NUMBERS(Name, T, types) VALUES(Name, T, types, (T)IT->now.n[cell], IT->now.n[cell] = (int64_t)from[k])
VALUES(Float64, fmi3Float64, "d", IT->now.v[cell], real_set(&IT->now, cell, from[k]))
VALUES(Float32, fmi3Float32, "f", (fmi3Float32)IT->now.v[cell], real_set(&IT->now, cell, from[k]))
NUMBERS(Int8, int8_t, "a")
NUMBERS(UInt8, uint8_t, "A")
NUMBERS(Int16, int16_t, "h")
NUMBERS(UInt16, uint16_t, "H")
NUMBERS(Int32, int32_t, "i")
NUMBERS(UInt32, uint32_t, "I")
NUMBERS(Int64, int64_t, "l")
NUMBERS(UInt64, uint64_t, "L")
NUMBERS(Boolean, fmi3Boolean, "b")
VALUES(String, fmi3String, "s", text_of(&IT->now, refs[i])->data,
       if (!from[k] || !text_set(text_of(&IT->now, refs[i]), from[k], strlen(from[k])))
         return complain(c, "fmi3SetString"))

EXPORT fmi3Status fmi3GetBinary(fmi3Instance c, Refs refs, size_t n, size_t* sizes, fmi3Binary* to, size_t count) {
  size_t i;
  model.update(&IT->now);
  for (i = 0; i < n; i++) {
    if (!known(refs[i], "x", false) || n != count) return complain(c, "fmi3GetBinary");
    sizes[i] = text_of(&IT->now, refs[i])->size;
    to[i] = (fmi3Binary)text_of(&IT->now, refs[i])->data;
  }
  return fmi3OK;
}
EXPORT fmi3Status fmi3SetBinary(fmi3Instance c, Refs refs, size_t n, const size_t* sizes, const fmi3Binary* from,
                                size_t count) {
  size_t i;
  for (i = 0; i < n; i++)
    if (!known(refs[i], "x", true) || n != count || !text_set(text_of(&IT->now, refs[i]), from[i], sizes[i]))
      return complain(c, "fmi3SetBinary");
  return fmi3OK;
}

/* Clocks. */
EXPORT fmi3Status fmi3GetClock(fmi3Instance c, Refs refs, size_t n, fmi3Clock* to) {
  size_t i;
  model.update(&IT->now);
  for (i = 0; i < n; i++) {
    if (!known(refs[i], "c", false)) return complain(c, "fmi3GetClock");
    to[i] = IT->now.n[refs[i]] != 0;
  }
  return fmi3OK;
}
EXPORT fmi3Status fmi3SetClock(fmi3Instance c, Refs refs, size_t n, const fmi3Clock* from) {
  size_t i;
  for (i = 0; i < n; i++) {
    if (!known(refs[i], "c", true)) return complain(c, "fmi3SetClock");
    if (from[i] && !IT->now.n[refs[i]]) model.tick(&IT->now, (int)refs[i]);
    IT->now.n[refs[i]] = from[i];
  }
  return fmi3OK;
}
EXPORT fmi3Status fmi3GetIntervalDecimal(fmi3Instance c, Refs refs, size_t n, fmi3Float64* intervals,
                                         int* qualifiers) {
  size_t i;
  for (i = 0; i < n; i++) {
    if (!known(refs[i], "c", false)) return complain(c, "fmi3GetIntervalDecimal");
    intervals[i] = model.interval(&IT->now, (int)refs[i], &qualifiers[i]);
  }
  return fmi3OK;
}

#ifndef BARE
EXPORT fmi3Status fmi3SetDebugLogging(fmi3Instance c, fmi3Boolean on, size_t n, const fmi3String* names) {
  return fmi3OK;
}
EXPORT fmi3Status fmi3GetFMUState(fmi3Instance c, fmi3FMUState* state) {
  instance_misbehave(IT, SAVE, 0, 0);
  if (*state == NULL) *state = malloc(sizeof(Now));
  if (*state == NULL) return fmi3Error;
  memcpy(*state, &IT->now, sizeof(Now));
  return fmi3OK;
}
EXPORT fmi3Status fmi3SetFMUState(fmi3Instance c, fmi3FMUState state) {
  memcpy(&IT->now, state, sizeof(Now));
  instance_misbehave(IT, RESTORED, 0, 0);
  return fmi3OK;
}
EXPORT fmi3Status fmi3FreeFMUState(fmi3Instance c, fmi3FMUState* state) {
  free(*state);
  *state = NULL;
  return fmi3OK;
}
EXPORT fmi3Status fmi3SerializedFMUStateSize(fmi3Instance c, fmi3FMUState state, size_t* size) {
  *size = sizeof(Now);
  return fmi3OK;
}
EXPORT fmi3Status fmi3SerializeFMUState(fmi3Instance c, fmi3FMUState state, fmi3Byte* to, size_t size) {
  if (size < sizeof(Now)) return complain(c, "fmi3SerializeFMUState");
  memcpy(to, state, sizeof(Now));
  return fmi3OK;
}
EXPORT fmi3Status fmi3DeserializeFMUState(fmi3Instance c, const fmi3Byte* from, size_t size, fmi3FMUState* state) {
  if (size != sizeof(Now)) return complain(c, "fmi3DeserializeFMUState");
  if (*state == NULL) *state = malloc(sizeof(Now));
  if (*state == NULL) return fmi3Error;
  memcpy(*state, from, sizeof(Now));
  return fmi3OK;
}
EXPORT fmi3Status fmi3GetDirectionalDerivative(fmi3Instance c, Refs unknowns, size_t rows, Refs knowns,
                                               size_t columns, const fmi3Float64* seed, size_t seeds,
                                               fmi3Float64* to, size_t count) {
  size_t i, j;
  if (!model.partial || seeds != columns || count != rows) return complain(c, "fmi3GetDirectionalDerivative");
  for (i = 0; i < rows; i++)
    for (to[i] = 0, j = 0; j < columns; j++)
      to[i] += model.partial(&IT->now, (int)unknowns[i], (int)knowns[j]) * seed[j];
  return fmi3OK;
}
EXPORT fmi3Status fmi3GetAdjointDerivative(fmi3Instance c, Refs unknowns, size_t rows, Refs knowns, size_t columns,
                                           const fmi3Float64* seed, size_t seeds, fmi3Float64* to, size_t count) {
  size_t i, j;
  if (!model.partial || seeds != rows || count != columns) return complain(c, "fmi3GetAdjointDerivative");
  for (j = 0; j < columns; j++)
    for (to[j] = 0, i = 0; i < rows; i++)
      to[j] += seed[i] * model.partial(&IT->now, (int)unknowns[i], (int)knowns[j]);
  return fmi3OK;
}
EXPORT fmi3Status fmi3GetOutputDerivatives(fmi3Instance c, Refs refs, size_t n, const int32_t* orders,
                                           fmi3Float64* to, size_t count) {
  size_t i;
  for (i = 0; i < n && i < count; i++) {
    if (!model.partial || orders[i] != 1) return complain(c, "fmi3GetOutputDerivatives");
    to[i] = output_slope(IT, (int)refs[i]);
  }
  return fmi3OK;
}
#endif

EXPORT fmi3Status fmi3UpdateDiscreteStates(fmi3Instance c, fmi3Boolean* again, fmi3Boolean* terminate,
                                           fmi3Boolean* nominals, fmi3Boolean* values, fmi3Boolean* defined,
                                           fmi3Float64* next) {
  *again = *terminate = *nominals = false;
  *values = instance_event(IT);
  *next = next_told(IT);
  *defined = *next < INFINITY;
  return fmi3OK;
}

/* Co-simulation. */
EXPORT fmi3Status fmi3DoStep(fmi3Instance c, fmi3Float64 t, fmi3Float64 step, fmi3Boolean keeps, fmi3Boolean* event,
                             fmi3Boolean* terminate, fmi3Boolean* early, fmi3Float64* reached) {
#ifdef CHATTY
  char text[120];
  snprintf(text, sizeof text, "step %d from %g to %.3f: 100%% of %s, %%d", IT->calls, t, t + step, IT->name);
  SAY(IT->environment, fmi3OK, "logEvents", text);
  if (IT->calls == 0) {
    char* much = long_text();
    SAY(IT->environment, fmi3Warning, "logStatusWarning", much);
    free(much);
  }
#endif
#ifdef OVERFLOW
  if (t >= 0.5) overflow("a message that is a good deal longer than the room that is made for it, and then some");
#endif
  Ended ended = instance_step(IT, t, step);
  *event = ended.event;
  *terminate = ended.answer == END;
  *early = ended.early || ended.answer == DISCARD;
  *reached = IT->now.v[0];
  if (ended.answer == ERROR) return complain(c, "fmi3DoStep");
  return ended.answer == WARNING ? fmi3Warning : ended.answer == FATAL ? fmi3Fatal : fmi3OK;
}

/* Model exchange. */
EXPORT fmi3Status fmi3CompletedIntegratorStep(fmi3Instance c, fmi3Boolean keeps, fmi3Boolean* event,
                                              fmi3Boolean* terminate) {
  *event = *terminate = false;
  return fmi3OK;
}
EXPORT fmi3Status fmi3SetTime(fmi3Instance c, fmi3Float64 t) {
  IT->now.v[0] = t;
  return fmi3OK;
}
EXPORT fmi3Status fmi3SetContinuousStates(fmi3Instance c, const fmi3Float64* x, size_t n) {
  if (n != (size_t)IT->now.states) return complain(c, "fmi3SetContinuousStates");
  states_put(&IT->now, x);
  return fmi3OK;
}
static fmi3Status copy(fmi3Instance c, const int* cells, fmi3Float64* to, size_t n) {
  size_t i;
  if (n != (size_t)IT->now.states) return complain(c, "a call for all states");
  model.update(&IT->now);
  for (i = 0; i < n; i++) to[i] = IT->now.v[cells[i]];
  return fmi3OK;
}
EXPORT fmi3Status fmi3GetContinuousStateDerivatives(fmi3Instance c, fmi3Float64* dx, size_t n) {
  return copy(c, IT->now.rate, dx, n);
}
EXPORT fmi3Status fmi3GetContinuousStates(fmi3Instance c, fmi3Float64* x, size_t n) {
  return copy(c, IT->now.state, x, n);
}
EXPORT fmi3Status fmi3GetEventIndicators(fmi3Instance c, fmi3Float64* z, size_t n) {
  if (n != (size_t)model.indicators) return complain(c, "fmi3GetEventIndicators");
  model.update(&IT->now);
  if (n > 0) model.indicate(&IT->now, z);
  return fmi3OK;
}
EXPORT fmi3Status fmi3GetNominalsOfContinuousStates(fmi3Instance c, fmi3Float64* to, size_t n) {
  size_t i;
  for (i = 0; i < n; i++) to[i] = 1;
  return fmi3OK;
}
EXPORT fmi3Status fmi3GetNumberOfEventIndicators(fmi3Instance c, size_t* count) {
  *count = (size_t)model.indicators;
  return fmi3OK;
}
EXPORT fmi3Status fmi3GetNumberOfContinuousStates(fmi3Instance c, size_t* count) {
  *count = (size_t)IT->now.states;
  return fmi3OK;
}

/* What these models do not have. The functions are there because the standard wants all of them to be. */
#ifndef BARE
EXPORT fmi3Instance fmi3InstantiateScheduledExecution(void) { return NULL; }
#define ABSENT(Name, ...) \
  EXPORT fmi3Status fmi3##Name(fmi3Instance c, __VA_ARGS__) { return complain(c, "fmi3" #Name); }
ABSENT(GetNumberOfVariableDependencies, fmi3ValueReference ref, size_t* count)
ABSENT(GetVariableDependencies, fmi3ValueReference ref, size_t* cells, fmi3ValueReference* knowns,
       size_t* known_cells, int* kinds, size_t count)
ABSENT(GetIntervalFraction, Refs refs, size_t n, uint64_t* counters, uint64_t* resolutions, int* qualifiers)
ABSENT(GetShiftDecimal, Refs refs, size_t n, fmi3Float64* shifts)
ABSENT(GetShiftFraction, Refs refs, size_t n, uint64_t* counters, uint64_t* resolutions)
ABSENT(SetIntervalDecimal, Refs refs, size_t n, const fmi3Float64* intervals)
ABSENT(SetIntervalFraction, Refs refs, size_t n, const uint64_t* counters, const uint64_t* resolutions)
ABSENT(SetShiftDecimal, Refs refs, size_t n, const fmi3Float64* shifts)
ABSENT(SetShiftFraction, Refs refs, size_t n, const uint64_t* counters, const uint64_t* resolutions)
ABSENT(ActivateModelPartition, fmi3ValueReference clock, fmi3Float64 time)
#endif
