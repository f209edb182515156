// Two masses under a ceiling, looking ahead by straight lines, as somebody would write it by hand: one thread makes one run.
// The same method as published.toml, but for its inputs: a position goes on with the velocity of the other mass (x + v·t).
// Steps of 0.08 s at most, eight of RK4 in each; events happen where steps end.
struct Mass {
  double x, v, stiff, damp, couple, drag;  // v' = stiff·x + damp·v + couple·(other's position) + drag·(its velocity) - g
};

static __device__ __forceinline__ void advance(Mass &m, double length, double at, double speed) {
  const double h = length * 0.125, half = 0.5 * h, fixed = m.drag * speed - 9.81;
  for (int i = 0; i < 8; ++i) {
    const double begin = at + speed * (i * h), middle = begin + speed * half, end = begin + speed * h;
    const double k1 = m.stiff * m.x + m.damp * m.v + m.couple * begin + fixed;
    const double v2 = m.v + half * k1;
    const double k2 = m.stiff * (m.x + half * m.v) + m.damp * v2 + m.couple * middle + fixed;
    const double v3 = m.v + half * k2;
    const double k3 = m.stiff * (m.x + half * v2) + m.damp * v3 + m.couple * middle + fixed;
    const double v4 = m.v + h * k3;
    const double k4 = m.stiff * (m.x + h * v3) + m.damp * v4 + m.couple * end + fixed;
    m.x += h / 6.0 * (m.v + 2.0 * (v2 + v3) + v4);
    m.v += h / 6.0 * (k1 + 2.0 * (k2 + k3) + k4);
  }
}

// When two conditions, which were `p` and `q` one step of `h` ago, are both met; infinity: not soon.
static __device__ __forceinline__ double expected(double z, double p, double w, double q, double h) {
  const double never = 1e300;
  if (z + 2.0 * (z - p) >= 0.0 || w + 2.0 * (w - q) >= 0.0) return never;
  double found = -1.0;
  if (z > 0.0) found = fmax(found, fmax(0.9 * h * z / (p - z), 0.002));
  if (w > 0.0) found = fmax(found, fmax(0.9 * h * w / (q - w), 0.002));
  return found > 0.0 ? found : never;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    upbeat_ensemble(long long runs, const double *table, double *statistics, double *, int *, double *, double *totals, int *faults) {
  const long long run = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (run >= runs) return;
  const double m1 = 0.2, m2 = 0.3, touch = 1.1, ceiling = 0.55;
  Mass a{table[run], table[runs + run], -2.0 / m1, -0.02 / m1, 1.0 / m1, 0.01 / m1};
  Mass b{table[2 * runs + run], table[3 * runs + run], -1.0 / m2, -0.01 / m2, 1.0 / m2, 0.01 / m2};
  double t = 0.0, h = 0.08, hits = 0.0, bumps = 0.0;
  double c = -ceiling - a.x, cv = -a.v, d = a.x - b.x - touch, dv = a.v - b.v;
  int steps = 0;
  while (t < 20.0 - 1e-12) {
    h = fmin(h, 20.0 - t);
    const double ax = a.x, av = a.v;
    advance(a, h, b.x, b.v);
    advance(b, h, ax, av);
    t += h;
    ++steps;
    double c1 = -ceiling - a.x, cv1 = -a.v, d1 = a.x - b.x - touch, dv1 = a.v - b.v, next = 0.08;
    if (c1 <= 0.0 && cv1 < 0.0) {
      a.v = -a.v;
      bumps += 1.0;
      next = -1.0;
    }
    if (d1 <= 0.0 && dv1 < 0.0) {
      const double one = ((m1 - m2) * a.v + 2.0 * m2 * b.v) / (m1 + m2), two = ((m2 - m1) * b.v + 2.0 * m1 * a.v) / (m1 + m2);
      a.v = one;
      b.v = two;
      hits += 1.0;
      next = -1.0;
    }
    if (next < 0.0) {
      c1 = -ceiling - a.x, cv1 = -a.v, d1 = a.x - b.x - touch, dv1 = a.v - b.v, next = 0.08;
    } else {
      next = fmin(next, fmin(expected(c1, c, cv1, cv, h), expected(d1, d, dv1, dv, h)));
    }
    c = c1, cv = cv1, d = d1, dv = dv1, h = next;
  }
  const double told[] = {a.x, a.v, b.x, b.v, hits, bumps};
  for (int k = 0; k < 6; ++k) statistics[k * runs + run] = told[k];
  totals[run] = steps;
  totals[runs + run] = 0.0;
  totals[2 * runs + run] = hits + bumps;
  totals[3 * runs + run] = t;
  faults[run] = 0;
}
