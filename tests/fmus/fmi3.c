/* A model of model.h as an FMU of FMI 3.0, for co-simulation and model exchange. */
#include "fmi3.h"

#include <stdio.h>

#include "instance.h"

typedef const fmi3ValueReference* Refs;

#define IT ((Instance*)c)

static fmi3Status complain(fmi3Instance c, const char* call) {
  fmi3LogMessageCallback logger = (fmi3LogMessageCallback)IT->logger;
  char text[120];
  snprintf(text, sizeof text, "%s refused: %d variables are there", call, model_count);
  if (logger) logger(IT->environment, fmi3Error, "logStatusError", text);
  return fmi3Error;
}

EXPORT const char* fmi3GetVersion(void) { return "3.0"; }
EXPORT fmi3Status fmi3SetDebugLogging(fmi3Instance c, fmi3Boolean on, size_t n, const fmi3String* names) {
  return fmi3OK;
}

static fmi3Instance make(fmi3String name, fmi3String token, fmi3InstanceEnvironment environment,
                         fmi3LogMessageCallback logger) {
  Instance* one = instance_new(name, token);
  if (one != NULL) {
    one->logger = (void*)logger;
    one->environment = environment;
  }
  return one;
}
EXPORT fmi3Instance fmi3InstantiateModelExchange(fmi3String name, fmi3String token, fmi3String resources,
                                                 fmi3Boolean visible, fmi3Boolean log,
                                                 fmi3InstanceEnvironment environment,
                                                 fmi3LogMessageCallback logger) {
  return make(name, token, environment, logger);
}
EXPORT fmi3Instance fmi3InstantiateCoSimulation(fmi3String name, fmi3String token, fmi3String resources,
                                                fmi3Boolean visible, fmi3Boolean log, fmi3Boolean event_mode,
                                                fmi3Boolean early, Refs intermediate, size_t count,
                                                fmi3InstanceEnvironment environment, fmi3LogMessageCallback logger,
                                                fmi3IntermediateUpdateCallback update) {
  return make(name, token, environment, logger);
}
EXPORT fmi3Instance fmi3InstantiateScheduledExecution(void) { return NULL; }
EXPORT void fmi3FreeInstance(fmi3Instance c) { free(c); }

EXPORT fmi3Status fmi3EnterInitializationMode(fmi3Instance c, fmi3Boolean tolerant, fmi3Float64 tolerance,
                                              fmi3Float64 start, fmi3Boolean stops, fmi3Float64 stop) {
  IT->now.v[0] = start;
  return fmi3OK;
}
#define MODE(Name) \
  EXPORT fmi3Status fmi3##Name(fmi3Instance c) { return c ? fmi3OK : fmi3Error; }
MODE(ExitInitializationMode)
MODE(EnterEventMode)
MODE(EnterStepMode)
MODE(EnterContinuousTimeMode)
MODE(EnterConfigurationMode)
MODE(ExitConfigurationMode)
MODE(EvaluateDiscreteStates)
MODE(Terminate)
EXPORT fmi3Status fmi3Reset(fmi3Instance c) {
  memset(&IT->now, 0, sizeof(State));
  model_start(IT->now.v);
  return fmi3OK;
}

EXPORT fmi3Status fmi3GetFloat64(fmi3Instance c, Refs refs, size_t n, fmi3Float64* to, size_t count) {
  return n == count && instance_get(IT, refs, n, to) ? fmi3OK : complain(c, "fmi3GetFloat64");
}
EXPORT fmi3Status fmi3SetFloat64(fmi3Instance c, Refs refs, size_t n, const fmi3Float64* from, size_t count) {
  return n == count && instance_set(IT, refs, n, from) ? fmi3OK : complain(c, "fmi3SetFloat64");
}

/* These models have real variables of 64 bits only. */
#define NONE(Name, T)                                                                                      \
  EXPORT fmi3Status fmi3Get##Name(fmi3Instance c, Refs refs, size_t n, T* to, size_t count) {              \
    return n == 0 ? fmi3OK : complain(c, "fmi3Get" #Name);                                                 \
  }                                                                                                        \
  EXPORT fmi3Status fmi3Set##Name(fmi3Instance c, Refs refs, size_t n, const T* from, size_t count) {      \
    return n == 0 ? fmi3OK : complain(c, "fmi3Set" #Name);                                                 \
  }
