/* The functions of FMI 2.0 around an exported scenario. */
#include "instance.h"

#if defined(FMI2_FUNCTION_PREFIX) && !defined(FMI2_OVERRIDE_FUNCTION_PREFIX)
#define FMI2_PASTE(a, b) a##b
#define FMI2_JOIN(a, b) FMI2_PASTE(a, b)
#define FMI2(name) FMI2_JOIN(FMI2_FUNCTION_PREFIX, fmi2##name)
#else
#define FMI2(name) fmi2##name
#endif

typedef enum { FMI2_OK, FMI2_WARNING, FMI2_DISCARD, FMI2_ERROR, FMI2_FATAL, FMI2_PENDING } fmi2_status;
typedef unsigned int fmi2_reference;

typedef struct {
  void (*logger)(void *environment, const char *name, fmi2_status status, const char *category, const char *message, ...);
  void *(*allocate)(size_t count, size_t size);
  void (*release)(void *memory);
  void (*finished)(void *environment, fmi2_status status);
  void *environment;
} fmi2_callbacks;

typedef struct {
  int discrete_states_need_update, terminate, nominals_changed, states_changed, next_event_defined;
  double next_event;
} fmi2_event_info;

static const char *const fmi2_categories[] = {"logStatusError", "logStatusWarning", "logEvents"};

static void fmi2_log(instance *o, instance_category category, const char *text) {
  const fmi2_callbacks *const calls = o->callbacks;
  static const fmi2_status statuses[] = {FMI2_ERROR, FMI2_WARNING, FMI2_OK};
  if (!calls || !calls->logger) return;
  char format[2 * sizeof o->text]; /* the text itself: there are hosts that do not look at what comes after it */
  size_t n = 0;
  for (; *text && n + 2 < sizeof format; ++text) {
    if (*text == '%') format[n++] = '%';
    format[n++] = *text;
  }
  format[n] = 0;
  calls->logger(calls->environment, o->name, statuses[category], fmi2_categories[category], format);
}

static fmi2_status fmi2_status_of(int well) { return well ? FMI2_OK : FMI2_ERROR; }

/* The path that a file URI names, its escapes resolved; any other text is a path already. */
static void fmi2_path(const char *uri, char *to, size_t room) {
  size_t n = 0;
  const int file = uri && !strncmp(uri, "file:", 5);
  if (!uri) uri = "";
  if (file) {
    uri += 5;
    if (uri[0] == '/' && uri[1] == '/') {
      uri += 2;
      while (*uri && *uri != '/') ++uri; /* the name of a host */
    }
#ifdef _WIN32
    if (uri[0] == '/' && uri[1] && uri[2] == ':') ++uri;
#endif
  }
  for (; *uri && n + 1 < room; ++n) {
    unsigned value;
    if (file && *uri == '%' && sscanf(uri + 1, "%2x", &value) == 1) {
      to[n] = (char)value;
      uri += 3;
    } else {
      to[n] = *uri++;
    }
  }
  to[n] = 0;
}

/* ---------------------------------------------------------------------------------------------------- life */

FMI_EXPORT const char *FMI2(GetTypesPlatform)(void) { return "default"; }
FMI_EXPORT const char *FMI2(GetVersion)(void) { return "2.0"; }

FMI_EXPORT fmi2_status FMI2(SetDebugLogging)(instance *o, int on, size_t count, const char *const *categories) {
  int *const wanted = &o->says[SAY_EVENT];
  *wanted = on && count == 0;
  for (size_t i = 0; i < count; ++i) {
    if (categories[i] && (!strcmp(categories[i], fmi2_categories[SAY_EVENT]) || !strcmp(categories[i], "logAll"))) *wanted = on;
  }
  listen_to_events(o);
  return FMI2_OK;
}

FMI_EXPORT instance *FMI2(Instantiate)(const char *name, int type, const char *token, const char *resources,
                                       const fmi2_callbacks *callbacks, int visible, int logging) {
  (void)visible;
  char path[4096];
  fmi2_path(resources, path, sizeof path);
  union {
    const fmi2_callbacks *given;
    void *kept;
  } calls;
  calls.given = callbacks;
  return instance_new(name, token, path, type == 0, 0, calls.kept, fmi2_log, logging);
}

FMI_EXPORT void FMI2(FreeInstance)(instance *o) { instance_free(o); }

