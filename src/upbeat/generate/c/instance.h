/* One instance of an exported scenario, as both versions of FMI have it: values before and after the start, steps, states.
 *
 * The functions of fmi2.c and fmi3.c check what only their version knows, and leave the rest to those here. All of them are
 * static: a library holds this once for each version of FMI. Each returns whether all went well; if not, it has said why. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

#if defined(_WIN32) || defined(__CYGWIN__)
#define FMI_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define FMI_EXPORT __attribute__((visibility("default")))
#else
#define FMI_EXPORT
#endif

enum { MAX_ROWS = UPBEAT_MAX_DEGREE + 1 };

/* What may be called. */
typedef enum { MODE_MADE, MODE_INITIALIZATION, MODE_EVENT, MODE_STEP, MODE_CONTINUOUS, MODE_OVER, MODE_FAILED } instance_mode;

typedef enum { SAY_ERROR, SAY_WARNING, SAY_EVENT } instance_category;

/* What is kept of an instance; the unit keeps its own part under the number `slot`, if it has begun. */
typedef struct instance_state {
  int32_t slot;
  int begun;
  instance_mode mode;
  double now, start;
  upbeat_cell *values;
  double *courses;
  int32_t *rows;
} instance_state;

typedef struct instance {
  scenario *s;
  const scenario_description *d;
  const upbeat_unit *unit; /* null: it has not begun, or other start values have come since */
  instance_mode mode;
  double now, start;
  int discards;          /* FMI 2: steps end at events, and say so */
  double reached;        /* where the last step ended */
  int over;              /* whether it ended there because the scenario is over, as an event in it asked */
  upbeat_cell *values;   /* of states at the start, inputs and parameters, now */
  upbeat_cell *given;    /* … and when the unit began */
  double *courses;       /* of each value: the derivatives of an input, over k! */
  int32_t *rows;         /* of each value: how many coefficients its course has; 1: it is held */
  upbeat_cell *room;     /* for a port, or the slopes of one by another */
  upbeat_cell *read;     /* for a variable on its way in or out */
  double *seeds, *found; /* model exchange: for directional derivatives */
  char *slots;           /* which numbers of states are in use */
  int32_t slot_count;
  int says[3];           /* which categories are wanted */
  char *name;
  char text[1200];
  void (*log)(struct instance *o, instance_category category, const char *text);
  void *environment;
  void *callbacks; /* of the version */
  int exchange;
  int event_mode, early; /* FMI 3: what the importer uses */
} instance;

/* ---------------------------------------------------------------------------------------------------- telling */

static int fails(instance *o, const char *text) {
  if (o->says[SAY_ERROR]) o->log(o, SAY_ERROR, text);
  return 0;
}

/* The unit has failed for good: what it says, and after what. */
static int broke(instance *o, const char *call) {
  const char *const said = scenario_message(o->s);
  snprintf(o->text, sizeof o->text, "%s at t = %.17g: %s", call, o->now, said && *said ? said : "it does not say why");
  o->mode = MODE_FAILED;
  return fails(o, o->text);
}

static void tell_event(void *to, const char *event, double time) {
  instance *const o = to;
  if (!o->says[SAY_EVENT]) return;
  char text[400];
  snprintf(text, sizeof text, "event '%.300s' at t = %.17g", event, time);
  o->log(o, SAY_EVENT, text);
}

static void listen_to_events(instance *o) { scenario_listen(o->s, o->says[SAY_EVENT] ? tell_event : 0, o); }

/* ---------------------------------------------------------------------------------------------------- life */

static void instance_free(instance *o) {
  if (!o) return;
  if (o->s) scenario_free(o->s);
  free(o->values);
  free(o->given);
  free(o->courses);
  free(o->rows);
  free(o->room);
  free(o->read);
  free(o->seeds);
  free(o->found);
  free(o->slots);
  free(o->name);
  free(o);
}

