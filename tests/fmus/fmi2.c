/* A model of model.h as an FMU of FMI 2.0, for co-simulation and model exchange. */
#include "fmi2.h"

#include "instance.h"

typedef const fmi2ValueReference* Refs;

#define IT ((Instance*)c)

static fmi2Status complain(fmi2Component c, const char* call) {
  fmi2Logger logger = (fmi2Logger)IT->logger;
  if (logger)
    logger(IT->environment, IT->name, fmi2Error, "logStatusError", "%s refused: %d variables are there", call,
           model_count);
  return fmi2Error;
}

EXPORT const char* fmi2GetTypesPlatform(void) { return "default"; }
EXPORT const char* fmi2GetVersion(void) { return "2.0"; }
EXPORT fmi2Status fmi2SetDebugLogging(fmi2Component c, fmi2Boolean on, size_t n, const fmi2String* names) {
  return fmi2OK;
}

EXPORT fmi2Component fmi2Instantiate(fmi2String name, fmi2Type type, fmi2String guid, fmi2String resources,
                                     const fmi2CallbackFunctions* functions, fmi2Boolean visible, fmi2Boolean log) {
  Instance* one = instance_new(name, guid);
  if (one != NULL && functions != NULL) {
    one->logger = (void*)functions->logger;
    one->environment = functions->componentEnvironment;
  }
  return one;
}
EXPORT void fmi2FreeInstance(fmi2Component c) { free(c); }

EXPORT fmi2Status fmi2SetupExperiment(fmi2Component c, fmi2Boolean tolerant, fmi2Real tolerance, fmi2Real start,
                                      fmi2Boolean stops, fmi2Real stop) {
  IT->now.v[0] = start;
  return fmi2OK;
}
EXPORT fmi2Status fmi2EnterInitializationMode(fmi2Component c) { return c ? fmi2OK : fmi2Error; }
EXPORT fmi2Status fmi2ExitInitializationMode(fmi2Component c) { return c ? fmi2OK : fmi2Error; }
EXPORT fmi2Status fmi2Terminate(fmi2Component c) { return c ? fmi2OK : fmi2Error; }
EXPORT fmi2Status fmi2Reset(fmi2Component c) {
  memset(&IT->now, 0, sizeof(State));
  model_start(IT->now.v);
  return fmi2OK;
}

EXPORT fmi2Status fmi2GetReal(fmi2Component c, Refs refs, size_t n, fmi2Real* to) {
  return instance_get(IT, refs, n, to) ? fmi2OK : complain(c, "fmi2GetReal");
}
EXPORT fmi2Status fmi2SetReal(fmi2Component c, Refs refs, size_t n, const fmi2Real* from) {
  return instance_set(IT, refs, n, from) ? fmi2OK : complain(c, "fmi2SetReal");
}

/* These models have real variables only. */
#define NONE(Name, T)                                                                            \
  EXPORT fmi2Status fmi2Get##Name(fmi2Component c, Refs refs, size_t n, T* to) {                 \
    return n == 0 ? fmi2OK : complain(c, "fmi2Get" #Name);                                       \
  }                                                                                              \
  EXPORT fmi2Status fmi2Set##Name(fmi2Component c, Refs refs, size_t n, const T* from) {         \
    return n == 0 ? fmi2OK : complain(c, "fmi2Set" #Name);                                       \
  }
NONE(Integer, fmi2Integer)
NONE(Boolean, fmi2Boolean)
NONE(String, fmi2String)

EXPORT fmi2Status fmi2GetFMUstate(fmi2Component c, fmi2FMUstate* state) {
  if (*state == NULL) *state = malloc(sizeof(State));
  if (*state == NULL) return fmi2Error;
  memcpy(*state, &IT->now, sizeof(State));
  return fmi2OK;
}
EXPORT fmi2Status fmi2SetFMUstate(fmi2Component c, fmi2FMUstate state) {
  memcpy(&IT->now, state, sizeof(State));
  return fmi2OK;
}
EXPORT fmi2Status fmi2FreeFMUstate(fmi2Component c, fmi2FMUstate* state) {
  free(*state);
  *state = NULL;
  return fmi2OK;
}
EXPORT fmi2Status fmi2SerializedFMUstateSize(fmi2Component c, fmi2FMUstate state, size_t* size) {
  *size = sizeof(State);
  return fmi2OK;
}
EXPORT fmi2Status fmi2SerializeFMUstate(fmi2Component c, fmi2FMUstate state, fmi2Byte* to, size_t size) {
  if (size < sizeof(State)) return complain(c, "fmi2SerializeFMUstate");
  memcpy(to, state, sizeof(State));
  return fmi2OK;
}
EXPORT fmi2Status fmi2DeSerializeFMUstate(fmi2Component c, const fmi2Byte* from, size_t size, fmi2FMUstate* state) {
  if (size != sizeof(State)) return complain(c, "fmi2DeSerializeFMUstate");
  if (*state == NULL) *state = malloc(sizeof(State));
  if (*state == NULL) return fmi2Error;
  memcpy(*state, from, sizeof(State));
  return fmi2OK;
}

