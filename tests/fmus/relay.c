/* A relay: x' = 1 - x while it is on, and -x while it is off. It is on when u > level, if it is enabled at all. */
#include "model.h"

enum { TIME, U, ENABLED, LEVEL, X, DX, ON, SWITCHES, Z, COUNT };

static void start(Now* now) {
  now->v[LEVEL] = 0.5;
  now->n[ENABLED] = 1;
}

static void update(Now* now) {
  now->v[DX] = (now->n[ON] ? 1 : 0) - now->v[X];
  now->v[Z] = now->v[U] - now->v[LEVEL];
}

static void indicate(const Now* now, double* z) { z[0] = now->v[U] - now->v[LEVEL]; }

static bool event(Now* now) {
  const int64_t on = now->n[ENABLED] && now->v[U] > now->v[LEVEL];
  if (on != now->n[ON]) now->n[SWITCHES]++;
  now->n[ON] = on;
  return false;
}

const Model model = {
    .token = "{relay}",
    .count = COUNT,
    .settable = BIT(U) | BIT(ENABLED) | BIT(LEVEL) | BIT(X),
    .types = "ddidddbid",
    .states = 1,
    .state = {X},
    .rate = {DX},
    .indicators = 1,
    .start = start,
    .update = update,
    .indicate = indicate,
    .event = event,
};