static void at_first(instance *o) {
  memcpy(o->values, o->d->values, sizeof *o->values * (size_t)o->d->value_count);
  for (int32_t i = 0; i < o->d->value_count; ++i) o->rows[i] = 1;
  o->unit = 0;
  o->mode = MODE_MADE;
  o->now = o->start = o->d->start;
  o->discards = 0;
}

/* Null: it has said why, if `log` was given. */
static instance *instance_new(const char *name, const char *token, const char *resources, int exchange, void *environment,
                              void *callbacks, void (*log)(instance *, instance_category, const char *), int logging) {
  instance *o = calloc(1, sizeof *o);
  if (!o) return 0;
  o->log = log;
  o->exchange = exchange != 0;
  o->environment = environment;
  o->callbacks = callbacks;
  o->says[SAY_ERROR] = o->says[SAY_WARNING] = 1; /* what goes wrong is said in any case */
  o->says[SAY_EVENT] = logging;
  const size_t length = name ? strlen(name) : 0;
  o->name = calloc(1, length + 1);
  if (o->name && length) memcpy(o->name, name, length);
  o->s = scenario_new(resources, token, exchange, o->text);
  if (!o->s || !o->name) {
    fails(o, o->s ? "there is not enough memory" : o->text);
    instance_free(o);
    return 0;
  }
  o->d = scenario_described(o->s);
  const size_t count = (size_t)o->d->value_count + 1, widest = (size_t)o->d->widest + 1;
  o->values = calloc(count, sizeof *o->values);
  o->given = calloc(count, sizeof *o->given);
  o->courses = calloc(count * UPBEAT_MAX_DEGREE, sizeof *o->courses);
  o->rows = calloc(count, sizeof *o->rows);
  o->room = calloc(widest * (widest > MAX_ROWS ? widest : MAX_ROWS), sizeof *o->room);
  o->read = calloc(widest, sizeof *o->read);
  o->seeds = calloc((size_t)(o->d->state_count + o->d->seeded_count) + 1, sizeof *o->seeds);
  o->found = calloc((size_t)(o->d->state_count + o->d->seen_count + o->d->indicator_count) + 1, sizeof *o->found);
  if (!o->values || !o->given || !o->courses || !o->rows || !o->room || !o->read || !o->seeds || !o->found) {
    fails(o, "there is not enough memory");
    instance_free(o);
    return 0;
  }
  at_first(o);
  listen_to_events(o);
  return o;
}

static int enter_initialization(instance *o, double start) {
  if (o->mode != MODE_MADE) return fails(o, "initialization mode is entered once, right after instantiation or a reset");
  if (!o->d->any_start && start != o->d->start) {
    snprintf(o->text, sizeof o->text, "this scenario was exported for the start time %.17g, with which some of its units begin, not %.17g",
             o->d->start, start);
    return fails(o, o->text);
  }
  o->start = o->now = start;
  o->unit = 0;
  o->mode = MODE_INITIALIZATION;
  return 1;
}

/* The unit, made anew if start values have changed. */
static int begun(instance *o) {
  if (o->unit) return 1;
  if (o->mode == MODE_MADE) return fails(o, "outputs have values from initialization mode on");
  o->unit = scenario_begin(o->s, o->start, o->values);
  memcpy(o->given, o->values, sizeof *o->given * (size_t)o->d->value_count);
  return o->unit ? 1 : broke(o, "it could not begin");
}

static int exit_initialization(instance *o, instance_mode next) {
  if (o->mode != MODE_INITIALIZATION) return fails(o, "it is not in initialization mode");
  if (!begun(o)) return 0;
  o->mode = next;
  return 1;
}

static int reset(instance *o) {
  at_first(o);
  listen_to_events(o);
  return 1;
}

/* ---------------------------------------------------------------------------------------------------- values */

