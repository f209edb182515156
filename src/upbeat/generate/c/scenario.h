/* A scenario as the functions of FMI see it: one unit (upbeat/unit.h), and what its variables are.
 *
 * Behind these functions is either generated code (scenario.c, in an FMU with sources) or the native core, which reads the
 * program from the FMU's resources (native/export/scenario.cpp). */
#ifndef UPBEAT_SCENARIO_H
#define UPBEAT_SCENARIO_H

#ifdef UPBEAT_GENERATED /* code which has brought the table of functions, and is all in one file */
typedef cell upbeat_cell;
#define SCENARIO static
#else
#include "upbeat/unit.h"
#define SCENARIO
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What a variable is to those outside. */
enum {
  ROLE_TIME,      /* the time of the scenario */
  ROLE_INPUT,     /* set at any time */
  ROLE_SHOWN,     /* an output, or what else the unit shows; its start value may be set, if it has one */
  ROLE_PARAMETER, /* set before the start */
  ROLE_TUNABLE,   /* a parameter that may be set in a run, too */
  ROLE_CONSTANT,  /* written into the program: nobody sets it */
  ROLE_DISCARD,   /* FMI 2: whether steps are discarded at events */
  ROLE_STATE,     /* model exchange: a state, which may be set before the start; `port` is its place among the states */
  ROLE_RATE,      /* … its derivative, */
  ROLE_INDICATOR  /* and an event indicator */
};
enum { KIND_REAL, KIND_INTEGER, KIND_TRUTH, KIND_TEXT };

/* A variable; its number is its place among all. */
typedef struct scenario_variable {
  int32_t role, kind;
  int32_t port;   /* of the unit; -1: none */
  int32_t cell;   /* the first of its cells in the port: in FMI 2 every cell of an array is a variable */
  int32_t cells;
  int32_t width;  /* how many cells the port has */
  int32_t value;  /* the place of its first cell among the values; -1: it has none */
  int32_t rate;   /* the port with its time derivative; -1: that is not known. In model exchange: its place in `directional` */
} scenario_variable;

/* The equations of a scenario that is one set of them, for model exchange: states, their derivatives and event indicators at
 * the unit's own time. Each function returns 0 if all went well. */
typedef struct scenario_equations {
  int32_t states, indicators;
  int (*place)(void *self, double t, const double *x); /* the time and the states from now on; null: they stay */
  int (*read)(void *self, double *x);
  int (*rates)(void *self, double *to);
  int (*look)(void *self, double *to); /* the indicators */
  /* How derivatives and outputs change with states and inputs: seeds of all states, then of all cells of real inputs in their
   * order; results for all states, then for all cells of real outputs. Null: not known. */
  int (*directional)(void *self, const double *seeds, double *to);
} scenario_equations;

typedef struct scenario_description {
  const char *token;
  const scenario_variable *variables;
  int32_t variable_count;
  const upbeat_cell *values; /* at the start: of states, inputs and parameters; texts by number */
  int32_t value_count;
  int32_t widest; /* the most cells of a port */
  int32_t any_start; /* whether values and program are the same at any start time */
  double start;   /* the start time that they are for */
  /* Model exchange: how many states and indicators there are; and in `directional`, how many cells of inputs and of outputs. */
  int32_t state_count, indicator_count, seeded_count, seen_count;
} scenario_description;

typedef struct scenario scenario;

/* Told of every event that has happened. */
typedef void (*scenario_say)(void *to, const char *event, double time);

/* A scenario without units yet. Null: see `why`, which has room for 1000 characters. `resources` is the path of a folder. */
SCENARIO scenario *scenario_new(const char *resources, const char *token, int exchange, char *why);
SCENARIO void scenario_free(scenario *s);
SCENARIO const scenario_description *scenario_described(const scenario *s);

/* The unit from its start values, with all that happens at the start time. Null: see `scenario_message`. It belongs to the
 * scenario, and takes the place of the one before; states that were kept of that one can be set back nevertheless. With `early`, `advance` ends where something happens: outputs are then
 * those before it, `due` is the unit's own time, and `jump` lets it be seen. Where the
 * scenario is over (`scenario_over`) it stops in any case. */
SCENARIO const upbeat_unit *scenario_begin(scenario *s, double t, const upbeat_cell *values);
SCENARIO const scenario_equations *scenario_equations_of(scenario *s); /* null: there are none, or it has not begun */
SCENARIO int scenario_over(const scenario *s); /* whether an event in it asked for the end: it goes no further */
SCENARIO void scenario_listen(scenario *s, scenario_say say, void *to);
SCENARIO const char *scenario_message(scenario *s);

/* Texts by number, and back. Null and -1: there is no such number, or no memory. */
SCENARIO int64_t scenario_intern(scenario *s, const char *text);
SCENARIO const char *scenario_text(const scenario *s, int64_t number);

#ifdef __cplusplus
}
#endif
#endif