FMI_EXPORT fmi2_status FMI2(SetupExperiment)(instance *o, int tolerance_defined, double tolerance, double start, int stop_defined,
                                             double stop) {
  (void)tolerance_defined;
  (void)tolerance;
  (void)stop_defined;
  (void)stop;
  o->start = o->now = start;
  return FMI2_OK;
}
FMI_EXPORT fmi2_status FMI2(EnterInitializationMode)(instance *o) { return fmi2_status_of(enter_initialization(o, o->start)); }
FMI_EXPORT fmi2_status FMI2(ExitInitializationMode)(instance *o) {
  return fmi2_status_of(exit_initialization(o, o->exchange ? MODE_EVENT : MODE_STEP));
}
FMI_EXPORT fmi2_status FMI2(Terminate)(instance *o) {
  if (o->mode != MODE_FAILED) o->mode = MODE_OVER;
  return FMI2_OK;
}
FMI_EXPORT fmi2_status FMI2(Reset)(instance *o) { return fmi2_status_of(reset(o)); }

/* ---------------------------------------------------------------------------------------------------- values */

FMI_EXPORT fmi2_status FMI2(GetReal)(instance *o, const fmi2_reference *which, size_t count, double *to) {
  for (size_t i = 0; i < count; ++i) {
    upbeat_cell found;
    const scenario_variable *const v = variable_of(o, which[i], KIND_REAL);
    if (!v || !get_cells(o, v, &found)) return FMI2_ERROR;
    to[i] = found.r;
  }
  return FMI2_OK;
}

/* An integer or a truth value as FMI 2 has them, in 32 bits. */
static fmi2_status fmi2_get_whole(instance *o, int kind, const fmi2_reference *which, size_t count, int *to) {
  for (size_t i = 0; i < count; ++i) {
    upbeat_cell found;
    const scenario_variable *const v = variable_of(o, which[i], kind);
    if (!v || !get_cells(o, v, &found)) return FMI2_ERROR;
    if (found.i < INT32_MIN || found.i > INT32_MAX) return fmi2_status_of(fails(o, "an integer is too large for FMI 2.0, which has 32 bits for it"));
    to[i] = (int)found.i;
  }
  return FMI2_OK;
}
static fmi2_status fmi2_set_whole(instance *o, int kind, const fmi2_reference *which, size_t count, const int *from) {
  for (size_t i = 0; i < count; ++i) {
    upbeat_cell given;
    const scenario_variable *const v = variable_of(o, which[i], kind);
    given.i = kind == KIND_TRUTH ? from[i] != 0 : from[i];
    if (!v || !set_cells(o, v, &given)) return FMI2_ERROR;
  }
  return FMI2_OK;
}

FMI_EXPORT fmi2_status FMI2(GetInteger)(instance *o, const fmi2_reference *which, size_t count, int *to) {
  return fmi2_get_whole(o, KIND_INTEGER, which, count, to);
}
FMI_EXPORT fmi2_status FMI2(GetBoolean)(instance *o, const fmi2_reference *which, size_t count, int *to) {
  return fmi2_get_whole(o, KIND_TRUTH, which, count, to);
}
FMI_EXPORT fmi2_status FMI2(GetString)(instance *o, const fmi2_reference *which, size_t count, const char **to) {
  for (size_t i = 0; i < count; ++i) {
    upbeat_cell found;
    const scenario_variable *const v = variable_of(o, which[i], KIND_TEXT);
    if (!v || !get_cells(o, v, &found)) return FMI2_ERROR;
    to[i] = scenario_text(o->s, found.i);
    if (!to[i]) return fmi2_status_of(fails(o, "a text is not there"));
  }
  return FMI2_OK;
}
FMI_EXPORT fmi2_status FMI2(SetReal)(instance *o, const fmi2_reference *which, size_t count, const double *from) {
  for (size_t i = 0; i < count; ++i) {
    upbeat_cell given;
    const scenario_variable *const v = variable_of(o, which[i], KIND_REAL);
    given.r = from[i];
    if (!v || !set_cells(o, v, &given)) return FMI2_ERROR;
  }
  return FMI2_OK;
}
FMI_EXPORT fmi2_status FMI2(SetInteger)(instance *o, const fmi2_reference *which, size_t count, const int *from) {
  return fmi2_set_whole(o, KIND_INTEGER, which, count, from);
}
FMI_EXPORT fmi2_status FMI2(SetBoolean)(instance *o, const fmi2_reference *which, size_t count, const int *from) {
  return fmi2_set_whole(o, KIND_TRUTH, which, count, from);
}
FMI_EXPORT fmi2_status FMI2(SetString)(instance *o, const fmi2_reference *which, size_t count, const char *const *from) {
  for (size_t i = 0; i < count; ++i) {
    upbeat_cell given;
    const scenario_variable *const v = variable_of(o, which[i], KIND_TEXT);
    given.i = scenario_intern(o->s, from[i] ? from[i] : "");
    if (!v || given.i < 0 || !set_cells(o, v, &given)) return FMI2_ERROR;
  }
  return FMI2_OK;
}