static const scenario_variable *variable_of(instance *o, uint32_t reference, int kind) {
  if (reference < (uint32_t)o->d->variable_count && o->d->variables[reference].kind == kind) return &o->d->variables[reference];
  snprintf(o->text, sizeof o->text, "there is no variable of this type with the value reference %u", (unsigned)reference);
  fails(o, o->text);
  return 0;
}

/* The course of an input, as it is written from a later time on. */
static void shift_course(instance *o, int32_t value, double by) {
  double *const slopes = o->courses + value * UPBEAT_MAX_DEGREE;
  const int32_t rows = o->rows[value];
  for (int32_t j = 0; j + 1 < rows; ++j) {
    for (int32_t k = rows - 2; k >= j; --k) {
      if (k > 0) {
        slopes[k - 1] += by * slopes[k];
      } else {
        o->values[value].r += by * slopes[0];
      }
    }
  }
}

static int get_continuous(instance *o, const scenario_variable *v, upbeat_cell *to);

/* All cells of a variable, as they are now. */
static int get_cells(instance *o, const scenario_variable *v, upbeat_cell *to) {
  switch (v->role) {
    case ROLE_TIME: to->r = o->now; return 1;
    case ROLE_DISCARD: to->i = o->discards; return 1;
    case ROLE_SHOWN: break;
    case ROLE_STATE:
    case ROLE_RATE:
    case ROLE_INDICATOR: return get_continuous(o, v, to);
    default: memcpy(to, o->values + v->value, sizeof *to * (size_t)v->cells); return 1;
  }
  if (v->value >= 0 && o->mode == MODE_MADE) {
    memcpy(to, o->values + v->value, sizeof *to * (size_t)v->cells);
    return 1;
  }
  if (!begun(o)) return 0;
  if (v->cells == v->width) return o->unit->get(o->unit->self, v->port, to) ? broke(o, "an output could not be read") : 1;
  if (o->unit->get(o->unit->self, v->port, o->room)) return broke(o, "an output could not be read");
  memcpy(to, o->room + v->cell, sizeof *to * (size_t)v->cells);
  return 1;
}

/* Hand an input or a parameter to the unit that runs: all cells of its port, with their courses. */
static int hand_over(instance *o, const scenario_variable *v) {
  const int32_t first = v->value - v->cell;
  int32_t rows = 1;
  for (int32_t i = 0; i < v->width; ++i) rows = o->rows[first + i] > rows ? o->rows[first + i] : rows;
  for (int32_t i = 0; i < v->width; ++i) {
    o->room[i] = o->values[first + i];
    for (int32_t k = 1; k < rows; ++k) {
      o->room[k * v->width + i].r = k < o->rows[first + i] ? o->courses[(first + i) * UPBEAT_MAX_DEGREE + k - 1] : 0.0;
    }
  }
  return o->unit->set(o->unit->self, v->port, o->room, rows) ? broke(o, "an input could not be set") : 1;
}

static int set_cells(instance *o, const scenario_variable *v, const upbeat_cell *from) {
  const int before = o->mode == MODE_MADE || o->mode == MODE_INITIALIZATION;
  const int moves = v->role == ROLE_INPUT || v->role == ROLE_TUNABLE;
  if (v->role == ROLE_DISCARD) {
    o->discards = from->i != 0;
    return 1;
  }
  if (v->value < 0 || v->role == ROLE_CONSTANT) return fails(o, "this variable cannot be set");
  if (!before && !moves) return fails(o, "this variable can be set before the end of initialization only");
  if (!before && !o->unit) return fails(o, "it has not begun, or could not: no variable can be set");
  for (int32_t i = 0; i < v->cells; ++i) {
    if (v->kind == KIND_REAL && !(from[i].r - from[i].r == 0.0)) return fails(o, "a variable cannot be set to what is no number");
    o->values[v->value + i] = from[i];
    o->rows[v->value + i] = 1;
  }
  if (before) {
    o->unit = 0; /* it begins anew */
    return 1;
  }
  return hand_over(o, v);
}