NONE(Float32, fmi3Float32)
NONE(Int8, int8_t)
NONE(UInt8, uint8_t)
NONE(Int16, int16_t)
NONE(UInt16, uint16_t)
NONE(Int32, int32_t)
NONE(UInt32, uint32_t)
NONE(Int64, int64_t)
NONE(UInt64, uint64_t)
NONE(Boolean, fmi3Boolean)
NONE(String, fmi3String)

EXPORT fmi3Status fmi3GetFMUState(fmi3Instance c, fmi3FMUState* state) {
  if (*state == NULL) *state = malloc(sizeof(State));
  if (*state == NULL) return fmi3Error;
  memcpy(*state, &IT->now, sizeof(State));
  return fmi3OK;
}
EXPORT fmi3Status fmi3SetFMUState(fmi3Instance c, fmi3FMUState state) {
  memcpy(&IT->now, state, sizeof(State));
  return fmi3OK;
}
EXPORT fmi3Status fmi3FreeFMUState(fmi3Instance c, fmi3FMUState* state) {
  free(*state);
  *state = NULL;
  return fmi3OK;
}
EXPORT fmi3Status fmi3SerializedFMUStateSize(fmi3Instance c, fmi3FMUState state, size_t* size) {
  *size = sizeof(State);
  return fmi3OK;
}
EXPORT fmi3Status fmi3SerializeFMUState(fmi3Instance c, fmi3FMUState state, fmi3Byte* to, size_t size) {
  if (size < sizeof(State)) return complain(c, "fmi3SerializeFMUState");
  memcpy(to, state, sizeof(State));
  return fmi3OK;
}
EXPORT fmi3Status fmi3DeserializeFMUState(fmi3Instance c, const fmi3Byte* from, size_t size, fmi3FMUState* state) {
  if (size != sizeof(State)) return complain(c, "fmi3DeserializeFMUState");
  if (*state == NULL) *state = malloc(sizeof(State));
  if (*state == NULL) return fmi3Error;
  memcpy(*state, from, sizeof(State));
  return fmi3OK;
}

EXPORT fmi3Status fmi3GetDirectionalDerivative(fmi3Instance c, Refs unknowns, size_t rows, Refs knowns,
                                               size_t columns, const fmi3Float64* seed, size_t seeds,
                                               fmi3Float64* to, size_t count) {
  size_t i, j;
  if (seeds != columns || count != rows) return complain(c, "fmi3GetDirectionalDerivative");
  for (i = 0; i < rows; i++)
    for (to[i] = 0, j = 0; j < columns; j++)
      to[i] += model_partial(IT->now.v, (int)unknowns[i], (int)knowns[j]) * seed[j];
  return fmi3OK;
}
EXPORT fmi3Status fmi3GetAdjointDerivative(fmi3Instance c, Refs unknowns, size_t rows, Refs knowns, size_t columns,
                                           const fmi3Float64* seed, size_t seeds, fmi3Float64* to, size_t count) {
  size_t i, j;
  if (seeds != rows || count != columns) return complain(c, "fmi3GetAdjointDerivative");
  for (j = 0; j < columns; j++)
    for (to[j] = 0, i = 0; i < rows; i++)
      to[j] += seed[i] * model_partial(IT->now.v, (int)unknowns[i], (int)knowns[j]);
  return fmi3OK;
}

EXPORT fmi3Status fmi3UpdateDiscreteStates(fmi3Instance c, fmi3Boolean* again, fmi3Boolean* terminate,
                                           fmi3Boolean* nominals, fmi3Boolean* values, fmi3Boolean* defined,
                                           fmi3Float64* next) {
  *again = *terminate = *nominals = *values = *defined = false;
  *next = 0;
  return fmi3OK;
}

