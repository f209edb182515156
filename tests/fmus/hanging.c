/* A mass that hangs on the ceiling by a spring, and another one on it, eight metres further down: x' = v, and v := -e v
 * where x meets 0, the ceiling. Where the other mass is, and how fast, are inputs. */
#include <float.h>

#include "model.h"

enum { TIME, X, DX, V, DV, X2, V2, M, K1, K2, E, Z, COUNT };

static void start(Now* now) {
  now->v[X] = -0.3;
  now->v[M] = now->v[K1] = now->v[K2] = now->v[E] = 1;
}

static void update(Now* now) {
  const double* v = now->v;
  const double pull = -v[K1] * v[X] - v[K2] * (v[X] - v[X2] - 8) - 0.1 * (v[V] - v[V2]);
  now->v[DX] = v[V];
  now->v[DV] = pull / v[M] - 9.81;
  now->v[Z] = -v[X];
}

static void indicate(const Now* now, double* z) { z[0] = -now->v[X]; }

/* A hair below the ceiling, so that leaving it is no second event. */
static bool event(Now* now) {
  if (now->v[X] < 0 || now->v[V] <= 0) return false;
  now->v[X] = -DBL_MIN;
  now->v[V] = -now->v[E] * now->v[V];
  return true;
}

const Model model = {
    .token = "{hanging}",
    .count = COUNT,
    .settable = BIT(X) | BIT(V) | BIT(X2) | BIT(V2) | BIT(M) | BIT(K1) | BIT(K2) | BIT(E),
    .states = 2,
    .state = {X, V},
    .rate = {DX, DV},
    .indicators = 1,
    .start = start,
    .update = update,
    .indicate = indicate,
    .event = event,
};