static int get_rate(instance *o, const scenario_variable *v, int order, double *to) {
  if (v->role != ROLE_SHOWN || v->rate < 0 || order != 1) return fails(o, "this derivative of an output is not known");
  if (!begun(o)) return 0;
  if (o->unit->get(o->unit->self, v->rate, o->room)) return broke(o, "the derivative of an output could not be computed");
  for (int32_t i = 0; i < v->cells; ++i) to[i] = o->room[v->cell + i].r;
  return 1;
}

/* How an output reacts at once to a change of an input: adds to `to`. */
static int add_slopes(instance *o, const scenario_variable *output, const scenario_variable *input, const double *seed, double *to) {
  if (output->role != ROLE_SHOWN || input->role != ROLE_INPUT || output->kind != KIND_REAL || input->kind != KIND_REAL) {
    return fails(o, "directional derivatives are those of real outputs by real inputs");
  }
  if (!begun(o)) return 0;
  if (!o->unit->slope) return fails(o, "directional derivatives are not known");
  if (o->unit->slope(o->unit->self, output->port, input->port, o->room)) return broke(o, "a directional derivative could not be computed");
  for (int32_t i = 0; i < output->cells; ++i) {
    for (int32_t k = 0; k < input->cells; ++k) {
      to[i] += o->room[(output->cell + i) * input->width + input->cell + k].r * seed[k];
    }
  }
  return 1;
}

/* ---------------------------------------------------------------------------------------------------- model exchange */

enum { STATES, RATES, INDICATORS };

static const scenario_equations *equations_of(instance *o) {
  const scenario_equations *const e = begun(o) ? scenario_equations_of(o->s) : 0;
  if (!e) fails(o, "the FMU is not for model exchange, or has not begun");
  return e;
}

static int counts(instance *o, size_t count, int indicators) {
  const scenario_equations *const e = equations_of(o);
  if (!e) return 0;
  return count == (size_t)(indicators ? e->indicators : e->states) ? 1 : fails(o, "the FMU has another number of them");
}

static int place(instance *o, double t, const double *x) {
  const scenario_equations *const e = equations_of(o);
  if (!e) return 0;
  o->now = t;
  return e->place(o->unit->self, t, x) ? broke(o, "time or states could not be set") : 1;
}

static int continuous(instance *o, int what, double *to) {
  const scenario_equations *const e = equations_of(o);
  if (!e) return 0;
  int (*const call)(void *, double *) = what == STATES ? e->read : what == RATES ? e->rates : e->look;
  return call(o->unit->self, to) ? broke(o, "states, derivatives or indicators could not be computed") : 1;
}

static int get_continuous(instance *o, const scenario_variable *v, upbeat_cell *to) {
  if (v->role == ROLE_STATE && o->mode == MODE_MADE) {
    memcpy(to, o->values + v->value, sizeof *to * (size_t)v->cells);
    return 1;
  }
  if (!continuous(o, v->role == ROLE_STATE ? STATES : v->role == ROLE_RATE ? RATES : INDICATORS, o->found)) return 0;
  for (int32_t i = 0; i < v->cells; ++i) to[i].r = o->found[v->port + i];
  return 1;
}