EXPORT fmi2Status fmi2GetDirectionalDerivative(fmi2Component c, Refs unknowns, size_t rows, Refs knowns,
                                               size_t columns, const fmi2Real* seed, fmi2Real* to) {
  size_t i, j;
  for (i = 0; i < rows; i++)
    for (to[i] = 0, j = 0; j < columns; j++)
      to[i] += model_partial(IT->now.v, (int)unknowns[i], (int)knowns[j]) * seed[j];
  return fmi2OK;
}

/* Co-simulation. */
EXPORT fmi2Status fmi2SetRealInputDerivatives(fmi2Component c, Refs refs, size_t n, const fmi2Integer* order,
                                              const fmi2Real* from) {
  size_t i;
  for (i = 0; i < n; i++) {
    if (!instance_can_set(refs[i]) || order[i] != 1) return complain(c, "fmi2SetRealInputDerivatives");
    IT->now.slope[refs[i]] = from[i];
  }
  return fmi2OK;
}
EXPORT fmi2Status fmi2GetRealOutputDerivatives(fmi2Component c, Refs refs, size_t n, const fmi2Integer* order,
                                               fmi2Real* to) {
  size_t i;
  for (i = 0; i < n; i++) {
    if (order[i] != 1) return complain(c, "fmi2GetRealOutputDerivatives");
    to[i] = instance_output_slope(IT, (int)refs[i]);
  }
  return fmi2OK;
}
EXPORT fmi2Status fmi2DoStep(fmi2Component c, fmi2Real t, fmi2Real step, fmi2Boolean final) {
  instance_advance(IT, t, step);
  return fmi2OK;
}
EXPORT fmi2Status fmi2CancelStep(fmi2Component c) { return complain(c, "fmi2CancelStep"); }
EXPORT fmi2Status fmi2GetRealStatus(fmi2Component c, fmi2StatusKind kind, fmi2Real* to) {
  if (kind != fmi2LastSuccessfulTime) return fmi2Discard;
  *to = IT->now.v[0];
  return fmi2OK;
}
#define NO_STATUS(Name, T)                                                                    \
  EXPORT fmi2Status fmi2Get##Name##Status(fmi2Component c, fmi2StatusKind kind, T* to) {      \
    return fmi2Discard;                                                                       \
  }
NO_STATUS(, fmi2Status)
NO_STATUS(Integer, fmi2Integer)
NO_STATUS(Boolean, fmi2Boolean)
NO_STATUS(String, fmi2String)

/* Model exchange. */
EXPORT fmi2Status fmi2EnterEventMode(fmi2Component c) { return c ? fmi2OK : fmi2Error; }
EXPORT fmi2Status fmi2NewDiscreteStates(fmi2Component c, fmi2EventInfo* info) {
  memset(info, 0, sizeof *info);
  return fmi2OK;
}
EXPORT fmi2Status fmi2EnterContinuousTimeMode(fmi2Component c) { return c ? fmi2OK : fmi2Error; }
EXPORT fmi2Status fmi2CompletedIntegratorStep(fmi2Component c, fmi2Boolean keeps, fmi2Boolean* event,
                                              fmi2Boolean* terminate) {
  *event = *terminate = 0;
  return fmi2OK;
}
EXPORT fmi2Status fmi2SetTime(fmi2Component c, fmi2Real t) {
  IT->now.v[0] = t;
  return fmi2OK;
}
EXPORT fmi2Status fmi2SetContinuousStates(fmi2Component c, const fmi2Real* x, size_t n) {
  size_t i;
  if (n != (size_t)model_states) return complain(c, "fmi2SetContinuousStates");
  for (i = 0; i < n; i++) IT->now.v[model_state[i]] = x[i];
  return fmi2OK;
}
static fmi2Status copy(fmi2Component c, const int* refs, fmi2Real* to, size_t n) {
  size_t i;
  if (n != (size_t)model_states) return complain(c, "a call for all states");
  model_update(IT->now.v);
  for (i = 0; i < n; i++) to[i] = IT->now.v[refs[i]];
  return fmi2OK;
}
EXPORT fmi2Status fmi2GetDerivatives(fmi2Component c, fmi2Real* dx, size_t n) { return copy(c, model_rate, dx, n); }
EXPORT fmi2Status fmi2GetContinuousStates(fmi2Component c, fmi2Real* x, size_t n) {
  return copy(c, model_state, x, n);
}
EXPORT fmi2Status fmi2GetEventIndicators(fmi2Component c, fmi2Real* z, size_t n) {
  return n == 0 ? fmi2OK : complain(c, "fmi2GetEventIndicators");
}
EXPORT fmi2Status fmi2GetNominalsOfContinuousStates(fmi2Component c, fmi2Real* to, size_t n) {
  size_t i;
  for (i = 0; i < n; i++) to[i] = 1;
  return fmi2OK;
}
