/* What generated programs share, in sections: of each, only what a program needs is printed into it.
 *
 * A section begins with a line "//@ name: needs needs" and ends where the next one begins. The order of floating-point
 * operations is that of the Python modules that the sections name, and of their twins in native/src: all give the same bits.
 * A computation (upbeat.master.computations) has the section compute_ and its name in small letters; a function of
 * expressions (upbeat.core.expr.operations) that is not one of the C library, op_ and its name. */
//@ head:
#include <math.h>
#include <stdint.h>

typedef double real;
/* One cell of the register file: a real number in r; an integer, a truth value or the number of a text in i. */
typedef union upbeat_cell {
  real r;
  int64_t i;
} cell;

/* Why a run stopped: a fault (see the enum), the row of the program where, and numbers that tell more. What a unit says is a
 * code, with a, b and d. Outside any block (row -1) a refusal is that of the unit whose number is in start, when it was set
 * (until is 2, cell the port) or when a run began (until is 7). */
typedef struct upbeat_error {
  int32_t fault, row, cell, code;
  real time, start, until, value, a, b, d;
} upbeat_error;

enum {
  FAULT_REFUSED = 1,
  FAULT_NOT_FINITE = 2,
  FAULT_NOT_REACHED = 3,
  FAULT_EXHAUSTED = 5,
  FAULT_EMPTY_SLOT = 6,
  FAULT_NO_PROGRESS = 7,
  FAULT_BAD_STEP = 8,
  FAULT_REJECTED = 9,
  FAULT_CHATTERING = 12,
  FAULT_LOG_FULL = 14
};
enum {
  SAYS_BACKWARDS = 1,    /* from a to b */
  SAYS_TOO_MANY = 2,     /* steps of a would not cover b */
  SAYS_TOO_SMALL = 3,    /* the step fell to a at b */
  SAYS_NOT_THERE = 4,    /* did not reach a, at b with step d */
  SAYS_NO_SOLVER = 5,    /* there is no solver a of b */
  SAYS_MISFIT = 6,       /* a is no value of the kind b */
  SAYS_ENDLESS = 7,      /* events without end, the last at a */
  SAYS_NO_MODE = 8,      /* there is no mode a, only up to b */
  SAYS_NO_TIME = 9,      /* the time of the next event is not a number */
  SAYS_COEFFICIENTS = 10, /* a coefficients where at most b fit */
  SAYS_NO_PORT = 11,     /* there is no input number a */
  SAYS_INSIDE = 12,      /* something failed inside a nested scenario: see its error */
  SAYS_STATUS = 13       /* a unit that was attached returned the status a: ask its message */
};

