/* Units that take a given time, and bare threads that do the same work without any synchronisation.
 *
 * Used by benchmarks/parallel.py. The work is a chain of multiplications, each of which waits for the one before:
 * it needs no memory, so that two cores can do twice as much of it unless they are slowed down by their waiting.
 */
#include <pthread.h>
#include <stdlib.h>

#include "upbeat/unit.h"

typedef struct {
  double u, y;
  long work;
} unit;

static double worked(double y, long work) {
  for (long i = 0; i < work; ++i) y = y * 0.999 + 0.001;
  return y;
}

void* create(const char* name, double start, const upbeat_cell* parameters) {
  (void)name;
  (void)start;
  unit* made = calloc(1, sizeof *made);
  if (made) made->work = (long)parameters[0].i;
  return made;
}

void destroy(void* self) { free(self); }

int get(void* self, int port, upbeat_cell* to) {
  (void)port;
  to->r = ((unit*)self)->y;
  return 0;
}

int set(void* self, int port, const upbeat_cell* coefficients, int count) {
  (void)port;
  (void)count;
  ((unit*)self)->u = coefficients[0].r;
  return 0;
}

int advance(void* self, double t, double to, int early, double* reached) {
  (void)t;
  (void)early;
  unit* own = self;
  own->y = worked(own->u, own->work);
  *reached = to;
  return 0;
}

typedef struct {
  long times, work;
  double y;
} load;

static void* carry(void* given) {
  load* own = given;
  double y = 0.5;
  for (long i = 0; i < own->times; ++i) y = worked(y, own->work);
  own->y = y;
  return 0;
}

/* So much work so many times in each of these threads; the result is there so that nobody leaves it out. */
double bare(int threads, long times, long work) {
  pthread_t* made = calloc((size_t)threads, sizeof *made);
  load* loads = calloc((size_t)threads, sizeof *loads);
  double sum = 0.0;
  for (int i = 0; i < threads; ++i) loads[i] = (load){times, work, 0.0};
  for (int i = 1; i < threads; ++i) {
    if (pthread_create(&made[i], 0, carry, &loads[i])) abort();
  }
  carry(&loads[0]);
  for (int i = 1; i < threads; ++i) pthread_join(made[i], 0);
  for (int i = 0; i < threads; ++i) sum += loads[i].y;
  free(made);
  free(loads);
  return sum;
}
