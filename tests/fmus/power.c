/* The motor of a power window: L i' = V (up - down) - R i - K w, J w' = K i - b w + tau. */
#include "model.h"

enum { TIME, U, D, TAU, I, DI, W, DW, THETA, DTHETA, CURRENT, DISPLACEMENT, SPEED, COUNT };

static void start(Now* now) { (void)now; }

static void update(Now* now) {
  double* v = now->v;
  double sign = (v[U] > 0.5 ? 1.0 : 0.0) - (v[D] > 0.5 ? 1.0 : 0.0);
  v[DI] = (12.0 * sign - 0.15 * v[I] - 7.45 * v[W]) / 0.036;
  v[DW] = (7.45 * v[I] - 5.0 * v[W] + v[TAU]) / 0.085;
  v[DTHETA] = v[W];
  v[CURRENT] = v[I];
  v[DISPLACEMENT] = v[THETA];
  v[SPEED] = v[W];
}

const Model model = {
    .token = "{power}",
    .count = COUNT,
    .settable = BIT(U) | BIT(D) | BIT(TAU) | BIT(I) | BIT(W) | BIT(THETA),
    .states = 3,
    .state = {I, W, THETA},
    .rate = {DI, DW, DTHETA},
    .start = start,
    .update = update,
};
