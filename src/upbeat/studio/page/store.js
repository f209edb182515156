/** The state of the page: one object, and components that are told when what they look at has changed. */
import { useEffect, useRef, useState } from "./vendor/preact-htm.js";

const listeners = new Set();

export const state = {
  project: null, // GET api/project
  library: null, // GET api/library
  path: null, // the open scenario file
  text: "", // the scenario: the one truth
  saved: { text: "", version: null },
  past: [], // texts to go back to: {text, label}
  future: [],
  inside: [], // names of the nested scenarios on the way to the one that is shown
  view: null, // POST api/view
  outer: null, // that of the file that is open, while one looks at a scenario inside it
  viewing: false,
  editing: 0, // edits that the server is at
  diagram: null, // the last one that could be drawn
  places: {}, // of the boxes that somebody has dragged
  selection: null, // {kind: "unit"|"wire"|"input"|"output"|"event", name, source, target}
  show: { everyPort: true, loops: false, order: false, cores: 0 },
  run: null, // GET api/runs/ID of the run that is looked at
  runs: [],
  compare: [], // ids of runs that are laid over it
  subtract: null, // the id of the run that is subtracted
  chosen: null, // names of signals that are drawn; null: the first ones
  window: null, // [from, to] of the time axis, or null for all
  log: [],
  connected: true,
  tabs: { left: "files", right: "inspect", bottom: "curves" },
  sizes: { left: 208, right: 344, bottom: 300 },
  dialog: null, // {name, …} of the dialog that is open
  toasts: [],
  conflict: null, // another version of the file that was saved meanwhile
  jobs: [],
  theme: "auto",
};

/** Changes the state: with an object, or with a function of the state that returns one. */
export function set(change) {
  Object.assign(state, typeof change === "function" ? change(state) : change);
  for (const listener of [...listeners]) listener();
}

/** Calls `listener` after every change; returns what ends that. */
export function subscribe(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const same = (a, b) =>
  Object.is(a, b) ||
  (Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((x, k) => Object.is(x, b[k])));

/** What `select` makes of the state. The component is drawn again when that changes. */
export function useStore(select) {
  const [, redraw] = useState(0);
  const now = select(state);
  const held = useRef();
  held.current = { select, now };
  useEffect(() => {
    const look = () => {
      if (!same(held.current.select(state), held.current.now)) redraw((n) => n + 1);
    };
    look(); // something may have changed since it was drawn
    return subscribe(look);
  }, []);
  return now;
}

let toasts = 0;

/** Shows a sentence for a while. `tone` is "note", "good" or "bad"; what is bad stays until it is closed. */
export function say(text, { tone = "note", hint = null, action = null } = {}) {
  const id = ++toasts;
  const others = state.toasts.filter((toast) => toast.text !== text);
  set({ toasts: [...others.slice(-3), { id, text, tone, hint, action }] });
  setTimeout(() => hush(id), tone === "bad" || action ? 14000 : 4500);
}

export const hush = (id) => set({ toasts: state.toasts.filter((toast) => toast.id !== id) });

/** Says what went wrong, as the server's sentence. */
export function complain(error) {
  if (error.name === "AbortError") return;
  if (!error.status && !("hint" in error)) console.error(error);
  say(error.message, { tone: "bad", hint: error.hint });
}

/** Something kept in this browser between visits. Private windows may refuse, which costs only comfort. */
export const kept = {
  get(key) {
    try {
      return JSON.parse(localStorage.getItem(`upbeat-studio:${key}`));
    } catch {
      return null;
    }
  },
  set(key, value) {
    try {
      if (value === null) localStorage.removeItem(`upbeat-studio:${key}`);
      else localStorage.setItem(`upbeat-studio:${key}`, JSON.stringify(value));
    } catch { /* full or forbidden */ }
  },
};
