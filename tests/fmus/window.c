/* The window of a power window: a drum, a cable that gives a little, and friction. It has no states. */
#include "model.h"

enum { TIME, DISPLACEMENT, SPEED, FORCE, HEIGHT, TORQUE, COUNT };
#define R 0.115

static void start(Now* now) { (void)now; }

static void update(Now* now) {
  double* v = now->v;
  v[HEIGHT] = 100 * (R * v[DISPLACEMENT] - v[FORCE] / 1e6);
  v[TORQUE] = R * (v[FORCE] + 10.0 * R * v[SPEED]);
}

const Model model = {
    "{window}", COUNT, BIT(DISPLACEMENT) | BIT(SPEED) | BIT(FORCE), .start = start, .update = update,
};