static int directional_of_equations(instance *o, const uint32_t *unknowns, size_t unknown_count, const uint32_t *knowns,
                                    size_t known_count, const double *seeds, double *to) {
  const scenario_equations *const e = equations_of(o);
  if (!e) return 0;
  if (!e->directional) return fails(o, "directional derivatives are not known");
  memset(o->seeds, 0, sizeof *o->seeds * (size_t)(o->d->state_count + o->d->seeded_count));
  for (size_t i = 0; i < known_count; ++i) {
    const scenario_variable *const v = variable_of(o, knowns[i], KIND_REAL);
    if (!v || (v->role != ROLE_STATE && v->role != ROLE_INPUT)) return fails(o, "directional derivatives are by states and inputs");
    const int32_t first = v->role == ROLE_STATE ? v->port : o->d->state_count + v->rate;
    for (int32_t k = 0; k < v->cells; ++k) o->seeds[first + k] = *seeds++;
  }
  if (e->directional(o->unit->self, o->seeds, o->found)) return broke(o, "a directional derivative could not be computed");
  for (size_t i = 0; i < unknown_count; ++i) {
    const scenario_variable *const v = variable_of(o, unknowns[i], KIND_REAL);
    if (!v || (v->role != ROLE_RATE && (v->role != ROLE_SHOWN || v->rate < 0))) {
      return fails(o, "directional derivatives are those of derivatives and outputs");
    }
    const int32_t first = v->role == ROLE_RATE ? v->port : o->d->state_count + v->rate;
    for (int32_t k = 0; k < v->cells; ++k) *to++ = o->found[first + k];
  }
  return 1;
}

/* The derivatives of several unknowns in the direction of the seeds of several knowns. */
static int directional(instance *o, const uint32_t *unknowns, size_t unknown_count, const uint32_t *knowns, size_t known_count,
                       const double *seeds, size_t seed_count, double *to, size_t size) {
  size_t asked = 0, given = 0;
  for (size_t i = 0; i < known_count; ++i) {
    const scenario_variable *const v = variable_of(o, knowns[i], KIND_REAL);
    if (!v) return 0;
    given += (size_t)v->cells;
  }
  for (size_t i = 0; i < unknown_count; ++i) {
    const scenario_variable *const v = variable_of(o, unknowns[i], KIND_REAL);
    if (!v) return 0;
    asked += (size_t)v->cells;
  }
  if (given != seed_count || asked != size) return fails(o, "there must be a seed for each known cell, and room for each unknown one");
  if (o->exchange) return directional_of_equations(o, unknowns, unknown_count, knowns, known_count, seeds, to);
  for (size_t i = 0; i < unknown_count; ++i) {
    const scenario_variable *const v = &o->d->variables[unknowns[i]];
    const double *seed = seeds;
    for (int32_t k = 0; k < v->cells; ++k) to[k] = 0.0;
    for (size_t j = 0; j < known_count; ++j) {
      const scenario_variable *const by = &o->d->variables[knowns[j]];
      if (!add_slopes(o, v, by, seed, to)) return 0;
      seed += by->cells;
    }
    to += v->cells;
  }
  return 1;
}

/* ---------------------------------------------------------------------------------------------------- steps */

/* On from the present time, or to where something happens if `early`; `*event`: whether it waits to be seen. */
static int step(instance *o, double t, double length, int early, int *event) {
  *event = o->over = 0;
  o->reached = o->now;
  const double to = t + length, size = fabs(o->now) > fabs(to) ? fabs(o->now) : fabs(to);
  if (!(length >= 0.0) || !(to - to == 0.0)) return fails(o, "a step needs a length that is not negative");
  if (!(fabs(t - o->now) <= 1e-9 * (length + size))) {
    snprintf(o->text, sizeof o->text, "a step from t = %.17g was asked for, but the FMU is at %.17g", t, o->now);
    return fails(o, o->text);
  }
  if (to <= o->now) return 1;
  double reached = to;
  if (o->unit->advance(o->unit->self, o->now, to, early, &reached)) return broke(o, "a step failed");
  for (int32_t i = 0; i < o->d->value_count; ++i) {
    if (o->rows[i] > 1) shift_course(o, i, reached - o->now);
  }
  o->now = o->reached = reached;
  double due = INFINITY;
  if (early && o->unit->due && o->unit->due(o->unit->self, &due)) return broke(o, "the time of the next event could not be computed");
  *event = early && due <= reached;
  o->over = scenario_over(o->s);
  return 1;
}

