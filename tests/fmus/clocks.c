/* Clocks of FMI 3: each counts its own ticks.
 *
 * `tick` is periodic (0.1 s). `wait` is a countdown: after its k-th tick the next one comes (k + 1) 0.15 s later.
 * `hit` is triggered from outside and takes the input `u` over into `held`. `alarm` is an output clock that
 * ticks with every third tick of `tick`, and if `hit` brings more than 100; `told` counts its ticks. */
#include "model.h"

enum { TIME, TICK, TICKS, PRE_TICKS, WAIT, WAITS, HIT, U, HELD, ALARM, TOLD, COUNT, ASKED = COUNT };

static void start(Now* now) { now->n[WAITS] = 0; }

/* Inputs of a clock are set while it ticks, so what becomes of them is seen after that. */
static void update(Now* now) {
  if (!now->n[HIT]) return;
  now->v[HELD] = now->v[U];
  if (now->v[U] <= 100 || now->n[ALARM]) return;
  now->n[ALARM] = 1;
  now->n[TOLD]++;
}

static void tick(Now* now, int clock) {
  if (clock == TICK) {
    now->n[TICKS] = now->n[PRE_TICKS] + 1;
    now->n[ALARM] = now->n[TICKS] % 3 == 0;
    now->n[TOLD] += now->n[ALARM];
  }
  if (clock == WAIT) now->n[WAITS]++;
}

static bool event(Now* now) {
  update(now);
  now->n[PRE_TICKS] = now->n[TICKS];
  return false;
}

static double interval(Now* now, int clock, int* qualifier) {
  *qualifier = 2; /* changed */
  if (clock == TICK) return 0.1;
  if (clock == WAIT) {
    if (now->n[ASKED] == now->n[WAITS] + 1) *qualifier = 1; /* unchanged since it was asked for */
    now->n[ASKED] = now->n[WAITS] + 1;
    return 0.15 * (double)(now->n[WAITS] + 1);
  }
  *qualifier = 0; /* not yet known */
  return 0;
}

const Model model = {
    .token = "{clocks}",
    .count = COUNT,
    .settable = BIT(TICK) | BIT(WAIT) | BIT(HIT) | BIT(U) | BIT(PRE_TICKS),
    .types = "dciicicddci",
    .start = start,
    .update = update,
    .event = event,
    .tick = tick,
    .interval = interval,
};
