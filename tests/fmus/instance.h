/* One instance of a model, as both shims use it: values, a Runge-Kutta solver, events. */
#ifndef INSTANCE_H
#define INSTANCE_H

#include <stdlib.h>
#include <string.h>

#include "model.h"

#define SUBSTEPS 10

typedef struct Instance Instance;
struct Instance {
  Now now;
  double base[CELLS]; /* inputs at `since`, from where they follow their slopes */
  double since;
  bool sloped;
  bool exchange;    /* model exchange */
  bool event_mode;  /* the importer handles events */
  bool early;       /* and a step may end early for it */
  bool asked_to_end;
  bool (*between)(Instance*, double t); /* at the start of every substep; true: return now */
  void* logger;     /* of either version, with its environment */
  void* environment;
  void* intermediate;
  int calls;
  char name[64];
};

typedef struct {
  Answer answer;
  bool event, early;
} Ended;

static Answer instance_misbehave(Instance* one, Moment moment, double t, double h) {
  return model.misbehave ? model.misbehave(moment, &one->now, t, h) : OK;
}

static void instance_reset(Instance* one) {
  memset(&one->now, 0, sizeof one->now);
  one->now.next = INFINITY;
  one->now.states = model.states;
  memcpy(one->now.state, model.state, sizeof model.state);
  memcpy(one->now.rate, model.rate, sizeof model.rate);
  model.start(&one->now);
  if (model.configured) model.configured(&one->now);
}

static Instance* instance_new(const char* name, const char* token) {
  Instance* one;
  if (token == NULL || strcmp(token, model.token) != 0) return NULL;
  one = (Instance*)calloc(1, sizeof(Instance));
  if (one == NULL) return NULL;
  strncpy(one->name, name ? name : "", sizeof one->name - 1);
  instance_reset(one);
  return one;
}

/* -- values ------------------------------------------------------------------------------------ */

static char type_of(unsigned reference) { return model.types ? model.types[reference] : 'd'; }

/* Is the reference there, of one of these types, and free to be set? */
static bool known(unsigned reference, const char* types, bool set) {
  return reference < (unsigned)model.count && strchr(types, type_of(reference)) &&
         (!set || (model.settable & BIT(reference)));
}

static int cells_of(const Now* now, unsigned reference, int* first) {
  *first = (int)reference;
  return model.cells ? model.cells(now, (int)reference, first) : 1;
}

static Text* text_of(Now* now, unsigned reference) {
  int slot = 0;
  unsigned i;
  for (i = 0; i < reference; i++) slot += type_of(i) == 's' || type_of(i) == 'x';
  return &now->text[slot];
}

static bool text_set(Text* to, const void* from, size_t size) {
  if (size >= TEXT || (from == NULL && size > 0)) return false;
  if (size > 0) memcpy(to->data, from, size);
  to->data[size] = 0;
  to->size = size;
  return true;
}

/* A value set anew stays where it is until its slope is set too. */
static void real_set(Now* now, int cell, double value) {
  now->v[cell] = value;
  now->slope[cell] = 0;
}

/* -- time -------------------------------------------------------------------------------------- */

static void inputs_at(Instance* one, double t) {
  int i;
  one->now.v[0] = t;
  if (!one->sloped) return;
  for (i = 1; i < model.count; i++)
    if (one->now.slope[i] != 0) one->now.v[i] = one->base[i] + one->now.slope[i] * (t - one->since);
}

static void states_put(Now* now, const double* x) {
  int i;
  for (i = 0; i < now->states; i++) now->v[now->state[i]] = x[i];
}

static void rates_at(Instance* one, const double* x, double t, double* dx) {
  Now* now = &one->now;
  int i;
  inputs_at(one, t);
  states_put(now, x);
  model.update(now);
  for (i = 0; i < now->states; i++) dx[i] = now->v[now->rate[i]];
}

/* One classical Runge-Kutta step from x to y; leaves y and the inputs at its end in the instance. */
static void runge_kutta(Instance* one, double s, double h, const double* x, double* y) {
  double k1[STATES], k2[STATES], k3[STATES], k4[STATES];
  int i, count = one->now.states;
  rates_at(one, x, s, k1);
  for (i = 0; i < count; i++) y[i] = x[i] + h / 2 * k1[i];
  rates_at(one, y, s + h / 2, k2);
  for (i = 0; i < count; i++) y[i] = x[i] + h / 2 * k2[i];
  rates_at(one, y, s + h / 2, k3);
  for (i = 0; i < count; i++) y[i] = x[i] + h * k3[i];
  rates_at(one, y, s + h, k4);
  for (i = 0; i < count; i++) y[i] = x[i] + h / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]);
  inputs_at(one, s + h);
  states_put(&one->now, y);
}

