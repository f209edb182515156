/* x' = a x + b u, y = c x + d u. */
#include "model.h"

enum { TIME, A, B, C, D, U, X, DX, Y, COUNT };

static void start(Now* now) {
  now->v[A] = -2;
  now->v[B] = 1;
  now->v[C] = 3;
  now->v[D] = 0.5;
  now->v[X] = 1;
}

static void update(Now* now) {
  double* v = now->v;
  v[DX] = v[A] * v[X] + v[B] * v[U];
  v[Y] = v[C] * v[X] + v[D] * v[U];
}

static double partial(const Now* now, int unknown, int known) {
  const double* v = now->v;
  if (unknown == DX) return known == X ? v[A] : known == U ? v[B] : 0;
  if (unknown == Y) return known == X ? v[C] : known == U ? v[D] : 0;
  return 0;
}

const Model model = {
    .token = "{linear}",
    .count = COUNT,
    .settable = BIT(A) | BIT(B) | BIT(C) | BIT(D) | BIT(U) | BIT(X),
    .states = 1,
    .state = {X},
    .rate = {DX},
    .start = start,
    .update = update,
    .partial = partial,
};
