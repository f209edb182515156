/* Time events: every `period` the output goes up by `rise`. Their times are multiples, never sums.
 * With MOST there are no more than that many. */
#include "model.h"

#ifndef MOST
#define MOST INT64_MAX
#endif

enum { TIME, PERIOD, RISE, Y, COUNTED, COUNT };

static void start(Now* now) {
  now->v[PERIOD] = 0.25;
  now->v[RISE] = 1.5;
  now->next = 0; /* nothing is known before the first event */
}

static void update(Now* now) { now->v[Y] = now->v[RISE] * (double)now->n[COUNTED]; }

static bool event(Now* now) {
  while (now->n[COUNTED] < MOST && (double)(now->n[COUNTED] + 1) * now->v[PERIOD] <= now->v[TIME]) now->n[COUNTED]++;
  now->next = now->n[COUNTED] < MOST ? (double)(now->n[COUNTED] + 1) * now->v[PERIOD] : INFINITY;
  return false;
}

const Model model = {
    .token = "{stairs}",
    .count = COUNT,
    .settable = BIT(PERIOD) | BIT(RISE),
    .types = "ddddi",
    .start = start,
    .update = update,
    .event = event,
};