/* What waits to be seen is seen. */
static int happen(instance *o) {
  int again = 1;
  for (int round = 0; again && round < 1000; ++round) {
    again = 0;
    if (o->unit->jump && o->unit->jump(o->unit->self, &again)) return broke(o, "an event could not be handled");
  }
  return 1;
}

static int enter_mode(instance *o, instance_mode next) {
  const int well = next == MODE_EVENT ? o->mode == MODE_STEP || o->mode == MODE_CONTINUOUS || o->mode == MODE_EVENT
                                      : o->mode == MODE_EVENT && (next == MODE_CONTINUOUS) == o->exchange;
  if (!well) return fails(o, "this mode cannot be entered now");
  o->mode = next;
  return 1;
}

/* Event mode: what waits is seen; `*changed` says whether there was something, `*next` when something will be due. */
static int update(instance *o, int *changed, double *next) {
  if (o->mode != MODE_EVENT) return fails(o, "discrete states are updated in event mode");
  double due = INFINITY;
  if (o->unit->due && o->unit->due(o->unit->self, &due)) return broke(o, "the time of the next event could not be computed");
  *changed = due <= o->now;
  if (*changed && !happen(o)) return 0;
  *next = INFINITY;
  if (o->unit->due && o->unit->due(o->unit->self, next)) return broke(o, "the time of the next event could not be computed");
  return 1;
}

/* ---------------------------------------------------------------------------------------------------- states */

static void state_free(instance *o, instance_state *s) {
  if (!s) return;
  if (s->slot >= 0 && s->slot < o->slot_count) o->slots[s->slot] = 0;
  free(s->values);
  free(s->courses);
  free(s->rows);
  free(s);
}

static int32_t free_slot(instance *o) {
  for (int32_t i = 0; i < o->slot_count; ++i) {
    if (!o->slots[i]) return i;
  }
  char *const more = realloc(o->slots, (size_t)o->slot_count + 8);
  if (!more) return -1;
  memset(more + o->slot_count, 0, 8);
  o->slots = more;
  o->slot_count += 8;
  return o->slot_count - 8;
}

/* A state without contents. */
static instance_state *state_new(instance *o) {
  instance_state *const s = calloc(1, sizeof *s);
  const size_t count = (size_t)o->d->value_count + 1;
  if (!s) return 0;
  s->slot = free_slot(o);
  s->values = calloc(count, sizeof *s->values);
  s->courses = calloc(count * UPBEAT_MAX_DEGREE, sizeof *s->courses);
  s->rows = calloc(count, sizeof *s->rows);
  if (s->slot < 0 || !s->values || !s->courses || !s->rows) {
    state_free(o, s);
    return 0;
  }
  o->slots[s->slot] = 1;
  return s;
}

static int save(instance *o, instance_state **to) {
  if (o->mode == MODE_FAILED) return fails(o, "the FMU has failed: it has no state to be kept");
  if (!*to && !(*to = state_new(o))) return fails(o, "there is not enough memory");
  instance_state *const s = *to;
  const size_t count = (size_t)o->d->value_count;
  s->begun = o->unit != 0;
  s->mode = o->mode;
  s->now = o->now;
  s->start = o->start;
  memcpy(s->values, o->values, sizeof *s->values * count);
  memcpy(s->courses, o->courses, sizeof *s->courses * count * UPBEAT_MAX_DEGREE);
  memcpy(s->rows, o->rows, sizeof *s->rows * count);
  if (s->begun && (!o->unit->save || o->unit->save(o->unit->self, s->slot))) return broke(o, "the state could not be kept");
  return 1;
}

/* Whether a unit that began with the present values cannot take this state: parameters that are set once were others. */
static int began_otherwise(const instance *o, const instance_state *s) {
  for (int32_t i = 0; i < o->d->variable_count; ++i) {
    const scenario_variable *const v = &o->d->variables[i];
    if (v->role == ROLE_PARAMETER && memcmp(o->given + v->value, s->values + v->value, sizeof *o->given * (size_t)v->cells)) return 1;
  }
  return 0;
}

