/* x' = a x + b u, y = c x + d u. */
#include "model.h"

enum { TIME, A, B, C, D, U, X, DX, Y, COUNT };

const char* const model_token = "{linear}";
const int model_count = COUNT;
const int model_states = 1;
const int model_state[] = {X};
const int model_rate[] = {DX};
const unsigned model_set = 1u << A | 1u << B | 1u << C | 1u << D | 1u << U | 1u << X;

void model_start(double* v) {
  v[A] = -2;
  v[B] = 1;
  v[C] = 3;
  v[D] = 0.5;
  v[U] = 0;
  v[X] = 1;
}

void model_update(double* v) {
  v[DX] = v[A] * v[X] + v[B] * v[U];
  v[Y] = v[C] * v[X] + v[D] * v[U];
}

double model_partial(const double* v, int unknown, int known) {
  if (unknown == DX) return known == X ? v[A] : known == U ? v[B] : 0;
  if (unknown == Y) return known == X ? v[C] : known == U ? v[D] : 0;
  return 0;
}
