/* x' = u - x, w' = x, with outputs y = x, z = w and f = 2 u; and one thing wrong with it, which FAULT names.
 *
 * What goes wrong at a time does so in the step that begins at or after `at`. */
#define _DEFAULT_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model.h"

enum { TIME, AT, U, X, DX, W, DW, Y, Z, F, HELD, STOP_TIME, READY, COUNT };
enum {
  NOTHING,
  CRASH,        /* writes to address 0 */
  HANG,
  EXIT,         /* ends the process with exit code 3 */
  FAIL,         /* answers with an error */
  DOOM,         /* answers "fatal" after a while, and aborts when any instance is called again */
  PEND,         /* answers FMI 2's "pending" */
  WARN,         /* answers every step with a warning */
  STOP,         /* asks for the end of the simulation */
  PARTIAL,      /* does at most 0.03 of a step */
  STUCK,        /* does nothing of a step, in a friendly way */
  FORGET,       /* a restored state lacks w */
  APPROXIMATE,  /* a restored state is 5e-7 off */
  SAVECRASH,    /* crashes while it saves its state */
  LEAK,         /* 200 kB per instance */
  MOODY,        /* what it computes depends on how many instances there have been */
  ONCE,         /* refuses a second instance */
  DELAYED,      /* f follows u at the next step only */
  TOUCHY,       /* refuses steps below 1e-6 */
  PICKY,        /* refuses every input but 0 */
  RACY,         /* all instances compute in the same place */
  PRINTING,     /* prints to standard output, through C's buffer and past it */
  SEGFAULT,     /* as CRASH, and leaves the handlers of signals alone */
  RESETS,       /* forgets what was set when the experiment is set up (FMI 2) */
  STUBBORN,     /* takes another value of `at`, and does not keep it */
  EXPIRES,      /* refuses steps beyond the stop time, which is 0.5 if it is told none */
  UNREADY,      /* outputs are 0 until initialization mode is over */
  PRECISE       /* takes steps of 0.1 only, to the last bit */
};

static int instances, alive;
static volatile bool doomed;
static volatile double scratch;

static void start(Now* now) {
  now->v[AT] = 0.5;
  now->v[X] = 1;
}

static void update(Now* now) {
  double* v = now->v;
  v[DX] = v[U] - v[X];
  v[DW] = v[X];
  v[Y] = v[X];
  v[Z] = v[W];
  v[F] = 2 * (FAULT == DELAYED ? v[HELD] : v[U]);
  if (FAULT == STUBBORN) v[AT] = 0.5;
  if (FAULT == UNREADY && v[READY] == 0) v[Y] = v[Z] = v[F] = 0;
  if (FAULT == MOODY) v[DX] += 0.01 * (instances - 1);
}

/* Euler's method is enough here; the pause makes sure that another thread gets in between. */
static Answer race(Now* now, double t, double h) {
  scratch = now->v[X];
  usleep(200);
  now->v[X] = scratch + h * (now->v[U] - scratch);
  now->v[W] += h * scratch;
  now->v[TIME] = t + h;
  return OK;
}

static Answer part(Now* now, double t, double h) {
  double done = FAULT == STUCK ? 0 : h > 0.03 ? 0.03 : h;
  now->v[W] += (1 - exp(-done)) * now->v[X];
  now->v[X] *= exp(-done);
  now->v[TIME] = h > 0.03 || FAULT == STUCK ? t + done : t + h;
  return done < h ? DISCARD : OK;
}

static Answer at_step(Now* now, double t, double h) {
  now->v[HELD] = now->v[U];
  if (FAULT == TOUCHY && h < 1e-6) return ERROR;
  if (FAULT == EXPIRES && t + h > now->v[STOP_TIME] + 1e-9) return ERROR;
  if (FAULT == PRECISE && h != 0.1) return ERROR;
  if (FAULT == PICKY && now->v[U] != 0) return ERROR;
  if (FAULT == WARN) return WARNING;
  if (FAULT == PRINTING && write(1, "chatter\n", 8) == 8) return printf("more chatter\n"), OK;
  if (doomed) abort();
  if (t < now->v[AT]) return OK;
  if (FAULT == CRASH) {
    signal(SIGSEGV, SIG_DFL); /* whatever tool listens, it shall die */
    *(volatile int*)0 = 1;
  }
  if (FAULT == SEGFAULT) *(volatile int*)0 = 1;
  while (FAULT == HANG) usleep(1000);
  if (FAULT == EXIT) exit(3);
  if (FAULT == DOOM) return usleep(20000), doomed = true, FATAL; /* others have ended their step meanwhile */
  return FAULT == FAIL ? ERROR : FAULT == PEND ? PENDING : FAULT == STOP ? END : OK;
}

static Answer misbehave(Moment moment, Now* now, double t, double h) {
  if (moment == STEP) return at_step(now, t, h);
  if (moment == INSTANTIATE) {
    if (FAULT == ONCE && alive > 0) return ERROR;
    instances++;
    alive++;
    if (FAULT == LEAK) {
      volatile char* lost = (volatile char*)malloc(200000);
      size_t i;
      for (i = 0; lost && i < 200000; i += 1000) lost[i] = 1;
    }
  }
  if (moment == FREE) {
    if (doomed) abort();
    alive--;
  }
  if (moment == SAVE && FAULT == SAVECRASH) {
    signal(SIGSEGV, SIG_DFL);
    *(volatile int*)0 = 1;
  }
  if (moment == SETUP && FAULT == RESETS) start(now);
  if (moment == SETUP) now->v[STOP_TIME] = isnan(h) ? 0.5 : h;
  if (moment == BEGUN) now->v[READY] = 1;
  if (moment == RESTORED && FAULT == FORGET) now->v[W] = 0;
  if (moment == RESTORED && FAULT == APPROXIMATE) now->v[X] += 5e-7;
  return OK;
}

static double partial(const Now* now, int unknown, int known) {
  (void)now;
  if (unknown == DX) return known == U ? 1 : known == X ? -1 : 0;
  if (unknown == F) return known == U ? 2 : 0;
  return (unknown == DW || unknown == Y) ? known == X : unknown == Z && known == W;
}

const Model model = {
    .token = "{faults}",
    .count = COUNT,
    .settable = BIT(AT) | BIT(U) | BIT(X) | BIT(W),
    .states = 2,
    .state = {X, W},
    .rate = {DX, DW},
    .start = start,
    .update = update,
    .partial = partial,
    .step = FAULT == RACY ? race : FAULT == PARTIAL || FAULT == STUCK ? part : NULL,
    .misbehave = misbehave,
};