static int restore(instance *o, const instance_state *s) {
  const size_t count = (size_t)o->d->value_count;
  if (s->begun && (!o->unit || began_otherwise(o, s))) { /* after a reset */
    o->start = s->start;
    o->mode = MODE_INITIALIZATION;
    o->unit = 0;
    memcpy(o->values, s->values, sizeof *o->values * count);
    if (!begun(o)) return 0;
  }
  o->mode = s->mode;
  o->start = s->start;
  o->now = o->reached = s->now;
  if (!s->begun) {
    o->unit = 0;
  } else if (!o->unit->restore || o->unit->restore(o->unit->self, s->slot)) {
    return broke(o, "the state could not be set back");
  }
  for (int32_t i = 0; i < o->d->variable_count; ++i) { /* which a unit keeps when it is set back */
    const scenario_variable *const v = &o->d->variables[i];
    if (v->role != ROLE_TUNABLE || !memcmp(o->values + v->value, s->values + v->value, sizeof *o->values * (size_t)v->cells)) continue;
    memcpy(o->values + v->value, s->values + v->value, sizeof *o->values * (size_t)v->cells);
    if (s->begun && !hand_over(o, v)) return 0;
  }
  memcpy(o->values, s->values, sizeof *o->values * count);
  memcpy(o->courses, s->courses, sizeof *o->courses * count * UPBEAT_MAX_DEGREE);
  memcpy(o->rows, s->rows, sizeof *o->rows * count);
  return 1;
}

/* ---------------------------------------------------------------------------------------------------- states as bytes */

/* What `pack` writes: a mark, then this head, values, texts with their lengths, courses, rows, and the bytes of the unit. */
typedef struct packed_head {
  char mark[8];
  uint64_t size, unit;
  double now, start;
  int32_t mode, begun;
} packed_head;

static const char packed_mark[8] = {'u', 'p', 'b', 'e', 'a', 't', '1', 0};

static const char *text_of_value(const instance *o, const upbeat_cell *values, int32_t value) {
  const char *const text = scenario_text(o->s, values[value].i);
  return text ? text : "";
}

/* Writes at most `*size` bytes, and leaves there how many there are. */
static int pack(instance *o, const instance_state *s, char *to, size_t *size) {
  const size_t count = (size_t)o->d->value_count, room = *size;
  uint64_t unit = 0;
  if (s->begun && (!o->unit || !o->unit->pack || o->unit->pack(o->unit->self, s->slot, 0, &unit))) return broke(o, "the state could not be written");
  size_t texts = 0;
  for (int32_t i = 0; i < o->d->variable_count; ++i) {
    const scenario_variable *const v = &o->d->variables[i];
    for (int32_t k = 0; v->kind == KIND_TEXT && v->value >= 0 && k < v->cells; ++k) {
      texts += sizeof(uint64_t) + strlen(text_of_value(o, s->values, v->value + k));
    }
  }
  const size_t plain = count * (sizeof *s->values + sizeof *s->courses * UPBEAT_MAX_DEGREE + sizeof *s->rows);
  *size = sizeof(packed_head) + plain + texts + (size_t)unit;
  if (!to || room < *size) return 1;
  packed_head head;
  memset(&head, 0, sizeof head);
  memcpy(head.mark, packed_mark, sizeof head.mark);
  head.size = *size;
  head.unit = unit;
  head.now = s->now;
  head.start = s->start;
  head.mode = (int32_t)s->mode;
  head.begun = s->begun;
  memcpy(to, &head, sizeof head);
  to += sizeof head;
  memcpy(to, s->values, sizeof *s->values * count);
  to += sizeof *s->values * count;
  memcpy(to, s->courses, sizeof *s->courses * count * UPBEAT_MAX_DEGREE);
  to += sizeof *s->courses * count * UPBEAT_MAX_DEGREE;
  memcpy(to, s->rows, sizeof *s->rows * count);
  to += sizeof *s->rows * count;
  for (int32_t i = 0; i < o->d->variable_count; ++i) {
    const scenario_variable *const v = &o->d->variables[i];
    for (int32_t k = 0; v->kind == KIND_TEXT && v->value >= 0 && k < v->cells; ++k) {
      const char *const text = text_of_value(o, s->values, v->value + k);
      const uint64_t length = strlen(text);
      memcpy(to, &length, sizeof length);
      memcpy(to + sizeof length, text, (size_t)length);
      to += sizeof length + (size_t)length;
    }
  }
  if (unit && o->unit->pack(o->unit->self, s->slot, to, &unit)) return broke(o, "the state could not be written");
  return 1;
}