/* ---------------------------------------------------------------------------------------------------- states */

FMI_EXPORT fmi2_status FMI2(GetFMUstate)(instance *o, instance_state **state) { return fmi2_status_of(save(o, state)); }
FMI_EXPORT fmi2_status FMI2(SetFMUstate)(instance *o, const instance_state *state) {
  return state ? fmi2_status_of(restore(o, state)) : FMI2_ERROR;
}
FMI_EXPORT fmi2_status FMI2(FreeFMUstate)(instance *o, instance_state **state) {
  if (state) {
    state_free(o, *state);
    *state = 0;
  }
  return FMI2_OK;
}
FMI_EXPORT fmi2_status FMI2(SerializedFMUstateSize)(instance *o, const instance_state *state, size_t *size) {
  *size = 0;
  return fmi2_status_of(pack(o, state, 0, size));
}
FMI_EXPORT fmi2_status FMI2(SerializeFMUstate)(instance *o, const instance_state *state, char *to, size_t size) {
  size_t needed = size;
  if (!pack(o, state, to, &needed)) return FMI2_ERROR;
  return needed <= size ? FMI2_OK : fmi2_status_of(fails(o, "there is not enough room for the state"));
}
FMI_EXPORT fmi2_status FMI2(DeSerializeFMUstate)(instance *o, const char *from, size_t size, instance_state **state) {
  return fmi2_status_of(unpack(o, from, size, state));
}

/* ---------------------------------------------------------------------------------------------------- derivatives */

FMI_EXPORT fmi2_status FMI2(GetDirectionalDerivative)(instance *o, const fmi2_reference *unknowns, size_t unknown_count,
                                                      const fmi2_reference *knowns, size_t known_count, const double *seeds,
                                                      double *to) {
  return fmi2_status_of(directional(o, unknowns, unknown_count, knowns, known_count, seeds, known_count, to, unknown_count));
}

/* A derivative of an input, by which it goes on from its present value. */
static int set_slope(instance *o, const scenario_variable *v, int order, double slope) {
  if (v->role != ROLE_INPUT || order < 1 || order > UPBEAT_MAX_DEGREE || !(slope - slope == 0.0)) {
    return fails(o, "derivatives can be set of inputs, up to the fifth");
  }
  double *const slopes = o->courses + v->value * UPBEAT_MAX_DEGREE;
  for (int k = 1; k <= order; ++k) slope /= k;
  for (int k = o->rows[v->value]; k < order; ++k) slopes[k - 1] = 0.0;
  slopes[order - 1] = slope;
  if (o->rows[v->value] <= order) o->rows[v->value] = order + 1;
  return o->mode == MODE_STEP ? hand_over(o, v) : 1;
}

FMI_EXPORT fmi2_status FMI2(SetRealInputDerivatives)(instance *o, const fmi2_reference *which, size_t count, const int *orders,
                                                     const double *from) {
  for (size_t i = 0; i < count; ++i) {
    const scenario_variable *const v = variable_of(o, which[i], KIND_REAL);
    if (!v || !set_slope(o, v, orders[i], from[i])) return FMI2_ERROR;
  }
  return FMI2_OK;
}
FMI_EXPORT fmi2_status FMI2(GetRealOutputDerivatives)(instance *o, const fmi2_reference *which, size_t count, const int *orders,
                                                      double *to) {
  for (size_t i = 0; i < count; ++i) {
    const scenario_variable *const v = variable_of(o, which[i], KIND_REAL);
    if (!v || !get_rate(o, v, orders[i], to + i)) return FMI2_ERROR;
  }
  return FMI2_OK;
}

