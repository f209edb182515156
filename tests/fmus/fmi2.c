/* A model of model.h as an FMU of FMI 2.0, for co-simulation and model exchange. */
#include "fmi2.h"

#include "instance.h"
#include "messages.h"

typedef const fmi2ValueReference* Refs;

#ifdef MUMBLE /* complaints look harmless */
#define MUMBLED fmi2OK
#else
#define MUMBLED fmi2Error
#endif
#define IT ((Instance*)c)
#define SAY ((fmi2Logger)IT->logger)

static fmi2Status complain(fmi2Component c, const char* call) {
  if (SAY)
    SAY(IT->environment, IT->name, MUMBLED, "logStatusError", "%s refused: %d variables are there", call,
        model.count);
  return fmi2Error;
}

static fmi2Status answer(fmi2Component c, Answer given) {
  if (given == ERROR) return complain(c, "the call");
  if (given == END) IT->asked_to_end = true;
  return given == END ? fmi2Discard : (fmi2Status)given;
}

EXPORT const char* fmi2GetTypesPlatform(void) { return "default"; }
EXPORT const char* fmi2GetVersion(void) { return "2.0"; }

EXPORT fmi2Component fmi2Instantiate(fmi2String name, fmi2Type type, fmi2String guid, fmi2String resources,
                                     const fmi2CallbackFunctions* functions, fmi2Boolean visible, fmi2Boolean log) {
  Instance* c = instance_new(name, guid);
  if (c == NULL) return NULL;
  c->exchange = type == fmi2ModelExchange;
  if (functions != NULL) {
    c->logger = (void*)functions->logger;
    c->environment = functions->componentEnvironment;
  }
#ifdef EARLY
  SAY(IT->environment, IT->name, fmi2Warning, "logStatusWarning", "%s is being made", name);
#endif
  if (instance_misbehave(c, INSTANTIATE, 0, 0) != OK) {
    complain(c, "fmi2Instantiate");
    free(c);
    return NULL;
  }
  return c;
}
EXPORT void fmi2FreeInstance(fmi2Component c) {
  if (c) instance_misbehave(IT, FREE, 0, 0);
  free(c);
}

EXPORT fmi2Status fmi2SetupExperiment(fmi2Component c, fmi2Boolean tolerant, fmi2Real tolerance, fmi2Real start,
                                      fmi2Boolean stops, fmi2Real stop) {
  IT->now.v[0] = start;
  return answer(c, instance_misbehave(IT, SETUP, start, stops ? stop : NAN));
}
EXPORT fmi2Status fmi2EnterInitializationMode(fmi2Component c) { return c ? fmi2OK : fmi2Error; }
EXPORT fmi2Status fmi2ExitInitializationMode(fmi2Component c) {
  instance_misbehave(IT, BEGUN, 0, 0);
  if (!IT->exchange) instance_event(IT);
  return fmi2OK;
}
EXPORT fmi2Status fmi2Terminate(fmi2Component c) { return c ? fmi2OK : fmi2Error; }
EXPORT fmi2Status fmi2Reset(fmi2Component c) {
#ifndef RESET_LIES
  instance_reset(IT);
#endif
  return fmi2OK;
}

/* Getting and setting; LET puts `from[i]` into its place. */
#define VALUES(Name, T, types, VALUE, LET)                                                      \
  EXPORT fmi2Status fmi2Get##Name(fmi2Component c, Refs refs, size_t n, T* to) {                \
    size_t i;                                                                                   \
    model.update(&IT->now);                                                                     \
    for (i = 0; i < n; i++) {                                                                   \
      if (!known(refs[i], types, false)) return complain(c, "fmi2Get" #Name);                   \
      to[i] = VALUE;                                                                            \
    }                                                                                           \
    return fmi2OK;                                                                              \
  }                                                                                             \
  EXPORT fmi2Status fmi2Set##Name(fmi2Component c, Refs refs, size_t n, const T* from) {        \
    size_t i;                                                                                   \
    for (i = 0; i < n; i++) {                                                                   \
      if (!known(refs[i], types, true)) return complain(c, "fmi2Set" #Name);                    \
      LET;                                                                                      \
    }                                                                                           \
    return fmi2OK;                                                                              \
  }
