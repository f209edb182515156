/**
 * Runs. They belong to the server: the page starts them, tells them what to do, and looks on. Leaving the page ends
 * none of them, and coming back finds them.
 */
import { Live, get, post, remove } from "./api.js";
import { address, settled } from "./draft.js";
import { complain, kept, say, set, state } from "./store.js";
import { dropTrace, loadTrace, traceOf } from "./traces.js";

export const isLive = (run) => Boolean(run) && ["starting", "running", "paused"].includes(run.state);

let live = null;
const LOG = 3000;

/** The signals that are drawn: those that were chosen, or else the first ones of units, and then inputs. */
export function shownSignals(run = state.run, chosen = state.chosen) {
  const all = (run?.signals || []).map((signal) => signal.name);
  if (chosen) {
    const there = chosen.filter((name) => all.includes(name));
    if (there.length || !chosen.length) return there;
  }
  const drawn = (run?.signals || []).filter((signal) => signal.kind !== "string").map((signal) => signal.name);
  const [units, own] = [true, false].map((dot) => drawn.filter((name) => name.includes(".") === dot));
  return [...units, ...own].slice(0, 8);
}

/** Starts the scenario as it is on the page, saved or not. */
export async function start({ until = null, realTime = null, engine = null, from = null } = {}) {
  if (state.path === null || !(await settled())) return;
  try {
    const { id } = await post("api/runs", {
      path: state.path, text: state.text, until, real_time: realTime, engine, overrides: {}, resume: from,
    });
    set({ tabs: { ...state.tabs, bottom: ["curves", "log"].includes(state.tabs.bottom) ? state.tabs.bottom : "curves" }, window: null, marker: null });
    await watch(id);
    listRuns();
  } catch (error) {
    complain(error);
  }
}

/** Goes on with a run that was stopped, from its last checkpoint. */
export async function resume(id) {
  const { until, realTime, engine } = state.wanted || {};
  await start({ until, realTime, engine, from: id });
}

/** Looks at a run: its curves so far, and then live if it still runs. */
export async function watch(id) {
  const number = ++watching;
  live?.close();
  live = null;
  try {
    const run = await get(`api/runs/${encodeURIComponent(id)}`);
    if (number !== watching) return;
    const other = state.run?.id !== id;
    set({ run, ...(other ? { window: null, marker: null, log: run.log || [], subtract: null, compare: state.compare.filter((one) => one !== id) } : {}) });
    address();
    kept.set(`run:${state.project?.folder}`, id);
    if (isLive(run)) listen(id); // which sends all so far, and then what is new
    else await finished(id);
  } catch (error) {
    if (error.status === 404) kept.set(`run:${state.project?.folder}`, null);
    complain(error);
  }
}
let watching = 0;

function listen(id) {
  live = new Live(id, (message) => heard(id, message), (connected) => set({ connected }));
  live.subscribe(shownSignals(), 4000);
}

function heard(id, message) {
  const trace = traceOf(id);
  if (message.kind === "rows") trace.append(message);
  else if (message.kind === "events") trace.addEvents(message);
  else if (message.kind === "steps") trace.addSteps(message);
  else if (message.kind === "log") set({ log: [...(message.reset ? [] : state.log), ...message.lines].slice(-LOG) });
  else if (message.kind === "error") say(message.error, { tone: "bad", hint: message.hint });
  else if (message.kind === "sent") studioTimes.sent = message.at;
  else if (message.kind === "state") {
    const { kind, ...now } = message;
    if (state.run?.id !== id) return;
    const before = state.run;
    set({ run: { ...before, ...now, settable: merged(before.settable, now.settable) }, runs: state.runs.map((run) => (run.id === id ? { ...run, ...now } : run)) });
    if (now.signals && (before.signals || []).length !== now.signals.length) chooseSignals(state.chosen);
    if (isLive(before) && !isLive(state.run)) finished(id, true);
  }
}

/** When the server sent the last rows, for those who measure how long they take to the screen. */
export const studioTimes = { sent: 0 };

/** Values as the server knows them, but for those that somebody is moving just now. */
function merged(before, now) {
  if (!now) return before;
  const held = new Map((before || []).filter((one) => one.name in moving).map((one) => [one.name, one.value]));
  return now.map((one) => (held.has(one.name) ? { ...one, value: held.get(one.name) } : one));
}

