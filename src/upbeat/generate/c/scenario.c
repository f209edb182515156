/* A scenario that was printed as C (model.c), behind the functions of scenario.h; variables.c says what its variables are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scenario {
  model m;
  upbeat_unit unit;
  upbeat_host host;
  upbeat_error error; /* what the unit itself says; model_why has what is behind it */
  model_state **kept; /* by slot */
  int32_t kept_count;
  char **texts; /* those that were not known when the scenario was printed */
  int64_t text_count;
  scenario_say say;
  void *to;
  int made;
  char message[1000];
};

/* ---------------------------------------------------------------------------------------------------- what went wrong */

static void explain(scenario *s) {
  const char *unit = "";
  const upbeat_error *const e = model_why(&s->m, &s->error, &unit);
  char text[400];
  switch (e->fault) {
    case FAULT_NOT_FINITE: snprintf(text, sizeof text, "a value is %g", (double)e->value); break;
    case FAULT_NOT_REACHED: snprintf(text, sizeof text, "it stopped at %.9g instead of %.9g", (double)e->value, (double)e->until); break;
    case FAULT_EXHAUSTED: snprintf(text, sizeof text, "an iteration did not end"); break;
    case FAULT_EMPTY_SLOT: snprintf(text, sizeof text, "nothing was saved"); break;
    case FAULT_NO_PROGRESS: snprintf(text, sizeof text, "the step from t = %.9g did not move on", (double)e->time); break;
    case FAULT_BAD_STEP:
    case FAULT_REJECTED: snprintf(text, sizeof text, "the step from t = %.9g cannot be made", (double)e->time); break;
    case FAULT_CHATTERING: snprintf(text, sizeof text, "events follow each other without end at t = %.9g", (double)e->time); break;
    case FAULT_LOG_FULL: snprintf(text, sizeof text, "too many events at one time"); break;
    default:
      switch (e->code) {
        case SAYS_BACKWARDS: snprintf(text, sizeof text, "cannot advance backwards, from %.9g to %.9g", (double)e->a, (double)e->b); break;
        case SAYS_TOO_MANY: snprintf(text, sizeof text, "steps of %g would need too many solver steps to cover %g", (double)e->a, (double)e->b); break;
        case SAYS_TOO_SMALL:
          snprintf(text, sizeof text, "the step size of its solver fell to %.3g at t = %.9g: the solution grows without bound, jumps, or is too stiff", (double)e->a, (double)e->b);
          break;
        case SAYS_NOT_THERE: snprintf(text, sizeof text, "its solver took too many steps and did not reach %.9g (at t = %.9g)", (double)e->a, (double)e->b); break;
        case SAYS_NO_SOLVER: snprintf(text, sizeof text, "there is no solver %.0f", (double)e->a); break;
        case SAYS_MISFIT: snprintf(text, sizeof text, "%g is no value of its kind", (double)e->a); break;
        case SAYS_ENDLESS: snprintf(text, sizeof text, "events without end on the way, the last at t = %.9g", (double)e->a); break;
        case SAYS_NO_MODE: snprintf(text, sizeof text, "there is no mode %.0f", (double)e->a); break;
        case SAYS_NO_TIME: snprintf(text, sizeof text, "the time of its next event is not a number"); break;
        case SAYS_COEFFICIENTS: snprintf(text, sizeof text, "an input takes at most %.0f coefficients, not %.0f", (double)e->b, (double)e->a); break;
        default: snprintf(text, sizeof text, "it refused"); break;
      }
  }
  snprintf(s->message, sizeof s->message, "%s%.300s%s%s", *unit ? "'" : "", unit, *unit ? "': " : "", text);
}

static int unless(scenario *s, int failed) {
  if (failed) explain(s);
  return failed;
}

/* ---------------------------------------------------------------------------------------------------- the unit */

