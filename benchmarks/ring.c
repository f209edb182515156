/* The unit of the ring benchmark and the loop over it that one would write by hand.
 *
 * Compiled twice by benchmarks/overhead.py: with WORK iterations of own work (about 100 ns, like a
 * small FMU) and with none. The loop does what the engine's program does, call for call: advance
 * all, get all, set all, record a row. It reaches the units through the same table of functions, in
 * a library of its own, so that neither side can be inlined.
 */
#include <stdlib.h>
#include <string.h>

#include "upbeat/unit.h"

#ifdef RING_UNIT

typedef struct {
  double u, y;
} ring_unit;

int ring_get(void* self, int port, upbeat_cell* to) {
  (void)port;
  to->r = ((ring_unit*)self)->y;
  return 0;
}

int ring_set(void* self, int port, const upbeat_cell* coefficients, int count) {
  (void)port;
  (void)count;
  ((ring_unit*)self)->u = coefficients[0].r;
  return 0;
}

int ring_advance(void* self, double t, double to, int early, double* reached) {
  (void)t;
  (void)early;
  ring_unit* unit = self;
  double y = unit->u;
  for (int i = 0; i < WORK; ++i) y = y * 0.999 + 0.001;
  unit->y = y;
  *reached = to;
  return 0;
}

void ring_destroy(void* self) { free(self); }

void* ring_create(const char* name, double start, const double* parameters) {
  (void)name;
  (void)start;
  (void)parameters;
  return calloc(1, sizeof(ring_unit));
}

/* Tables for n units, for the loop below; `ring_free` gives them back. */
upbeat_unit* ring_units(int n) {
  upbeat_unit* units = calloc((size_t)n, sizeof *units);
  for (int i = 0; i < n; ++i) {
    units[i].size = sizeof *units;
    units[i].self = ring_create("", 0.0, NULL);
    units[i].get = ring_get;
    units[i].set = ring_set;
    units[i].advance = ring_advance;
  }
  return units;
}

void ring_free(upbeat_unit* units, int n) {
  for (int i = 0; i < n; ++i) ring_destroy(units[i].self);
  free(units);
}

#else

/* `record` has room for (steps + 1) rows of n + 1 values: the time, then every output. */
void ring_loop(upbeat_unit* units, int n, long steps, double h, double* record) {
  upbeat_cell* y = calloc((size_t)n, sizeof *y);
  double now = 0.0;
  for (int i = 0; i < n; ++i) units[i].get(units[i].self, 0, &y[i]);
  for (int i = 0; i < n; ++i) units[i].set(units[i].self, 0, &y[(i + n - 1) % n], 1);
  *record++ = now;
  memcpy(record, y, (size_t)n * sizeof *y);
  record += n;
  for (long k = 1; k <= steps; ++k) {
    double next = (double)k * h, reached;
    for (int i = 0; i < n; ++i)
      if (units[i].advance(units[i].self, now, next, 0, &reached) || reached != next) abort();
    for (int i = 0; i < n; ++i)
      if (units[i].get(units[i].self, 0, &y[i])) abort();
    for (int i = 0; i < n; ++i)
      if (units[i].set(units[i].self, 0, &y[i ? i - 1 : n - 1], 1)) abort();
    now = next;
    *record++ = now;
    memcpy(record, y, (size_t)n * sizeof *y);
    record += n;
  }
  free(y);
}

#endif