VALUES(Real, fmi2Real, "d", IT->now.v[refs[i]], real_set(&IT->now, (int)refs[i], from[i]))
VALUES(Integer, fmi2Integer, "il", (fmi2Integer)IT->now.n[refs[i]], IT->now.n[refs[i]] = from[i])
VALUES(Boolean, fmi2Boolean, "b", IT->now.n[refs[i]] != 0, IT->now.n[refs[i]] = from[i] != 0)
VALUES(String, fmi2String, "s", text_of(&IT->now, refs[i])->data,
       if (!from[i] || !text_set(text_of(&IT->now, refs[i]), from[i], strlen(from[i])))
         return complain(c, "fmi2SetString"))

#ifndef BARE
EXPORT fmi2Status fmi2SetDebugLogging(fmi2Component c, fmi2Boolean on, size_t n, const fmi2String* names) {
  return fmi2OK;
}
EXPORT fmi2Status fmi2GetFMUstate(fmi2Component c, fmi2FMUstate* state) {
  instance_misbehave(IT, SAVE, 0, 0);
  if (*state == NULL) *state = malloc(sizeof(Now));
  if (*state == NULL) return fmi2Error;
  memcpy(*state, &IT->now, sizeof(Now));
  return fmi2OK;
}
EXPORT fmi2Status fmi2SetFMUstate(fmi2Component c, fmi2FMUstate state) {
  memcpy(&IT->now, state, sizeof(Now));
  instance_misbehave(IT, RESTORED, 0, 0);
  return fmi2OK;
}
EXPORT fmi2Status fmi2FreeFMUstate(fmi2Component c, fmi2FMUstate* state) {
  free(*state);
  *state = NULL;
  return fmi2OK;
}
EXPORT fmi2Status fmi2SerializedFMUstateSize(fmi2Component c, fmi2FMUstate state, size_t* size) {
  *size = sizeof(Now);
  return fmi2OK;
}
EXPORT fmi2Status fmi2SerializeFMUstate(fmi2Component c, fmi2FMUstate state, fmi2Byte* to, size_t size) {
  if (size < sizeof(Now)) return complain(c, "fmi2SerializeFMUstate");
  memcpy(to, state, sizeof(Now));
  return fmi2OK;
}
EXPORT fmi2Status fmi2DeSerializeFMUstate(fmi2Component c, const fmi2Byte* from, size_t size, fmi2FMUstate* state) {
  if (size != sizeof(Now)) return complain(c, "fmi2DeSerializeFMUstate");
  if (*state == NULL) *state = malloc(sizeof(Now));
  if (*state == NULL) return fmi2Error;
  memcpy(*state, from, sizeof(Now));
  return fmi2OK;
}
EXPORT fmi2Status fmi2GetDirectionalDerivative(fmi2Component c, Refs unknowns, size_t rows, Refs knowns,
                                               size_t columns, const fmi2Real* seed, fmi2Real* to) {
  size_t i, j;
  if (!model.partial) return complain(c, "fmi2GetDirectionalDerivative");
  for (i = 0; i < rows; i++)
    for (to[i] = 0, j = 0; j < columns; j++)
      to[i] += model.partial(&IT->now, (int)unknowns[i], (int)knowns[j]) * seed[j];
  return fmi2OK;
}
EXPORT fmi2Status fmi2SetRealInputDerivatives(fmi2Component c, Refs refs, size_t n, const fmi2Integer* order,
                                              const fmi2Real* from) {
  size_t i;
  for (i = 0; i < n; i++) {
    if (!model.partial || !known(refs[i], "d", true) || order[i] != 1)
      return complain(c, "fmi2SetRealInputDerivatives");
    IT->now.slope[refs[i]] = from[i];
  }
  return fmi2OK;
}
EXPORT fmi2Status fmi2GetRealOutputDerivatives(fmi2Component c, Refs refs, size_t n, const fmi2Integer* order,
                                               fmi2Real* to) {
  size_t i;
  for (i = 0; i < n; i++) {
    if (!model.partial || order[i] != 1) return complain(c, "fmi2GetRealOutputDerivatives");
    to[i] = output_slope(IT, (int)refs[i]);
  }
  return fmi2OK;
}
EXPORT fmi2Status fmi2CancelStep(fmi2Component c) { return complain(c, "fmi2CancelStep"); }
#define NO_STATUS(Name, T)                                                                    \
  EXPORT fmi2Status fmi2Get##Name##Status(fmi2Component c, fmi2StatusKind kind, T* to) {      \
    return fmi2Discard;                                                                       \
  }
