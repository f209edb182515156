/* One of two masses under a ceiling, with LOWER the lower one: its own equations, its own events, and of the other
 * mass no more than where it was at the start of the step, and how fast. In between that one is taken to go on at
 * that speed. Events are found by halving a substep, and happen once: again only after the condition was false.
 * No states can be saved, and nothing is said about what depends on what. */
#include "model.h"

enum { TIME, X, V, OTHER_X, OTHER_V, HITS, CEILINGS, M, OTHERS, K1, K2, D1, D2, E, COUNT };
enum { HIT_OVER = COUNT, CEILING_OVER };            /* has happened, and holds still */
#define SUBSTEP 1e-3
#define HALF 0.55 /* a mass is twice as high */

#ifdef LOWER
#define SIGN (-1)
#else
#define SIGN 1
#endif

/* The upper mass also hangs on the ceiling, by the first spring and damper. */
static double force(const Now* now, double x, double v, double other, double speed) {
  double pull = -now->v[K2] * (x - other) - now->v[D2] * (v - speed);
  return SIGN > 0 ? pull - now->v[K1] * x - now->v[D1] * v : pull;
}

static void start(Now* now) {
  now->v[X] = SIGN > 0 ? -0.7 : -8.8;
  now->v[V] = SIGN > 0 ? 3.5 : 3.0;
  now->v[OTHER_X] = SIGN > 0 ? -8.8 : -0.7;
  now->v[OTHER_V] = SIGN > 0 ? 3.0 : 3.5;
  now->v[M] = SIGN > 0 ? 0.2 : 0.3;
  now->v[OTHERS] = SIGN > 0 ? 0.3 : 0.2;
  now->v[K1] = now->v[K2] = now->v[E] = 1.0;
  now->v[D1] = now->v[D2] = 0.01;
}

static void update(Now* now) { (void)now; }

/* The acceleration the time s after the start of the step. */
static double pull(const Now* now, double s, double x, double v) {
  return force(now, x, v, now->v[OTHER_X] + s * now->v[OTHER_V], now->v[OTHER_V]) / now->v[M] - 9.81;
}

/* One classical Runge-Kutta step of h. */
static void move(const Now* now, double s, double h, double* x, double* v) {
  double v1 = *v, a1 = pull(now, s, *x, v1);
  double v2 = *v + h / 2 * a1, a2 = pull(now, s + h / 2, *x + h / 2 * v1, v2);
  double v3 = *v + h / 2 * a2, a3 = pull(now, s + h / 2, *x + h / 2 * v2, v3);
  double v4 = *v + h * a3, a4 = pull(now, s + h, *x + h * v3, v4);
  *x += h / 6 * (v1 + 2 * v2 + 2 * v3 + v4);
  *v += h / 6 * (a1 + 2 * a2 + 2 * a3 + a4);
}

static bool hits(const Now* now, double s, double x, double v) {
  double other = now->v[OTHER_X] + s * now->v[OTHER_V];
  return SIGN * (x - other) <= 2 * HALF && SIGN * (v - now->v[OTHER_V]) < 0;
}

static bool reaches(double x, double v) { return SIGN > 0 && x >= -HALF && v > 0; }

/* Does something become true that has been false? */
static bool comes(const Now* now, double s, double x, double v) {
  return (!now->n[HIT_OVER] && hits(now, s, x, v)) || (!now->n[CEILING_OVER] && reaches(x, v));
}

/* Everything that has become true, from the same velocities; then look again. Who was hit is not hit again within
 * a substep: against one that is taken to go on as before, a mass would come to rest in ever shorter bounces. */
static void happen(Now* now, double s) {
  double x = now->v[X], v = now->v[V];
  bool hit = hits(now, s, x, v), ceiling = reaches(x, v), fresh = hit && !now->n[HIT_OVER];
  if (fresh) {
    double share = (1 + now->v[E]) * now->v[OTHERS] / (now->v[M] + now->v[OTHERS]);
    now->v[V] = v + share * (now->v[OTHER_V] - v);
    now->n[HITS]++;
  } else if (ceiling && !now->n[CEILING_OVER]) {
    now->v[V] = -now->v[E] * v;
    now->n[CEILINGS]++;
  }
  now->n[HIT_OVER] = fresh || hits(now, s, x, now->v[V]);
  now->n[CEILING_OVER] = reaches(x, now->v[V]);
}

static Answer step(Now* now, double t, double h) {
  double s = 0;
  happen(now, s);
  while (s < h) {
    double end = s + SUBSTEP < h - 1e-3 * SUBSTEP ? s + SUBSTEP : h, x = now->v[X], v = now->v[V];
    move(now, s, end - s, &x, &v);
    if (comes(now, end, x, v)) {
      double low = s, high = end, middle;
      while (middle = (low + high) / 2, middle > low && middle < high) {
        x = now->v[X], v = now->v[V];
        move(now, s, middle - s, &x, &v);
        if (comes(now, middle, x, v)) high = middle;
        else low = middle;
      }
      end = high;
      x = now->v[X], v = now->v[V];
      move(now, s, end - s, &x, &v);
    }
    now->v[X] = x;
    now->v[V] = v;
    s = end;
    happen(now, s);
  }
  now->v[TIME] = t + h;
  return OK;
}

#define VALUES (BIT(M) | BIT(OTHERS) | BIT(K1) | BIT(K2) | BIT(D1) | BIT(D2) | BIT(E))

const Model model = {"{mass}", COUNT, BIT(X) | BIT(V) | BIT(OTHER_X) | BIT(OTHER_V) | VALUES,
                     .types = "dddddiiddddddd", .start = start, .update = update, .step = step};
