/** The rows of runs as far as they are on the page, with events and step sizes; those who draw them are told. */
import { columns, get, query } from "./api.js";

const traces = new Map();
export const traceOf = (id) => {
  if (!traces.has(id)) traces.set(id, new Trace(id));
  return traces.get(id);
};
export const dropTrace = (id) => traces.delete(id);

/** So many points of a signal are asked for at once; the server keeps minima, maxima and jumps. */
const POINTS = Number(new URLSearchParams(location.hash.slice(1)).get("points")) || 16000;
const KEPT_LIVE = 120000; // rows of a run that goes on; beyond, every other one of the oldest half is dropped

/** Between the two rows of a jump there is one without values, so that no line is drawn through it. */
function withJumps(header, rows) {
  const [time, ...signals] = rows;
  const out = [new Array(0), ...signals.map(() => [])];
  const jumps = [];
  for (let k = 0; k < time.length; k++) {
    if (k && time[k] === time[k - 1] && signals.some((column) => column[k] !== column[k - 1])) {
      jumps.push(out[0].length);
      out[0].push(time[k]);
      for (let n = 0; n < signals.length; n++) out[n + 1].push(null);
    }
    out[0].push(time[k]);
    for (let n = 0; n < signals.length; n++) out[n + 1].push(Number.isNaN(signals[n][k]) ? null : signals[n][k]);
  }
  return { columns: out, jumps };
}

class Trace {
  constructor(id) {
    this.id = id;
    this.names = [];
    this.time = [];
    this.values = new Map();
    this.jumps = [];
    this.events = [];
    this.moreEvents = 0;
    this.steps = [];
    this.total = 0;
    this.version = 0;
    this.listeners = new Set();
    this.waiting = false;
  }

  /** Calls `listener` after changes, once per picture of the screen. */
  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  changed() {
    this.version += 1;
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      for (const listener of [...this.listeners]) listener(this);
    });
  }

  /** The columns that uPlot draws. */
  data(names) {
    return [this.time, ...names.map((name) => this.values.get(name) || new Array(this.time.length).fill(null))];
  }

  get last() {
    return this.time.length ? this.time[this.time.length - 1] : null;
  }

  replace(names, { header, columns: rows }) {
    const made = withJumps(header, rows);
    this.names = names;
    this.time = made.columns[0];
    this.values = new Map(names.map((name, k) => [name, made.columns[k + 1]]));
    this.jumps = made.jumps;
    this.total = header.total ?? header.rows;
    this.changed();
  }

  /** Rows of the live channel: all so far after each subscription (`reset`), then those that are new. */
  append(frame) {
    const sent = frame.header.columns.slice(1);
    if (frame.header.reset) {
      this.replace(sent, frame);
      return;
    }
    const { header, columns: rows } = frame;
    if (!header.rows || sent.length !== this.names.length || sent.some((name, k) => name !== this.names[k])) return; // of a former choice
    const before = this.time.length;
    const made = withJumps(header, rows);
    if (before && made.columns[0][0] === this.last && this.names.some((name, k) => this.values.get(name)[before - 1] !== made.columns[k + 1][0])) {
      this.jumps.push(before);
      this.time.push(this.last);
      for (const name of this.names) this.values.get(name).push(null);
    }
    const shift = this.time.length;
    for (const t of made.columns[0]) this.time.push(t);
    this.names.forEach((name, k) => {
      const column = this.values.get(name);
      for (const value of made.columns[k + 1]) column.push(value);
    });
    for (const jump of made.jumps) this.jumps.push(jump + shift);
    this.total += header.rows;
    if (this.time.length > KEPT_LIVE) this.thin();
    this.changed();
  }

  /** Drops every other row of the older half; all of them are back when the run has ended. */
  thin() {
    const half = this.time.length >> 1;
    const jumps = new Set(this.jumps.flatMap((k) => [k - 1, k, k + 1]));
    const keep = [];
    for (let k = 0; k < this.time.length; k++) if (k >= half || k % 2 === 0 || jumps.has(k)) keep.push(k);
    const place = new Map(keep.map((k, n) => [k, n]));
    this.jumps = this.jumps.map((k) => place.get(k));
    this.time = keep.map((k) => this.time[k]);
    for (const [name, column] of this.values) this.values.set(name, keep.map((k) => column[k]));
  }

  addEvents({ events, reset }) {
    if (reset) [this.events, this.moreEvents] = [[], 0];
    this.events = [...this.events, ...events];
    if (this.events.length > 5000) {
      this.moreEvents += this.events.length - 5000;
      this.events = this.events.slice(-5000);
    }
    this.changed();
  }

  /** Steps that are new; the last one that was there may have grown. */
  addSteps({ steps, reset }) {
    if (reset) this.steps = [];
    if (steps.length) {
      const first = steps[0].t;
      while (this.steps.length && this.steps[this.steps.length - 1].t >= first) this.steps.pop();
      this.steps = [...this.steps, ...steps];
      if (this.steps.length > 20000) this.steps = this.steps.filter((_, k) => k % 2 || k > 10000);
    }
    this.changed();
  }

  /** Events and step sizes of the whole run. */
  async loadHappenings() {
    const at = `api/runs/${encodeURIComponent(this.id)}`;
    const [events, steps] = await Promise.all([get(`${at}/events`), get(`${at}/steps`)]);
    this.events = events.events;
    this.moreEvents = events.more || 0;
    this.steps = steps.steps;
    this.changed();
  }
}

const fetching = new Map();

/**
 * Fetches the rows of a run for some signals, in the window with all the detail that there is room for; of one that is
 * laid over another (`like`) the signals that both have, in the units of measure of that one.
 */
export async function loadTrace(id, names, window = null, like = null) {
  fetching.get(id)?.abort();
  const abort = new AbortController();
  fetching.set(id, abort);
  const trace = traceOf(id);
  const span = window ? window[1] - window[0] : 0; // some room on both sides, for moving about
  const address = query(`api/runs/${encodeURIComponent(id)}/data`, {
    signals: names, like, from: window ? window[0] - span / 2 : null, to: window ? window[1] + span / 2 : null, points: POINTS,
  });
  try {
    const answer = await columns(address, abort.signal);
    trace.replace(answer.header.columns.slice(1), answer);
    if (!trace.asked) {
      trace.asked = true;
      await trace.loadHappenings();
    }
  } catch (error) {
    if (error.name !== "AbortError") throw error;
  }
  return trace;
}

/** How one run differs from another, as a trace of its own. */
export async function loadDifference(a, b, names) {
  const trace = new Trace(`${a} − ${b}`);
  const answer = await columns(query("api/difference", { a, b, signals: names, points: POINTS }));
  trace.replace(answer.header.columns.slice(1), answer);
  return trace;
}
