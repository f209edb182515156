/* The plain-C interface through which a unit enters the native engine: one table of functions.
 *
 * An FMU, an expression unit, a callback into Python and a nested scenario are all this table.
 *
 * Call order. After the maker of the unit has handed over the table, `set` and `get` come in any
 * order at the unit's own time; `advance` moves that time; `jump` is one discrete micro-step at it.
 * `save` and `restore` come between any two of these calls. The engine calls one unit from one
 * thread at a time, and never again after a call has failed, except for `message`, `reset` and `destroy`.
 *
 * What failure means. Every call returns 0, or a positive number to say that it could not be
 * carried out. The engine then asks `message` once, ends the run, names unit, call and time, and
 * keeps what was recorded. A unit must not throw, and must not jump out of a call. Statuses below 0
 * are reserved: a later version of this interface may give them a meaning.
 *
 * Memory. A unit allocates when it is made, not in these calls: the engine calls them in its
 * innermost loop.
 *
 * Versions. Members are only ever appended to the table, and all but the first five may be null. `size`
 * says how many a unit was compiled with, so that units and engines of different versions fit:
 * what only one side knows counts as null.
 */
#ifndef UPBEAT_UNIT_H
#define UPBEAT_UNIT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What one cell of a port carries: a real in `r`; an integer, a boolean (0 or 1) or the number of a
 * string in the run's pool in `i`. */
typedef union upbeat_cell {
  double r;
  int64_t i;
} upbeat_cell;

/* Inputs arrive as polynomials of at most this degree. */
#define UPBEAT_MAX_DEGREE 5

/* How many numbers `statistics` gives. */
#define UPBEAT_STATISTICS 4

typedef struct upbeat_unit {
  /* sizeof(upbeat_unit) where the table was filled. The engine reads no further. */
  uint32_t size;

  /* Handed to every call. */
  void* self;

  /* The value of an output, all its cells, at the unit's own time. Asking twice changes nothing. */
  int (*get)(void* self, int port, upbeat_cell* to);

  /* From the unit's own time T on the input is the sum of coefficient k times (t - T)^k. There are
   * `count` = degree + 1 of them, coefficient by coefficient: [c0 of every cell, c1 of every cell,
   * ...]. Integers, booleans and strings always come with count = 1. */
  int (*set)(void* self, int port, const upbeat_cell* coefficients, int count);

  /* Simulate from `t` (the unit's own time) to `to`; `*reached` comes in as `to`. With `early` the
   * unit may stop before `to`, at an event, and say so in `*reached`; without it anything but `to`
   * ends the run. */
  int (*advance)(void* self, double t, double to, int early, double* reached);

  /* One discrete micro-step at the unit's own time; `*again` comes in as 0. May be null: a unit
   * without discrete behaviour never asks for another one. */
  int (*jump)(void* self, int* again);

  /* Keep the whole state, inputs included, under a small number from 0 on; set it back, any number
   * of times. Numbers are used again, lowest first: there are as many as states are kept at once.
   * Both null: the unit cannot be set back, and a master that needs it is refused. */
  int (*save)(void* self, int slot);
  int (*restore)(void* self, int slot);

  /* Why the last call failed, in UTF-8, valid until the next call; may be null, may return null. */
  const char* (*message)(void* self);

  /* The unit is no longer needed; may be null. */
  void (*destroy)(void* self);

  /* The partial derivatives of an output by an input it depends on directly, at the unit's own time:
   * row by row, one row per cell of the output, one column per cell of the input. Asking twice changes
   * nothing. Null: the unit does not know them. */
  int (*slope)(void* self, int output, int input, upbeat_cell* to);

  /* A saved state as bytes, and back, in another process too. `pack` writes at most `*size` bytes to `to`
   * and leaves in `*size` how many there are: call it with 0 to ask. `unpack` makes `slot` hold the state.
   * `unpack` may refuse bytes that are no state of this unit without harm: the unit goes on as it was.
   * These two may allocate. Both null: states do not leave the process. */
  int (*pack)(void* self, int slot, void* to, uint64_t* size);
  int (*unpack)(void* self, int slot, const void* from, uint64_t size);

  /* The time of the unit's next event, in `*time`: its own time or earlier if something is due at once,
   * infinity if nothing will happen by itself. Null: it has no events of its own. */
  int (*due)(void* self, double* time);

  /* How hard the unit's own solver has worked since it was made, in UPBEAT_STATISTICS numbers: steps that stand, steps
   * that were made again with a shorter length, steps that ended early where an event indicator changed its sign,
   * and evaluations of the derivatives. Null: it has none, or does not tell. */
  int (*statistics)(void* self, int64_t* to);

  /* Begin again at time `start`, as a unit that has just been made. `values` are other numbers in place of those that it was
   * made with, as many and in the order that its maker knows (of equations: the start values of states, those of
   * inputs, then parameters, cell by cell); null: those of the last time. Null: make another unit instead. */
  int (*reset)(void* self, double start, const double* values);
} upbeat_unit;

#ifdef __cplusplus
}
#endif

#endif