//@ exact:
#if defined(__GNUC__) && !defined(__cplusplus)
/* They depend on nothing but their arguments; and none may be replaced by another one, with other last bits. */
extern double sin(double) __attribute__((const));
extern double cos(double) __attribute__((const));
extern double tan(double) __attribute__((const));
extern double asin(double) __attribute__((const));
extern double acos(double) __attribute__((const));
extern double atan(double) __attribute__((const));
extern double atan2(double, double) __attribute__((const));
extern double sinh(double) __attribute__((const));
extern double cosh(double) __attribute__((const));
extern double tanh(double) __attribute__((const));
extern double exp(double) __attribute__((const));
extern double log(double) __attribute__((const));
extern double log10(double) __attribute__((const));
extern double pow(double, double) __attribute__((const));
extern double hypot(double, double) __attribute__((const));
#endif
//@ exact_single:
//@ refuse:
static inline int refuse(upbeat_error *e, int32_t code, real a, real b, real d) {
  e->code = code;
  e->a = a;
  e->b = b;
  e->d = d;
  return 1;
}
//@ unit:
/* The functions of a unit: the table of upbeat/unit.h, which says what each one does; those after advance may be null. */
#define UPBEAT_MAX_DEGREE 5
typedef struct upbeat_unit {
  uint32_t size;
  void *self;
  int (*get)(void *self, int port, cell *to);
  int (*set)(void *self, int port, const cell *coefficients, int count);
  int (*advance)(void *self, double t, double to, int early, double *reached);
  int (*jump)(void *self, int *again);
  int (*save)(void *self, int slot);
  int (*restore)(void *self, int slot);
  const char *(*message)(void *self);
  void (*destroy)(void *self);
  int (*slope)(void *self, int output, int input, cell *to);
  int (*pack)(void *self, int slot, void *to, uint64_t *size);
  int (*unpack)(void *self, int slot, const void *from, uint64_t size);
  int (*due)(void *self, double *time);
  int (*statistics)(void *self, int64_t *to);
  int (*reset)(void *self, double start, const double *values);
} upbeat_unit;
//@ external: unit
/* A unit that is not printed: whoever runs the program attaches its functions. */
typedef struct {
  real clock;
} external_state;
typedef struct {
  const upbeat_unit *unit;
  real clock;
} external;
static inline void external_begin(external *u, real t, const real *v) {
  (void)v;
  u->unit = 0;
  u->clock = t;
}
static inline int external_status(int status, upbeat_error *e) {
  return status ? refuse(e, SAYS_STATUS, (real)status, 0.0, 0.0) : 0;
}
static inline int external_get(external *u, int32_t port, cell *to, upbeat_error *e) {
  return external_status(u->unit->get(u->unit->self, port, to), e);
}
static inline int external_set(external *u, int32_t port, const cell *from, int32_t count, upbeat_error *e) {
  return external_status(u->unit->set(u->unit->self, port, from, count), e);
}
static inline int external_advance(external *u, real t, real to, int early, real *reached, upbeat_error *e) {
  double at = to;
  const int status = u->unit->advance(u->unit->self, t, to, early, &at);
  *reached = at;
  return external_status(status, e);
}
static inline int external_jump(external *u, int *again, upbeat_error *e) {
  return u->unit->jump ? external_status(u->unit->jump(u->unit->self, again), e) : 0;
}
static inline int external_due(external *u, real *time, upbeat_error *e) {
  double at = INFINITY;
  const int status = u->unit->due ? u->unit->due(u->unit->self, &at) : 0;
  *time = at;
  return external_status(status, e);
}
static inline int external_slope(external *u, int32_t output, int32_t input, cell *to, upbeat_error *e) {
  if (!u->unit->slope) return external_status(-1, e);
  return external_status(u->unit->slope(u->unit->self, output, input, to), e);
}
static inline int external_save(external *u, int32_t slot, upbeat_error *e) {
  return external_status(u->unit->save ? u->unit->save(u->unit->self, slot) : -1, e);
}
static inline int external_back(external *u, int32_t slot, upbeat_error *e) {
  return external_status(u->unit->restore ? u->unit->restore(u->unit->self, slot) : -1, e);
}
static inline void external_restore(external *u, const external_state *s) { u->clock = s->clock; }
//@ finite:
static inline int finite_number(real value) { return value - value == 0.0; }
//@ numbers: finite
/* Whether these are numbers to go on with: those of a port of so many cells, or several courses of one. */
static inline int are_numbers(const cell *from, int32_t count, int32_t width, upbeat_error *e) {
  for (int32_t i = 0; i < count; ++i) {
    if (finite_number(from[i].r)) continue;
    e->cell = i % width;
    e->value = from[i].r;
    return 0;
  }
  return 1;
}
//@ to_integer:
/* The nearest integer, halves to even; 0 for a number that has none. */
static inline int64_t to_integer(real value) {
  const real rounded = nearbyint(value);
  if (!(rounded >= -9223372036854775808.0 && rounded < 9223372036854775808.0)) return 0;
  return (int64_t)rounded;
}
//@ misfit:
/* Whether a number that was computed cannot be a truth value (2), or an integer (1). */
static inline int is_misfit(real value, int32_t kind) {
  return kind == 2 ? value != value : kind == 1 && !(fabs(value) < 9223372036854775808.0);
}
//@ copy:
static inline void copy_cells(cell *to, const cell *from, int32_t count) {
  for (int32_t i = 0; i < count; ++i) to[i] = from[i];
}
//@ op_abs:
static inline real op_abs(real a) { return fabs(a); }
//@ op_floor:
static inline real op_floor(real a) { return floor(a); }
//@ op_ceil:
static inline real op_ceil(real a) { return ceil(a); }
//@ op_round:
static inline real op_round(real a) { return nearbyint(a); }
//@ op_sign:
static inline real op_sign(real a) { return (real)((a > 0.0) - (a < 0.0)); }
//@ op_min:
static inline real op_min(real a, real b) { return a < b ? a : b; }
//@ op_max:
static inline real op_max(real a, real b) { return a > b ? a : b; }
//@ op_clip:
static inline real op_clip(real a, real b, real c) { return a < b ? b : (a > c ? c : a); }
//@ op_mod:
static inline real op_mod(real a, real b) { return a - floor(a / b) * b; }
//@ op_power:
static inline real op_power(real a, real b) { return b == 2.0 ? a * a : b == 3.0 ? (a * a) * a : pow(a, b); }
//@ horner:
/* The value of a course: count coefficients, one every stride numbers, tau after its origin. */
static inline real horner(const real *c, int32_t count, int32_t stride, real tau) {
  real value = c[(count - 1) * stride];
  for (int32_t k = count - 2; k >= 0; --k) value = value * tau + c[k * stride];
  return value;
}
//@ knots:
/* How many knots are <= u; all of them if u is no number. */
static inline int32_t count_knots(const real *knots, int32_t count, real u) {
  int32_t low = 0, high = count;
  while (low < high) {
    const int32_t middle = (low + high) / 2;
    if (u < knots[middle]) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}
static inline real table_term(real c, real d) { return c == 0.0 ? 0.0 : c * d; }
//@ lookup1: knots
/* A table of one variable (upbeat.core.expr.tables): base and slope of each segment. */
static inline real lookup1(const real *x, int32_t count, const real *origin, const real *segments, real u) {
  const int32_t k = count_knots(x, count, u);
  const real d = u - origin[k];
  return d != d ? d : segments[2 * k] + table_term(segments[2 * k + 1], d);
}
//@ lookup2: knots
/* A table of two variables: four numbers for each patch. */
static inline real lookup2(const real *x, int32_t rows, const real *y, int32_t columns, const real *origin_x,
                           const real *origin_y, const real *patches, real u, real v) {
  const int32_t k = count_knots(x, rows, u);
  const int32_t l = count_knots(y, columns, v);
  const real dx = u - origin_x[k];
  const real dy = v - origin_y[l];
  if (dx != dx) return dx;
  if (dy != dy) return dy;
  const real *const p = patches + 4 * (k * (columns + 1) + l);
  return ((p[0] + table_term(p[1], dx)) + table_term(p[2], dy)) + table_term(p[3], dx * dy);
}
//@ larger:
static inline real larger(real a, real b) { return a < b ? b : a; }
static inline real smaller(real a, real b) { return b < a ? b : a; }
//@ ulp:
/* The distance to the next number. */
static inline real ulp(real value) {
  union {
    double r;
    uint64_t i;
  } bits;
  bits.r = value;
  const uint64_t exponent = (bits.i >> 52) & 0x7ff;
  if (exponent == 0x7ff) return fabs(value);
  bits.i = exponent > 52 ? (exponent - 52) << 52 : (uint64_t)1 << (exponent > 0 ? exponent - 1 : 0);
  return bits.r;
}
//@ ulp_single:
/* The distance to the next number. */
static inline real ulp(real value) {
  const real size = fabs(value);
  return size < INFINITY ? nextafter(size, INFINITY) - size : size;
}
//@ micro_steps: larger
/* How many solver steps cover a length; 0 if too many. */
static inline int64_t micro_steps(real step, real length) {
  const real wanted = ceil(smaller(length / step, 2e9) * (1.0 - 1e-9));
  return wanted > 1e9 ? 0 : wanted < 1.0 ? 1 : (int64_t)wanted;
}
//@ step_factor: larger
/* By how much to change a step: within 0.2 and 5, and 0.2 if the error is not finite. */
static inline real step_factor(real error) {
  if (error == 0.0) return 5.0;
  if (!(error < INFINITY)) return 0.2;
  return larger(0.2, smaller(5.0, 0.9 * pow(error, -0.2)));
}
//@ weighted_norm: larger
/* The size of an error by what is allowed (upbeat.units.solving.integrate). */
static inline real weighted_norm(const real *values, const real *x, const real *next, int32_t n, real rtol, real atol) {
  real total = 0.0;
  for (int32_t j = 0; j < n; ++j) {
    const real part = values[j] / (atol + rtol * larger(fabs(x[j]), fabs(next[j])));
    total = total + part * part;
  }
  return sqrt(total / (real)n);
}
//@ crossings: larger ulp
/* Which indicators have another sign than at the low end; leaves the last answer as it was if there are none. */
static inline int find_crossings(const real *low, const real *now, char *found, int32_t count) {
  int any = 0;
  for (int32_t i = 0; i < count; ++i) {
    found[i] = (low[i] > 0.0) != (now[i] > 0.0);
    any = any || found[i];
  }
  return any;
}
static inline real first_root(const real *low, const real *high, int32_t count, real weight) {
  real first = 1.0;
  for (int32_t i = 0; i < count; ++i) {
    if ((low[i] > 0.0) == (high[i] > 0.0)) continue;
    const real scaled = weight * low[i];
    const real fall = scaled - high[i];
    real part = fall != 0.0 ? scaled / fall : 0.5;
    if (!(0.0 <= part && part <= 1.0)) part = 0.5;
    first = smaller(first, part);
  }
  return first;
}
//@ compute_solve:
/* A dense linear system, by elimination with pivots. */
static inline void compute_solve(cell *c, int32_t size, int32_t matrix, int32_t right, int32_t to, real *room) {
  real *const a = room;
  real *const b = room + size * size;
  for (int32_t i = 0; i < size * size; ++i) a[i] = c[matrix + i].r;
  for (int32_t i = 0; i < size; ++i) b[i] = c[right + i].r;
  for (int32_t k = 0; k < size; ++k) {
    int32_t pivot = k;
    for (int32_t i = k + 1; i < size; ++i) {
      if (fabs(a[i * size + k]) > fabs(a[pivot * size + k])) pivot = i;
    }
    if (pivot != k) {
      for (int32_t j = 0; j < size; ++j) {
        const real kept = a[k * size + j];
        a[k * size + j] = a[pivot * size + j];
        a[pivot * size + j] = kept;
      }
      const real kept = b[k];
      b[k] = b[pivot];
      b[pivot] = kept;
    }
    for (int32_t i = k + 1; i < size; ++i) {
      const real factor = a[i * size + k] / a[k * size + k];
      for (int32_t j = k + 1; j < size; ++j) a[i * size + j] = a[i * size + j] - factor * a[k * size + j];
      b[i] = b[i] - factor * b[k];
    }
  }
  for (int32_t i = size - 1; i >= 0; --i) {
    real rest = b[i];
    for (int32_t j = i + 1; j < size; ++j) rest = rest - a[i * size + j] * b[j];
    b[i] = rest / a[i * size + i];
  }
  for (int32_t i = 0; i < size; ++i) c[to + i].r = b[i];
}
//@ compute_pick:
static inline void compute_pick(cell *c, int32_t first, int32_t count, int32_t index, int32_t to) {
  const real wanted = c[index].r;
  const int32_t last = count - 1;
  c[to] = c[first + (!(wanted > 0.0) ? 0 : wanted >= (real)last ? last : (int32_t)nearbyint(wanted))];
}
//@ compute_rank:
static inline void compute_rank(cell *c, int32_t first, int32_t count, int32_t value, int32_t to) {
  const real wanted = c[value].r;
  int32_t low = 0, high = count;
  while (low < high) {
    const int32_t middle = (low + high) / 2;
    if (wanted < c[first + middle].r) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  c[to].r = (real)low;
}
//@ compute_grid:
/* The next point of a grid: its cells are the origin, the step, the last point, its number, and the limit up to which the next
 * number follows from that. */
static inline void compute_grid(cell *c, int32_t grid, int32_t now, int32_t limit, int32_t to) {
  cell *const g = c + grid;
  const real t = c[now].r, end = c[limit].r, origin = g[0].r, step = g[1].r;
  if (t == g[2].r && end == g[4].r) {
    g[3].r += 1.0;
  } else {
    g[3].r = floor((t - origin) / step + 1e-3) + 1.0;
    if (!(origin + g[3].r * step > t)) g[3].r += 1.0;
    const real a = fabs(origin), b = fabs(end);
    g[4].r = step > 1e-8 * (a < b ? b : a) ? end : -INFINITY;
  }
  const real until = origin + g[3].r * step;
  c[to].r = g[2].r = until > end - 1e-6 * step ? end : until;
}
//@ compute_fit:
/* Polynomials through samples (upbeat.master.prediction): listed are samples now, before, oldest; kept, apart, to, alone; orders. */
static inline void compute_fit(cell *c, int32_t numbers, const int32_t *listed) {
  const cell *now = c + listed[0], *old = c + listed[1], *oldest = c + listed[2];
  const real kept = c[listed[3]].r;
  const int near = c[listed[3] + 1].r != 0.0;
  const real h = c[listed[4]].r, more = c[listed[4] + 1].r;
  cell *to = c + listed[5];
  const int alone = listed[6] != 0;
  for (int32_t k = 0; k < numbers; ++k, now += 3, old += 3, oldest += 3, to += 6) {
    const cell *const other = alone ? now : old;
    int32_t order = listed[7 + k];
    if (order == 2 && (now[2].r != now[2].r || other[2].r != other[2].r)) order = 1;
    if (order == 1 && (now[1].r != now[1].r || other[1].r != other[1].r)) order = 0;
    const real z = now[0].r;
    real c1 = 0.0, c2 = 0.0, c3 = 0.0, c4 = 0.0, c5 = 0.0;
    if (order == 0) {
      if (kept < 2.0) {
        c1 = 0.0;
        c2 = 0.5 * 0.0;
      } else if (kept < 3.0) {
        c1 = (z - old[0].r) / h;
      } else {
        const real close = (z - old[0].r) / h;
        const real far = (old[0].r - oldest[0].r) / more;
        const real bend = (close - far) / (h + more);
        c1 = close + bend * h;
        c2 = bend;
      }
    } else if (kept < 2.0 || near || (alone && (old[1].r != old[1].r || (order == 2 && old[2].r != old[2].r)))) {
      c1 = now[1].r;
      c2 = 0.5 * (order == 2 ? now[2].r : 0.0);
    } else if (order == 1) {
      const real a = (old[0].r - z + now[1].r * h) / (h * h);
      const real b = (now[1].r - old[1].r) / h;
      c1 = now[1].r;
      c2 = 3.0 * a - b;
      c3 = (2.0 * a - b) / h;
    } else {
      const real half = 0.5 * now[2].r;
      const real d0 = old[0].r - (z - now[1].r * h + half * h * h);
      const real d1 = (old[1].r - (now[1].r - now[2].r * h)) * h;
      const real d2 = (old[2].r - now[2].r) * h * h;
      const real a = -10.0 * d0 - 4.0 * d1 - 0.5 * d2;
      const real b = 5.0 * d0 + 2.0 * a + d1;
      const real d = d1 + a + 4.0 * d0;
      const real cube = h * h * h;
      c1 = now[1].r;
      c2 = half;
      c3 = a / cube;
      c4 = b / (cube * h);
      c5 = d / (cube * h * h);
    }
    to[0].r = z;
    to[1].r = c1;
    to[2].r = c2;
    to[3].r = c3;
    to[4].r = c4;
    to[5].r = c5;
  }
}
//@ compute_fall:
/* When the largest of several polynomials, of six coefficients each, falls to zero (upbeat.master.prediction). */
static inline real curve_value(const cell *c, real at) {
  return c[0].r + at * (c[1].r + at * (c[2].r + at * (c[3].r + at * (c[4].r + at * c[5].r))));
}
static inline real curve_slope(const cell *c, real at) {
  return c[1].r + at * (2.0 * c[2].r + at * (3.0 * c[3].r + at * (4.0 * c[4].r + at * (5.0 * c[5].r))));
}
static inline int curve_stays_above(const cell *c, real span) {
  real fall = fabs(c[5].r);
  for (int k = 4; k >= 1; --k) fall = fall * span + fabs(c[k].r);
  return c[0].r - fall * span > 0.0;
}
static inline real largest_curve(const cell *curves, int32_t count, real at, int32_t *which) {
  real found = curve_value(curves, at);
  *which = 0;
  for (int32_t k = 1; k < count; ++k) {
    const real other = curve_value(curves + 6 * k, at);
    if (other > found) {
      found = other;
      *which = k;
    }
  }
  return found;
}
static inline real curve_root(const cell *curves, int32_t count, real low, real high) {
  int32_t which;
  for (int i = 0; i < 50; ++i) {
    const real middle = 0.5 * (low + high);
    if (largest_curve(curves, count, middle, &which) > 0.0) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return high;
}
/* Where it is lowest between two times; with the sign -1, highest. */
static inline real curve_dip(const cell *curves, int32_t count, real low, real high, real sign) {
  int32_t which;
  for (int i = 0; i < 40; ++i) {
    const real third = (high - low) / 3.0;
    const real one = low + third;
    const real two = high - third;
    if (sign * largest_curve(curves, count, one, &which) < sign * largest_curve(curves, count, two, &which)) {
      high = two;
    } else {
      low = one;
    }
  }
  return 0.5 * (low + high);
}
static inline real first_fall(const cell *curves, int32_t count, real span) {
  int32_t which;
  real left = 0.0;
  int above = largest_curve(curves, count, left, &which) > 0.0;
  real leaning = curve_slope(curves + 6 * which, left);
  for (int k = 1; k <= 8; ++k) {
    const real right = span * ((real)k / 8.0);
    const real now = largest_curve(curves, count, right, &which);
    const real slope = curve_slope(curves + 6 * which, right);
    if (above && now <= 0.0) return curve_root(curves, count, left, right);
    if (above && leaning < 0.0 && 0.0 < slope) {
      const real lowest = curve_dip(curves, count, left, right, 1.0);
      if (largest_curve(curves, count, lowest, &which) <= 0.0) return curve_root(curves, count, left, lowest);
    }
    if (!above && now <= 0.0 && slope < 0.0 && 0.0 < leaning) {
      const real highest = curve_dip(curves, count, left, right, -1.0);
      if (largest_curve(curves, count, highest, &which) > 0.0) return curve_root(curves, count, highest, right);
    }
    above = above || now > 0.0;
    left = right;
    leaning = slope;
  }
  return INFINITY;
}
static inline int rises_below(const cell *curves, int32_t count, real span) {
  int32_t which;
  const real now = largest_curve(curves, count, 0.0, &which);
  if (now > 0.0 || !(curve_slope(curves + 6 * which, 0.0) > 0.0)) return 0;
  for (int k = 1; k <= 8; ++k) {
    if (largest_curve(curves, count, span * ((real)k / 8.0), &which) > 0.0) return 0;
  }
  return 1;
}
/* For one group of them: when that is, when it is lowest after that, when highest before, whether it is above now, and
 * whether it rises below. */
static inline void fall_of(const cell *curves, int32_t count, real span, real behind, cell *to) {
  int32_t which;
  const real root = first_fall(curves, count, span);
  to[0].r = root;
  to[3].r = largest_curve(curves, count, 0.0, &which) > 0.0 ? 1.0 : 0.0;
  if (root < INFINITY) {
    const real end = root + behind;
    to[1].r = largest_curve(curves, count, end, &which) > 0.0 ? curve_dip(curves, count, root, end, 1.0) : end;
    to[2].r = curve_dip(curves, count, 0.0, root, -1.0);
  } else {
    to[4].r = rises_below(curves, count, span) ? 1.0 : 0.0;
  }
}
static inline void compute_fall(cell *c, int32_t groups, const int32_t *listed) {
  const cell *curves = c + listed[0];
  const real span = c[listed[1]].r, behind = c[listed[2]].r;
  cell *to = c + listed[3] + 1;
  real telling = 0.0;
  for (int32_t group = 0; group < groups; ++group, to += 5) {
    const int32_t count = listed[4 + group];
    int stays = 0;
    for (int32_t k = 0; k < count && !stays; ++k) stays = curve_stays_above(curves + 6 * k, span);
    to[0].r = to[1].r = to[2].r = INFINITY;
    to[3].r = 1.0;
    to[4].r = 0.0;
    if (!stays) {
      fall_of(curves, count, span, behind, to);
      if (to[0].r < INFINITY || to[4].r != 0.0) telling += 1.0;
    }
    curves += 6 * count;
  }
  c[listed[3]].r = telling;
}
//@ host: ulp
/* What whoever runs a program hands over to have it told what happened: rows of [time, columns...], runs of equal steps, and
 * events with their values. All of it may be missing (null). */
typedef struct upbeat_steps {
  real first, last;
  int64_t count;
  int32_t reason, block;
  int64_t rejected;
  real numbers[4]; /* what the reason tells besides its number */
} upbeat_steps;
typedef struct upbeat_event {
  int32_t event, index;
  real time;
} upbeat_event;
typedef struct upbeat_host {
  cell *rows;
  int64_t room, used;
  const int32_t *columns;
  int64_t width, every, until_due, left_out;
  cell *left; /* the columns as they were before something happens; null: jumps are not recorded */
  int64_t told;
  upbeat_steps *steps;
  int64_t steps_room, steps_used;
  upbeat_steps open, done;
  real usual, band;
  upbeat_event *events;
  int64_t events_room, events_used, mark;
  cell *values;
  int64_t values_room, values_used, values_mark;
  volatile int64_t stop;
} upbeat_host;

/* What there is before something happens at the present time, for the next row. */
static inline void host_before(upbeat_host *h, const cell *c) {
  if (!h->left) return;
  for (int64_t i = 0; i < h->width; ++i) h->left[i].i = c[h->columns[i]].i;
  h->told = 1;
}
static inline void host_row(upbeat_host *h, real t, const cell *c, int last) {
  if (!h->rows) return;
  const int due = --h->until_due == 0;
  if (due) h->until_due = h->every;
  cell *to = h->rows + h->used * (h->width + 1);
  int jumped = 0;
  if (h->told) {
    h->told = 0;
    for (int64_t i = 0; i < h->width && !jumped; ++i) jumped = h->left[i].i != c[h->columns[i]].i;
  }
  if (jumped) {
    to[0].r = t;
    for (int64_t i = 0; i < h->width; ++i) to[i + 1].i = h->left[i].i;
    to += h->width + 1;
  }
  to[0].r = t;
  for (int64_t i = 0; i < h->width; ++i) to[i + 1].i = c[h->columns[i]].i;
  h->left_out = !due && !last && !jumped;
  if (!h->left_out) h->used += 1 + jumped;
}
static inline void host_hand_over(upbeat_host *h) {
  if (h->open.count == h->done.count) return;
  upbeat_steps *const to = h->steps + h->steps_used++;
  *to = h->open;
  to->first = h->done.last;
  to->count = h->open.count - h->done.count;
  to->rejected = h->open.rejected - h->done.rejected;
  h->done = h->open;
}
/* A step that stands, merged with those before it by the rule of upbeat.trace.log. */
static inline void host_step(upbeat_host *h, real t0, real t1, int32_t reason, const real *numbers, int32_t block,
                             int64_t rejected) {
  if (!h->steps) return;
  upbeat_steps *const open = &h->open;
  int same = open->count > 0 && open->last == t0 && open->reason == reason && open->block == block;
  if (same && numbers) {
    union {
      double r;
      uint64_t i;
    } a, b;
    for (int k = 0; k < 4; ++k) {
      a.r = numbers[k];
      b.r = open->numbers[k];
      same = same && a.i == b.i;
    }
  }
  if (same) {
    const real size = t1 - t0;
    if (rejected == 0 && fabs(size - h->usual) <= h->band) {
      open->last = t1;
      ++open->count;
      return;
    }
    const real mean = (open->last - open->first) / (real)open->count;
    if (fabs(size - mean) <= 1e-9 * fabs(mean) + 4.0 * ulp(t1)) {
      if (!(fabs(size - h->usual) <= h->band)) h->band = -1.0;
      open->last = t1;
      ++open->count;
      open->rejected += rejected;
      return;
    }
  }
  host_hand_over(h);
  open->first = t0;
  open->last = t1;
  open->count = 1;
  open->reason = reason;
  open->block = block;
  open->rejected = rejected;
  for (int k = 0; k < 4; ++k) open->numbers[k] = numbers ? numbers[k] : 0.0;
  h->done = *open;
  h->done.last = t0;
  h->done.count = 0;
  h->done.rejected = 0;
  h->usual = t1 - t0;
  h->band = 0.25e-9 * fabs(h->usual);
}
static inline int host_event(upbeat_host *h, int32_t event, real t, const cell *from, int32_t count) {
  if (!h->events) return 1;
  if (h->events_used >= h->events_room || h->values_used + count > h->values_room) return 0;
  upbeat_event *const to = h->events + h->events_used++;
  to->event = event;
  to->index = -1;
  to->time = t;
  for (int32_t i = 0; i < count; ++i) h->values[h->values_used++] = from[i];
  return 1;
}
/* Events from the mark on have happened at this time; or have not happened at all. */
static inline void host_commit(upbeat_host *h, real t) {
  for (int64_t i = h->mark; i < h->events_used; ++i) {
    h->events[i].index = (int32_t)(i - h->mark);
    h->events[i].time = t;
  }
  h->mark = h->events_used;
  h->values_mark = h->values_used;
}
static inline void host_cut(upbeat_host *h) {
  h->events_used = h->mark;
  h->values_used = h->values_mark;
}
static inline int64_t host_room(const upbeat_host *h) {
  int64_t room = INT64_MAX;
  if (h->rows) room = (h->room - h->used) / (h->left ? 2 : 1);
  if (h->steps && h->steps_room - 1 - h->steps_used < room) room = h->steps_room - 1 - h->steps_used;
  if (h->events && (2 * h->events_used > h->events_room || 2 * h->values_used > h->values_room)) room = 0;
  return room;
}
