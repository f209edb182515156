/* A ball that bounces: h' = v, v' = -g, and v := -e v where h meets 0; it lies still once it is slower than v_min. */
#include <float.h>

#include "model.h"

enum { TIME, H, DH, V, DV, G, E, V_MIN, BOUNCES, RESTS, COUNT };

static void start(Now* now) {
  now->v[H] = 1;
  now->v[G] = 9.81;
  now->v[E] = 0.7;
  now->v[V_MIN] = 0.1;
}

static void update(Now* now) {
  now->v[DH] = now->v[V];
  now->v[DV] = now->n[RESTS] ? 0 : -now->v[G];
}

static void indicate(const Now* now, double* z) { z[0] = now->v[H]; }

/* A hair above the ground, so that leaving it is no second event. */
static bool event(Now* now) {
  if (now->n[RESTS] || now->v[H] > 0 || now->v[V] > 0) return false;
  now->n[BOUNCES]++;
  now->v[H] = DBL_MIN;
  now->v[V] = -now->v[E] * now->v[V];
  if (now->v[V] < now->v[V_MIN]) {
    now->v[V] = 0;
    now->n[RESTS] = 1;
  }
  return true;
}

const Model model = {
    .token = "{ball}",
    .count = COUNT,
    .settable = BIT(H) | BIT(V) | BIT(G) | BIT(E) | BIT(V_MIN),
    .types = "ddddddddib",
    .states = 2,
    .state = {H, V},
    .rate = {DH, DV},
    .indicators = 1,
    .start = start,
    .update = update,
    .indicate = indicate,
    .event = event,
};