/* ---------------------------------------------------------------------------------------------------- co-simulation */

FMI_EXPORT fmi2_status FMI2(DoStep)(instance *o, double t, double length, int no_prior) {
  (void)no_prior;
  int event = 0;
  if (o->mode != MODE_STEP) return fmi2_status_of(fails(o, "steps are made after initialization, and not after a failure"));
  if (!step(o, t, length, o->discards, &event)) return FMI2_ERROR;
  if (event && !happen(o)) return FMI2_ERROR;
  return o->reached < t + length ? FMI2_DISCARD : FMI2_OK;
}
FMI_EXPORT fmi2_status FMI2(CancelStep)(instance *o) { return fmi2_status_of(fails(o, "steps are not asynchronous")); }
FMI_EXPORT fmi2_status FMI2(GetStatus)(instance *o, int kind, fmi2_status *to) {
  (void)kind;
  *to = o->mode == MODE_FAILED ? FMI2_ERROR : FMI2_OK;
  return FMI2_OK;
}
FMI_EXPORT fmi2_status FMI2(GetRealStatus)(instance *o, int kind, double *to) {
  if (kind != 2) return FMI2_DISCARD;
  *to = o->reached; /* the last successful time */
  return FMI2_OK;
}
FMI_EXPORT fmi2_status FMI2(GetIntegerStatus)(instance *o, int kind, int *to) {
  (void)o;
  (void)kind;
  (void)to;
  return FMI2_DISCARD;
}
FMI_EXPORT fmi2_status FMI2(GetBooleanStatus)(instance *o, int kind, int *to) {
  if (kind != 3) return FMI2_DISCARD;
  *to = o->over; /* whether it asks to end the simulation */
  return FMI2_OK;
}
FMI_EXPORT fmi2_status FMI2(GetStringStatus)(instance *o, int kind, const char **to) {
  (void)o;
  (void)kind;
  (void)to;
  return FMI2_DISCARD;
}

/* ---------------------------------------------------------------------------------------------------- model exchange */

FMI_EXPORT fmi2_status FMI2(EnterEventMode)(instance *o) { return fmi2_status_of(enter_mode(o, MODE_EVENT)); }
FMI_EXPORT fmi2_status FMI2(EnterContinuousTimeMode)(instance *o) { return fmi2_status_of(enter_mode(o, MODE_CONTINUOUS)); }
FMI_EXPORT fmi2_status FMI2(NewDiscreteStates)(instance *o, fmi2_event_info *info) {
  int changed = 0;
  double next = INFINITY;
  if (!update(o, &changed, &next)) return FMI2_ERROR;
  memset(info, 0, sizeof *info);
  info->states_changed = changed;
  info->next_event_defined = next < INFINITY;
  info->next_event = info->next_event_defined ? next : 0.0;
  return FMI2_OK;
}
FMI_EXPORT fmi2_status FMI2(CompletedIntegratorStep)(instance *o, int no_prior, int *event_mode, int *terminate) {
  (void)no_prior;
  *event_mode = *terminate = 0;
  return fmi2_status_of(equations_of(o) != 0);
}
FMI_EXPORT fmi2_status FMI2(SetTime)(instance *o, double t) { return fmi2_status_of(place(o, t, 0)); }
FMI_EXPORT fmi2_status FMI2(SetContinuousStates)(instance *o, const double *x, size_t count) {
  return fmi2_status_of(counts(o, count, 0) && place(o, o->now, x));
}
FMI_EXPORT fmi2_status FMI2(GetDerivatives)(instance *o, double *to, size_t count) {
  return fmi2_status_of(counts(o, count, 0) && continuous(o, RATES, to));
}
FMI_EXPORT fmi2_status FMI2(GetEventIndicators)(instance *o, double *to, size_t count) {
  return fmi2_status_of(counts(o, count, 1) && continuous(o, INDICATORS, to));
}
FMI_EXPORT fmi2_status FMI2(GetContinuousStates)(instance *o, double *to, size_t count) {
  return fmi2_status_of(counts(o, count, 0) && continuous(o, STATES, to));
}
FMI_EXPORT fmi2_status FMI2(GetNominalsOfContinuousStates)(instance *o, double *to, size_t count) {
  if (!counts(o, count, 0)) return FMI2_ERROR;
  for (size_t i = 0; i < count; ++i) to[i] = 1.0;
  return FMI2_OK;
}
