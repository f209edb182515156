/* x' = A x + B u, y = C x + D u, where structural parameters give the sizes n, m (of u) and r (of y). */
#include "model.h"

#define MOST 8

enum { TIME, N, M, R, A, B, C, D, U, X, DX, Y, COUNT };

static int cells(const Now* now, int reference, int* first) {
  const int n = (int)now->n[N], m = (int)now->n[M], r = (int)now->n[R];
  const int matrix[] = {n * n, n * m, r * n, r * m}, vector[] = {m, n, n, r};
  if (reference < A) return *first = reference, 1;
  if (reference < U) return *first = 8 + (reference - A) * MOST * MOST, matrix[reference - A];
  return *first = 8 + 4 * MOST * MOST + (reference - U) * MOST, vector[reference - U];
}

static int at(const Now* now, int reference) {
  int first;
  cells(now, reference, &first);
  return first;
}

/* The sizes are new: identity matrices for B and C, -1 on the diagonal of A, x = 1, 2, …; zeros elsewhere. */
static void configured(Now* now) {
  const int n = (int)now->n[N], m = (int)now->n[M], r = (int)now->n[R];
  int i;
  for (i = 8; i < CELLS; i++) now->v[i] = 0;
  for (i = 0; i < n; i++) {
    now->v[at(now, A) + i * n + i] = -1;
    if (i < m) now->v[at(now, B) + i * m + i] = 1;
    if (i < r) now->v[at(now, C) + i * n + i] = 1;
    now->v[at(now, X) + i] = i + 1;
    now->state[i] = at(now, X) + i;
    now->rate[i] = at(now, DX) + i;
  }
  now->states = n;
}

static void start(Now* now) {
  now->n[N] = 2;
  now->n[M] = 1;
  now->n[R] = 1;
}

static void product(Now* now, int to, int rows, int left, int x, int right, int u) {
  const int n = (int)now->n[N], m = (int)now->n[M];
  int i, j;
  for (i = 0; i < rows; i++) {
    double sum = 0;
    for (j = 0; j < n; j++) sum += now->v[at(now, left) + i * n + j] * now->v[at(now, x) + j];
    for (j = 0; j < m; j++) sum += now->v[at(now, right) + i * m + j] * now->v[at(now, u) + j];
    now->v[at(now, to) + i] = sum;
  }
}

static void update(Now* now) {
  product(now, DX, (int)now->n[N], A, X, B, U);
  product(now, Y, (int)now->n[R], C, X, D, U);
}

const Model model = {
    .token = "{space}",
    .count = COUNT,
    .settable = BIT(N) | BIT(M) | BIT(R) | BIT(A) | BIT(B) | BIT(C) | BIT(D) | BIT(U) | BIT(X),
    .types = "dLLLdddddddd",
    .start = start,
    .update = update,
    .cells = cells,
    .configured = configured,
};
