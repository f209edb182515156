/* What a model of the test FMUs provides: variables numbered by their value reference; 0 is time.
 *
 * A model is one `const Model model`. What it leaves out (NULL, 0) it does not have. The shims (fmi2.c,
 * fmi3.c) do everything that has to do with FMI. */
#ifndef MODEL_H
#define MODEL_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REFS 64   /* most variables */
#define CELLS 320 /* most real cells: an array has several */
#define STATES 16
#define ZS 4
#define TEXTS 8
#define TEXT 256

typedef struct {
  size_t size;
  char data[TEXT]; /* ends with a zero, which does not count */
} Text;

/* Everything that a saved state has to cover. */
typedef struct {
  double v[CELLS];     /* reals, by reference unless the model has arrays; v[0] is time */
  double slope[CELLS]; /* of inputs, during the next step */
  int64_t n[REFS];     /* integers, booleans, enumerations; clocks: does it tick? */
  Text text[TEXTS];    /* strings and binaries, in the order of their references */
  double next;         /* the next time event */
  int states;
  int state[STATES]; /* the cells of the continuous states, and of their derivatives */
  int rate[STATES];
} Now;

typedef enum { OK, WARNING, DISCARD, ERROR, FATAL, PENDING, END } Answer; /* END: of the simulation, please */
/* SETUP: the experiment is set up, from t to h (NaN: open). BEGUN: initialization mode has been left. */
typedef enum { INSTANTIATE, FREE, STEP, SAVE, RESTORED, SETUP, BEGUN } Moment;

typedef struct {
  const char* token;
  int count;         /* of references */
  uint64_t settable; /* one bit per reference: may it be set from outside? */
  /* One letter per reference: d(ouble) f(loat) b(oolean) s(tring) x (binary) c(lock), integers of 8, 16, 32 and
     64 bits a h i l, unsigned A H I L. NULL: doubles only. Enumerations have an l. */
  const char* types;
  int states; /* continuous ones, if their number is fixed */
  int state[STATES];
  int rate[STATES];
  int indicators;
  void (*start)(Now*);                                      /* fill in the start values */
  void (*update)(Now*);                                     /* compute derivatives and outputs from all the others */
  double (*partial)(const Now*, int unknown, int known);    /* of a computed variable by a state or an input */
  void (*indicate)(const Now*, double* z);                  /* an event when one of these changes its sign */
  bool (*event)(Now*);                                      /* one round; did a continuous state change? */
  void (*tick)(Now*, int clock);                            /* an input clock ticks */
  double (*interval)(Now*, int clock, int* qualifier);
  int (*cells)(const Now*, int reference, int* first);      /* how many an array has, and where they begin */
  void (*configured)(Now*);                                 /* structural parameters have been set */
  Answer (*step)(Now*, double t, double h);                 /* instead of the solver; moves v[0] */
  Answer (*misbehave)(Moment, Now*, double t, double h);    /* before the moment; answers other than OK are final */
} Model;

extern const Model model;

#define BIT(reference) ((uint64_t)1 << (reference))

#endif