static int foreign(instance *o) { return fails(o, "these bytes are not a state of this FMU"); }

static int unpack(instance *o, const char *from, size_t size, instance_state **to) {
  packed_head head;
  const size_t count = (size_t)o->d->value_count;
  const size_t plain = count * (sizeof *o->values + sizeof *o->courses * UPBEAT_MAX_DEGREE + sizeof *o->rows);
  if (size < sizeof head + plain) return foreign(o);
  memcpy(&head, from, sizeof head);
  if (memcmp(head.mark, packed_mark, sizeof head.mark) || head.size != size || head.unit > size - sizeof head - plain) return foreign(o);
  if (head.mode < MODE_MADE || head.mode > MODE_OVER) return foreign(o);
  if (!head.begun && head.mode != MODE_MADE && head.mode != MODE_INITIALIZATION && head.mode != MODE_OVER) return foreign(o);
  if (!*to && !(*to = state_new(o))) return fails(o, "there is not enough memory");
  instance_state *const s = *to;
  const char *const end = from + size - head.unit;
  s->mode = (instance_mode)head.mode;
  s->now = head.now;
  s->start = head.start;
  s->begun = head.begun != 0;
  from += sizeof head;
  memcpy(s->values, from, sizeof *s->values * count);
  from += sizeof *s->values * count;
  memcpy(s->courses, from, sizeof *s->courses * count * UPBEAT_MAX_DEGREE);
  from += sizeof *s->courses * count * UPBEAT_MAX_DEGREE;
  memcpy(s->rows, from, sizeof *s->rows * count);
  from += sizeof *s->rows * count;
  for (size_t i = 0; i < count; ++i) {
    if (s->rows[i] < 1 || s->rows[i] > MAX_ROWS) return foreign(o);
  }
  for (int32_t i = 0; i < o->d->variable_count; ++i) {
    const scenario_variable *const v = &o->d->variables[i];
    for (int32_t k = 0; v->kind == KIND_TEXT && v->value >= 0 && k < v->cells; ++k) {
      uint64_t length;
      if ((size_t)(end - from) < sizeof length) return foreign(o);
      memcpy(&length, from, sizeof length);
      from += sizeof length;
      if ((uint64_t)(end - from) < length) return foreign(o);
      char *const text = calloc(1, (size_t)length + 1);
      if (!text) return fails(o, "there is not enough memory");
      memcpy(text, from, (size_t)length);
      s->values[v->value + k].i = scenario_intern(o->s, text);
      free(text);
      from += length;
    }
  }
  if (from != end) return foreign(o);
  if (!s->begun) return 1;
  if (!o->unit) { /* some unit, to read them */
    const instance_mode mode = o->mode;
    o->mode = MODE_INITIALIZATION;
    const int made = begun(o);
    if (!made) return 0;
    o->mode = mode;
  }
  if (!o->unit->unpack || o->unit->unpack(o->unit->self, s->slot, end, head.unit)) return foreign(o);
  return 1;
}