/* Co-simulation. */
EXPORT fmi3Status fmi3GetOutputDerivatives(fmi3Instance c, Refs refs, size_t n, const int32_t* orders,
                                           fmi3Float64* to, size_t count) {
  size_t i;
  for (i = 0; i < n && i < count; i++) {
    if (orders[i] != 1) return complain(c, "fmi3GetOutputDerivatives");
    to[i] = instance_output_slope(IT, (int)refs[i]);
  }
  return fmi3OK;
}
EXPORT fmi3Status fmi3DoStep(fmi3Instance c, fmi3Float64 t, fmi3Float64 step, fmi3Boolean keeps, fmi3Boolean* event,
                             fmi3Boolean* terminate, fmi3Boolean* early, fmi3Float64* reached) {
  instance_advance(IT, t, step);
  *event = *terminate = *early = false;
  *reached = IT->now.v[0];
  return fmi3OK;
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
  size_t i;
  if (n != (size_t)model_states) return complain(c, "fmi3SetContinuousStates");
  for (i = 0; i < n; i++) IT->now.v[model_state[i]] = x[i];
  return fmi3OK;
}
static fmi3Status copy(fmi3Instance c, const int* refs, fmi3Float64* to, size_t n) {
  size_t i;
  if (n != (size_t)model_states) return complain(c, "a call for all states");
  model_update(IT->now.v);
  for (i = 0; i < n; i++) to[i] = IT->now.v[refs[i]];
  return fmi3OK;
}
EXPORT fmi3Status fmi3GetContinuousStateDerivatives(fmi3Instance c, fmi3Float64* dx, size_t n) {
  return copy(c, model_rate, dx, n);
}
EXPORT fmi3Status fmi3GetContinuousStates(fmi3Instance c, fmi3Float64* x, size_t n) {
  return copy(c, model_state, x, n);
}
EXPORT fmi3Status fmi3GetEventIndicators(fmi3Instance c, fmi3Float64* z, size_t n) {
  return n == 0 ? fmi3OK : complain(c, "fmi3GetEventIndicators");
}
EXPORT fmi3Status fmi3GetNominalsOfContinuousStates(fmi3Instance c, fmi3Float64* to, size_t n) {
  size_t i;
  for (i = 0; i < n; i++) to[i] = 1;
  return fmi3OK;
}
EXPORT fmi3Status fmi3GetNumberOfEventIndicators(fmi3Instance c, size_t* count) {
  *count = 0;
  return fmi3OK;
}
EXPORT fmi3Status fmi3GetNumberOfContinuousStates(fmi3Instance c, size_t* count) {
  *count = (size_t)model_states;
  return fmi3OK;
}

/* What these models do not have. The functions are there because the standard wants all of them to be. */
#define ABSENT(Name, ...) \
  EXPORT fmi3Status fmi3##Name(fmi3Instance c, __VA_ARGS__) { return complain(c, "fmi3" #Name); }
ABSENT(GetBinary, Refs refs, size_t n, size_t* sizes, fmi3Binary* to, size_t count)
ABSENT(SetBinary, Refs refs, size_t n, const size_t* sizes, const fmi3Binary* from, size_t count)
ABSENT(GetClock, Refs refs, size_t n, fmi3Clock* to)
ABSENT(SetClock, Refs refs, size_t n, const fmi3Clock* from)
ABSENT(GetNumberOfVariableDependencies, fmi3ValueReference ref, size_t* count)
ABSENT(GetVariableDependencies, fmi3ValueReference ref, size_t* cells, fmi3ValueReference* knowns,
       size_t* known_cells, int* kinds, size_t count)
ABSENT(GetIntervalDecimal, Refs refs, size_t n, fmi3Float64* intervals, int* qualifiers)
ABSENT(GetIntervalFraction, Refs refs, size_t n, uint64_t* counters, uint64_t* resolutions, int* qualifiers)
ABSENT(GetShiftDecimal, Refs refs, size_t n, fmi3Float64* shifts)
ABSENT(GetShiftFraction, Refs refs, size_t n, uint64_t* counters, uint64_t* resolutions)
ABSENT(SetIntervalDecimal, Refs refs, size_t n, const fmi3Float64* intervals)
ABSENT(SetIntervalFraction, Refs refs, size_t n, const uint64_t* counters, const uint64_t* resolutions)
ABSENT(SetShiftDecimal, Refs refs, size_t n, const fmi3Float64* shifts)
ABSENT(SetShiftFraction, Refs refs, size_t n, const uint64_t* counters, const uint64_t* resolutions)
ABSENT(ActivateModelPartition, fmi3ValueReference clock, fmi3Float64 time)
