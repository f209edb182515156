/* One instance of a model, as both shims use it: values, input slopes, and a Runge-Kutta solver. */
#ifndef INSTANCE_H
#define INSTANCE_H

#include <stdlib.h>
#include <string.h>

#include "model.h"

#define SUBSTEPS 10

typedef struct {
  double v[MODEL_MOST];     /* the variables; v[0] is time */
  double slope[MODEL_MOST]; /* of inputs, during the next step */
  double since;             /* the time from which the slopes count */
} State;

typedef struct {
  State now;
  void* logger;      /* of either version, with its environment */
  void* environment;
  char name[64];
} Instance;

static Instance* instance_new(const char* name, const char* token) {
  Instance* one;
  if (token == NULL || strcmp(token, model_token) != 0) return NULL;
  one = (Instance*)calloc(1, sizeof(Instance));
  if (one == NULL) return NULL;
  strncpy(one->name, name ? name : "", sizeof one->name - 1);
  model_start(one->now.v);
  return one;
}

static int instance_can_set(unsigned reference) {
  return reference < (unsigned)model_count && (model_set >> reference & 1u);
}

static void instance_rates(const State* from, const double* x, double t, double* dx) {
  double v[MODEL_MOST];
  int i;
  memcpy(v, from->v, sizeof v);
  v[0] = t;
  for (i = 1; i < model_count; i++) v[i] += from->slope[i] * (t - from->since);
  for (i = 0; i < model_states; i++) v[model_state[i]] = x[i];
  model_update(v);
  for (i = 0; i < model_states; i++) dx[i] = v[model_rate[i]];
}

/* Classical Runge-Kutta with a fixed number of steps; inputs move along their slopes meanwhile. */
static void instance_advance(Instance* one, double t, double step) {
  double x[MODEL_MOST], y[MODEL_MOST], k1[MODEL_MOST], k2[MODEL_MOST], k3[MODEL_MOST], k4[MODEL_MOST];
  double h = step / SUBSTEPS;
  int i, n, count = model_states;
  State* now = &one->now;
  now->since = t;
  for (i = 0; i < count; i++) x[i] = now->v[model_state[i]];
  for (n = 0; n < SUBSTEPS && count > 0; n++) {
    double s = t + n * h;
    instance_rates(now, x, s, k1);
    for (i = 0; i < count; i++) y[i] = x[i] + h / 2 * k1[i];
    instance_rates(now, y, s + h / 2, k2);
    for (i = 0; i < count; i++) y[i] = x[i] + h / 2 * k2[i];
    instance_rates(now, y, s + h / 2, k3);
    for (i = 0; i < count; i++) y[i] = x[i] + h * k3[i];
    instance_rates(now, y, s + h, k4);
    for (i = 0; i < count; i++) x[i] += h / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]);
  }
  for (i = 1; i < model_count; i++) now->v[i] += now->slope[i] * step;
  for (i = 0; i < count; i++) now->v[model_state[i]] = x[i];
  now->v[0] = t + step;
}

static int instance_get(Instance* one, const unsigned* references, size_t count, double* to) {
  size_t i;
  model_update(one->now.v);
  for (i = 0; i < count; i++) {
    if (references[i] >= (unsigned)model_count) return 0;
    to[i] = one->now.v[references[i]];
  }
  return 1;
}

/* A value set anew stays where it is until its slope is set too. */
static int instance_set(Instance* one, const unsigned* references, size_t count, const double* from) {
  size_t i;
  for (i = 0; i < count; i++) {
    if (!instance_can_set(references[i])) return 0;
    one->now.v[references[i]] = from[i];
    one->now.slope[references[i]] = 0;
  }
  return 1;
}

/* The time derivative of an output, by the chain rule. */
static double instance_output_slope(Instance* one, int output) {
  double* v = one->now.v;
  double sum = 0;
  int i;
  model_update(v);
  for (i = 0; i < model_states; i++) sum += model_partial(v, output, model_state[i]) * v[model_rate[i]];
  for (i = 1; i < model_count; i++) sum += model_partial(v, output, i) * one->now.slope[i];
  return sum;
}

#endif