static int unit_get(void *self, int port, cell *to) {
  scenario *const s = self;
  return unless(s, model_get(&s->m, port, to, &s->error));
}
static int unit_set(void *self, int port, const cell *from, int count) {
  scenario *const s = self;
  return unless(s, model_set(&s->m, port, from, count, &s->error));
}
static int unit_advance(void *self, double t, double to, int early, double *reached) {
  scenario *const s = self;
  (void)t;
  for (;;) { /* as often as the memory for events is full */
    const int failed = model_advance(&s->m, &s->host, to, early, reached, &s->error);
    const int told = s->host.events_used > 0;
    for (int64_t i = 0; i < s->host.events_used && s->say; ++i) {
      s->say(s->to, model_events[s->host.events[i].event], s->host.events[i].time);
    }
    s->host.events_used = s->host.mark = s->host.values_used = s->host.values_mark = 0;
    if (failed) return unless(s, 1);
    if (*reached >= to || s->m.pending || !told) return 0;
  }
}
static int unit_jump(void *self, int *again) {
  scenario *const s = self;
  return unless(s, model_jump(&s->m, again, &s->error));
}
static int unit_due(void *self, double *time) {
  scenario *const s = self;
  return unless(s, model_due(&s->m, time, &s->error));
}
static int unit_slope(void *self, int output, int input, cell *to) {
  scenario *const s = self;
  return unless(s, model_slope(&s->m, output, input, to, &s->error));
}
static model_state *slot_of(scenario *s, int slot) {
  if (slot >= s->kept_count) {
    model_state **const more = realloc(s->kept, sizeof *more * ((size_t)slot + 8));
    if (!more) return 0;
    for (int32_t i = s->kept_count; i < slot + 8; ++i) more[i] = 0;
    s->kept = more;
    s->kept_count = slot + 8;
  }
  if (!s->kept[slot]) s->kept[slot] = calloc(1, sizeof **s->kept);
  return s->kept[slot];
}
static int unit_save(void *self, int slot) {
  scenario *const s = self;
  model_state *const to = slot_of(s, slot);
  if (to) model_save(&s->m, to);
  return to ? 0 : 1;
}
static int unit_restore(void *self, int slot) {
  scenario *const s = self;
  if (slot >= s->kept_count || !s->kept[slot]) return 1;
  model_restore(&s->m, s->kept[slot]);
  return 0;
}
/* A state as bytes is what lies in memory: only this very library reads it again. */
static int unit_pack(void *self, int slot, void *to, uint64_t *size) {
  scenario *const s = self;
  const uint64_t room = *size;
  *size = sizeof **s->kept;
  if (slot >= s->kept_count || !s->kept[slot]) return 1;
  if (to && room >= *size) memcpy(to, s->kept[slot], sizeof **s->kept);
  return 0;
}
static int unit_unpack(void *self, int slot, const void *from, uint64_t size) {
  scenario *const s = self;
  model_state *const to = slot_of(s, slot);
  if (!to || size != sizeof *to) return 1;
  memcpy(to, from, sizeof *to);
  return 0;
}

#if MODEL_EXCHANGE
static int equations_place(void *self, double t, const double *x) {
  scenario *const s = self;
  model_place(&s->m, t, x);
  return 0;
}
static int equations_read(void *self, double *x) {
  scenario *const s = self;
  model_read(&s->m, x);
  return 0;
}
static int equations_rates(void *self, double *to) {
  scenario *const s = self;
  model_rates(&s->m, to);
  return 0;
}
static int equations_look(void *self, double *to) {
  scenario *const s = self;
  model_look(&s->m, to);
  return 0;
}
static int equations_directional(void *self, const double *seeds, double *to) {
  scenario *const s = self;
  return model_directional(&s->m, seeds, to);
}
static const scenario_equations model_as_equations = {
    model_states, model_indicators, equations_place, equations_read, equations_rates, equations_look, equations_directional};
#endif

/* ---------------------------------------------------------------------------------------------------- the scenario */