static unsigned signs(Instance* one) {
  double z[ZS];
  unsigned found = 0;
  int i;
  if (!model.indicators) return 0;
  model.update(&one->now);
  model.indicate(&one->now, z);
  for (i = 0; i < model.indicators; i++) found |= (unsigned)(z[i] > 0) << i;
  return found;
}

/* From t to `end`, or to the far side of the first sign change of an indicator; the time reached. */
static double integrate(Instance* one, double t, double end, bool* crossed, bool* asked) {
  double x[STATES], y[STATES], h = (end - t) / SUBSTEPS;
  Now* now = &one->now;
  unsigned before;
  int i, n;
  *crossed = *asked = false;
  one->since = t;
  one->sloped = false;
  for (i = 1; i < model.count && model.partial; i++) one->sloped |= now->slope[i] != 0;
  if (one->sloped) memcpy(one->base, now->v, sizeof one->base);
  before = signs(one);
#ifdef INNER /* a solver with steps of its own: what is left of one waits for the next call */
  for (n = (int)(t / INNER + 1e-9); n < (int)(end / INNER + 1e-9); n++) {
    for (i = 0; i < now->states; i++) x[i] = now->v[now->state[i]];
    runge_kutta(one, n * INNER, INNER, x, y);
  }
  inputs_at(one, end);
  return end;
#endif
  for (n = 0; n < SUBSTEPS && (now->states > 0 || model.indicators || one->between); n++) {
    double s = t + n * h;
    if (one->between && one->between(one, s)) {
      *asked = true;
      return s;
    }
    for (i = 0; i < now->states; i++) x[i] = now->v[now->state[i]];
    runge_kutta(one, s, h, x, y);
    if (signs(one) != before) {
      double low = 0, high = h, middle;
      while (middle = (low + high) / 2, s + middle > s + low && s + middle < s + high) {
        runge_kutta(one, s, middle, x, y);
        if (signs(one) != before) high = middle;
        else low = middle;
      }
      runge_kutta(one, s, high, x, y);
      *crossed = true;
      return now->v[0] = s + high;
    }
  }
  inputs_at(one, end);
  return end;
}

/* One round of event iteration: did a continuous state change? All clocks are silent afterwards. */
static bool instance_event(Instance* one) {
  unsigned i;
  bool changed = model.event && model.event(&one->now);
  for (i = 0; i < (unsigned)model.count; i++)
    if (type_of(i) == 'c') one->now.n[i] = 0;
  return changed;
}

/* What the importer is told of the next time event: with STALE always something. */
static double next_told(const Instance* one) {
#ifdef STALE
  if (one->now.next == INFINITY) return STALE;
#endif
  return one->now.next;
}

/* A step of co-simulation. Events end it if the importer wants to handle them, else they happen inside. */
static Ended instance_step(Instance* one, double t, double step) {
  Ended ended = {OK, false, false};
  double end = t + step, s = t;
  Now* now = &one->now;
  one->calls++;
  if ((ended.answer = instance_misbehave(one, STEP, t, step)) > WARNING) return ended;
  if (model.step) {
    ended.answer = model.step(now, t, step);
    return ended;
  }
  while (s < end) {
    double stop = now->next < end ? now->next : end;
    bool crossed = false, asked = false;
    if (stop > s) s = integrate(one, s, stop, &crossed, &asked);
    now->v[0] = s;
    if (asked) {
      ended.early = true;
      return ended;
    }
    if (crossed || s >= now->next) {
      if (one->event_mode && (one->early || s >= end)) {
        ended.event = true;
        ended.early = s < end;
        return ended;
      }
      instance_event(one);
    }
  }
  return ended;
}

/* The time derivative of an output, by the chain rule. */
static double output_slope(Instance* one, int output) {
  Now* now = &one->now;
  double sum = 0;
  int i;
  model.update(now);
  for (i = 0; i < now->states; i++) sum += model.partial(now, output, now->state[i]) * now->v[now->rate[i]];
  for (i = 1; i < model.count; i++) sum += model.partial(now, output, i) * now->slope[i];
  return sum;
}

#endif