/** A run has ended: all of it is there now, at full resolution. */
async function finished(id, said = false) {
  live?.close();
  live = null;
  try {
    const run = await get(`api/runs/${encodeURIComponent(id)}`);
    if (state.run?.id !== id) return;
    set({ run: { ...state.run, ...run } });
    await loadTrace(id, shownSignals(), state.window);
    await Promise.all([traceOf(id).loadHappenings(), loadOthers()]);
    if (said && run.state === "failed") say(run.failure?.message || "The run failed.", { tone: "bad" });
    listRuns();
  } catch (error) {
    complain(error);
  }
}

export async function listRuns() {
  try {
    set({ runs: await get("api/runs") });
  } catch (error) {
    complain(error);
  }
}

/** Tells the run what to do: pause, resume, step, stop or checkpoint. */
export async function tell(what) {
  if (!state.run) return;
  try {
    const now = await post(`api/runs/${encodeURIComponent(state.run.id)}`, { do: what });
    if (now) set({ run: { ...state.run, ...now } });
    if (what === "checkpoint") say("A checkpoint is written: the run can go on from here.", { tone: "good" });
  } catch (error) {
    complain(error);
  }
}

const moving = {};

/** Moves an input or a parameter of the run. While a slider is dragged the last place counts, not all on the way. */
export function move(name, value) {
  const id = state.run.id;
  set({ run: { ...state.run, settable: state.run.settable.map((one) => (one.name === name ? { ...one, value } : one)) } });
  const busy = name in moving;
  moving[name] = value;
  if (busy) return;
  const send = async () => {
    const sent = moving[name];
    try {
      await post(`api/runs/${encodeURIComponent(id)}`, { do: "set", name, value: sent });
    } catch (error) {
      complain(error);
    }
    if (moving[name] !== sent) send();
    else setTimeout(() => (moving[name] === sent ? delete moving[name] : send()), 60);
  };
  send();
}

/** Which signals are drawn. */
export async function chooseSignals(names) {
  set({ chosen: names });
  if (!state.run) return;
  const shown = shownSignals();
  live?.subscribe(shown, 4000);
  if (!live) await loadTrace(state.run.id, shown, state.window);
  await loadOthers();
}

/** The rows of the runs that are laid over; those that have nothing in common with this one are taken away. */
async function loadOthers() {
  const { id } = state.run;
  await Promise.all(state.compare.map((other) => loadTrace(other, shownSignals(), isLive(state.run) ? null : state.window, id).catch((error) => {
    set({ compare: state.compare.filter((one) => one !== other) });
    complain(error);
  })));
}

/** Lays a run over the one that is looked at, or takes it away again. */
export async function compareWith(id) {
  const compare = state.compare.includes(id) ? state.compare.filter((one) => one !== id) : [...state.compare, id];
  try {
    if (compare.includes(id)) await loadTrace(id, shownSignals(), state.window, state.run?.id ?? id);
    set({ compare, tabs: { ...state.tabs, bottom: "curves" } });
  } catch (error) {
    complain(error);
  }
}

/** Shows how the run that is looked at differs from another one. */
export const subtractRun = (id) => set({ subtract: id, tabs: { ...state.tabs, bottom: "curves" } });

/** Removes a run with its files. */
export async function forget(id) {
  try {
    await remove(`api/runs/${encodeURIComponent(id)}`);
    dropTrace(id);
    if (state.run?.id === id) set({ run: null });
    set({ compare: state.compare.filter((one) => one !== id), subtract: state.subtract === id ? null : state.subtract });
    address();
    await listRuns();
  } catch (error) {
    complain(error);
  }
}

/** The part of the time axis that is shown; null for all of it. What is shown larger is fetched in finer detail. */
export function setWindow(window) {
  set({ window });
  clearTimeout(finer);
  if (!state.run || isLive(state.run)) return;
  finer = setTimeout(() => {
    loadTrace(state.run.id, shownSignals(), state.window).catch(complain);
    loadOthers();
  }, 140);
}
let finer = 0;