SCENARIO scenario *scenario_new(const char *resources, const char *token, int exchange, char *why) {
  (void)resources;
  if (!token || strcmp(token, model_description.token)) {
    snprintf(why, 1000, "the library is not that of this model description: its GUID or instantiation token is '%s'", model_description.token);
    return 0;
  }
  if (exchange != MODEL_EXCHANGE) {
    snprintf(why, 1000, exchange ? "the FMU is for co-simulation" : "the FMU is for model exchange");
    return 0;
  }
  scenario *const s = calloc(1, sizeof *s);
  upbeat_event *const events = calloc(model_event_room, sizeof *events);
  cell *const values = calloc(model_value_room, sizeof *values);
  if (!s || !events || !values) {
    snprintf(why, 1000, "there is not enough memory");
    free(s);
    free(events);
    free(values);
    return 0;
  }
  s->host.events = events;
  s->host.events_room = model_event_room;
  s->host.values = values;
  s->host.values_room = model_value_room;
  s->host.columns = model_columns;
  s->host.width = (int64_t)(sizeof s->m.left / sizeof *s->m.left);
  s->host.left = s->m.left;
  s->host.every = s->host.until_due = 1;
  upbeat_unit *const unit = &s->unit;
  unit->size = sizeof *unit;
  unit->self = s;
  unit->get = unit_get;
  unit->set = unit_set;
  unit->advance = unit_advance;
  unit->jump = unit_jump;
  unit->due = unit_due;
  unit->slope = unit_slope;
  unit->save = unit_save;
  unit->restore = unit_restore;
  unit->pack = unit_pack;
  unit->unpack = unit_unpack;
  return s;
}

SCENARIO void scenario_free(scenario *s) {
  for (int32_t i = 0; i < s->kept_count; ++i) free(s->kept[i]);
  for (int64_t i = 0; i < s->text_count; ++i) free(s->texts[i]);
  free(s->kept);
  free(s->texts);
  free(s->host.events);
  free(s->host.values);
  free(s);
}

SCENARIO const scenario_description *scenario_described(const scenario *s) {
  (void)s;
  return &model_description;
}

SCENARIO const upbeat_unit *scenario_begin(scenario *s, double t, const upbeat_cell *values) {
  const int32_t count = model_description.value_count;
  real *const numbers = calloc((size_t)count + 1, sizeof *numbers);
  if (!numbers) {
    snprintf(s->message, sizeof s->message, "there is not enough memory");
    return 0;
  }
  for (int32_t i = 0; i < count; ++i) numbers[i] = values[i].r;
  for (int32_t i = 0; i < model_description.variable_count; ++i) {
    const scenario_variable *const v = &model_variables[i];
    for (int32_t k = 0; v->value >= 0 && v->kind != KIND_REAL && k < v->cells; ++k) numbers[v->value + k] = (real)values[v->value + k].i;
  }
  model_begin(&s->m, t, numbers);
  free(numbers);
  s->host.events_used = s->host.mark = s->host.values_used = s->host.values_mark = 0;
  return unless(s, model_start(&s->m, &s->error)) ? 0 : &s->unit;
}

SCENARIO const scenario_equations *scenario_equations_of(scenario *s) {
  (void)s;
#if MODEL_EXCHANGE
  return &model_as_equations;
#else
  return 0;
#endif
}

SCENARIO int scenario_over(const scenario *s) { return model_over(&s->m); }

SCENARIO void scenario_listen(scenario *s, scenario_say say, void *to) {
  s->say = say;
  s->to = to;
}

SCENARIO const char *scenario_message(scenario *s) { return s->message; }

SCENARIO int64_t scenario_intern(scenario *s, const char *text) {
  const int64_t known = model_text_count;
  for (int64_t i = 0; i < known; ++i) {
    if (!strcmp(model_texts[i], text)) return i;
  }
  for (int64_t i = 0; i < s->text_count; ++i) {
    if (!strcmp(s->texts[i], text)) return known + i;
  }
  char **const more = realloc(s->texts, sizeof *more * ((size_t)s->text_count + 1));
  if (!more) return -1;
  s->texts = more;
  const size_t size = strlen(text) + 1;
  if (!(more[s->text_count] = malloc(size))) return -1;
  memcpy(more[s->text_count], text, size);
  return known + s->text_count++;
}

SCENARIO const char *scenario_text(const scenario *s, int64_t number) {
  if (number < 0 || number >= model_text_count + s->text_count) return 0;
  return number < model_text_count ? model_texts[number] : s->texts[number - model_text_count];
}