NO_STATUS(, fmi2Status)
NO_STATUS(Integer, fmi2Integer)
NO_STATUS(String, fmi2String)
#endif

/* Co-simulation. */
EXPORT fmi2Status fmi2DoStep(fmi2Component c, fmi2Real t, fmi2Real step, fmi2Boolean final) {
#ifdef CHATTY
  SAY(IT->environment, IT->name, fmi2OK, "logEvents",
      "step %d from %g to %.3f: 100%% of %s, %c, %5.2f|%-6d|%08x, %ld, #r1# and ##", IT->calls, t, t + step, IT->name,
      'x', 3.14159, 42, 48879u, -5000000000L);
  if (IT->calls == 0) {
    char* text = long_text();
    SAY(IT->environment, IT->name, fmi2Warning, "logStatusWarning", "%s|%d|%s|%g|%s", text, 1, "two", 3.5, "end");
    free(text);
  }
#endif
#ifdef OVERFLOW
  if (t >= 0.5) overflow("a message that is a good deal longer than the room that is made for it, and then some");
#endif
  return answer(c, instance_step(IT, t, step).answer);
}
EXPORT fmi2Status fmi2GetRealStatus(fmi2Component c, fmi2StatusKind kind, fmi2Real* to) {
  if (kind != fmi2LastSuccessfulTime) return fmi2Discard;
  *to = IT->now.v[0];
  return fmi2OK;
}
EXPORT fmi2Status fmi2GetBooleanStatus(fmi2Component c, fmi2StatusKind kind, fmi2Boolean* to) {
  if (kind != fmi2Terminated) return fmi2Discard;
  *to = IT->asked_to_end;
  return fmi2OK;
}

/* Model exchange. */
EXPORT fmi2Status fmi2EnterEventMode(fmi2Component c) { return c ? fmi2OK : fmi2Error; }
EXPORT fmi2Status fmi2NewDiscreteStates(fmi2Component c, fmi2EventInfo* info) {
  memset(info, 0, sizeof *info);
  info->valuesOfContinuousStatesChanged = instance_event(IT);
  info->nextEventTime = next_told(IT);
  info->nextEventTimeDefined = info->nextEventTime < INFINITY;
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
  if (n != (size_t)IT->now.states) return complain(c, "fmi2SetContinuousStates");
  states_put(&IT->now, x);
  return fmi2OK;
}
static fmi2Status copy(fmi2Component c, const int* cells, fmi2Real* to, size_t n) {
  size_t i;
  if (n != (size_t)IT->now.states) return complain(c, "a call for all states");
  model.update(&IT->now);
  for (i = 0; i < n; i++) to[i] = IT->now.v[cells[i]];
  return fmi2OK;
}
EXPORT fmi2Status fmi2GetDerivatives(fmi2Component c, fmi2Real* dx, size_t n) { return copy(c, IT->now.rate, dx, n); }
EXPORT fmi2Status fmi2GetContinuousStates(fmi2Component c, fmi2Real* x, size_t n) {
  return copy(c, IT->now.state, x, n);
}
EXPORT fmi2Status fmi2GetEventIndicators(fmi2Component c, fmi2Real* z, size_t n) {
  if (n != (size_t)model.indicators) return complain(c, "fmi2GetEventIndicators");
  model.update(&IT->now);
  if (n > 0) model.indicate(&IT->now, z);
  return fmi2OK;
}
EXPORT fmi2Status fmi2GetNominalsOfContinuousStates(fmi2Component c, fmi2Real* to, size_t n) {
  size_t i;
  for (i = 0; i < n; i++) to[i] = 1;
  return fmi2OK;
}
