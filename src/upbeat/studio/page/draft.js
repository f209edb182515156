/**
 * The scenario while it is edited. Its text is the one truth: an edit is a new text, made by the server, which
 * keeps comments and order. The page keeps the texts before it, so that undo and redo cost nothing.
 */
import { get, post, put } from "./api.js";
import { complain, kept, say, set, state } from "./store.js";

const draftKey = (path) => `draft:${state.project?.folder}:${path}`;
const MERGED = 1200; // letters typed within so many milliseconds are undone together
const HISTORY = 300;

export const isDirty = (s = state) => s.text !== s.saved.text;

/** Opens a scenario file. A draft that was not saved is found again. */
export async function openFile(path) {
  const [file, placed] = await Promise.all([
    get(`api/file?path=${encodeURIComponent(path)}`),
    get(`api/places?path=${encodeURIComponent(path)}`).catch(() => ({ places: {} })),
  ]);
  await settled(); // what was typed belongs to the file that is open
  const draft = kept.get(draftKey(path));
  const restored = draft && draft.text !== file.text;
  set({
    path,
    text: restored ? draft.text : file.text,
    saved: { text: file.text, version: restored ? draft.version : file.version },
    past: restored ? [{ text: file.text, label: "unsaved changes" }] : [],
    future: [],
    inside: [],
    places: placed.places || {},
    selection: null,
    view: null, outer: null,
    diagram: null,
    conflict: null,
    show: { ...state.show, everyPort: isSmall(restored ? draft.text : file.text) },
  });
  if (restored) say(`Your changes to ${path} that were not saved are back. Undo takes them away.`);
  address();
  await refresh();
}

/** Whether there is room for ports that nothing is connected to: guessed, as nobody has read the text yet. */
function isSmall(text) {
  const units = new Set([...text.matchAll(/^\s*\[?\s*units\.("[^"]+"|[\w-]+)/gm)].map((found) => found[1])).size;
  const wires = text.match(/^\s*"?[\w.]+"?\s*=\s*"[\w.]+\.[\w.]+"/gm)?.length ?? 0;
  return units <= 24 && wires <= 50;
}

/** A scenario that has no file yet. */
export async function newFile(path, text) {
  await settled();
  set({
    path, text, saved: { text: "", version: null }, past: [], future: [], inside: [], places: {}, selection: null,
    view: null, outer: null, diagram: null, conflict: null, show: { ...state.show, everyPort: true },
  });
  remember();
  address();
  await refresh();
}

/** Keeps the file and the run in the address, so that reloading finds both. */
export function address() {
  const parts = [];
  if (state.path) parts.push(`file=${encodeURIComponent(state.path)}`);
  if (state.run) parts.push(`run=${encodeURIComponent(state.run.id)}`);
  history.replaceState(null, "", `#${parts.join("&")}`);
}

let typed = 0;

/** Puts another text in place of the one there is. Typing merges into one step of the history. */
export function changeText(text, { label = "edit", typing = false, now = !typing } = {}) {
  if (text === state.text) return;
  const time = Date.now();
  const last = state.past[state.past.length - 1];
  const merge = typing && last?.label === "typing" && time - typed < MERGED;
  typed = time;
  const past = merge ? state.past : [...state.past, { text: state.text, label: typing ? "typing" : label }];
  set({ text, past: past.slice(-HISTORY), future: [] });
  remember();
  if (now) refresh();
  else later();
}

function remember() {
  if (state.path) kept.set(draftKey(state.path), isDirty() ? { text: state.text, version: state.saved.version } : null);
}

/** One step back. */
export function undo() {
  const last = state.past[state.past.length - 1];
  if (!last) return;
  set({
    text: last.text,
    past: state.past.slice(0, -1),
    future: [{ text: state.text, label: last.label }, ...state.future],
  });
  remember();
  refresh();
}

/** One step forth again. */
export function redo() {
  const next = state.future[0];
  if (!next) return;
  set({
    text: next.text,
    past: [...state.past, { text: state.text, label: next.label }],
    future: state.future.slice(1),
  });
  remember();
  refresh();
}

let queue = Promise.resolve();

/**
 * Edits the text by operations (see decision 0036), one call after the other.
 * @returns {Promise<{text: string, added: string[]}|null>} null if the server refused, which is then said
 */
export function edit(edits, label = "edit") {
  set({ editing: state.editing + 1 });
  const run = async () => {
    if (state.inside.length) {
      say(state.view?.path ? "This is inside another file. Open that file to change it." : `This is what ${state.inside[state.inside.length - 1]} is made of. It is changed in ${state.path}.`, { tone: "bad" });
      return null;
    }
    const { text } = state;
    try {
      const answer = await post("api/edit", { text, edits });
      if (state.text !== text) return run(); // somebody has typed in the text meanwhile
      changeText(answer.text, { label });
      return answer;
    } catch (error) {
      complain(error);
      return null;
    }
  };
  const done = (answer) => {
    set({ editing: state.editing - 1 });
    return answer;
  };
  queue = queue.then(run, run).then(done);
  return queue;
}

/**
 * What somebody is typing in a field counts now, without Enter, and all edits are made.
 * @returns {Promise<boolean>} false if an edit was refused, which has been said
 */
export async function settled() {
  const field = document.activeElement;
  if (field?.matches?.("[data-typed]")) {
    field.blur(); // which takes what is in it
    field.focus();
  }
  let fine = true;
  while (state.editing) fine = (await queue) !== null && fine;
  return fine;
}

/** Saves the text. If somebody else has saved another one meanwhile, both are shown. */
export async function save({ over = null } = {}) {
  if (!state.path || !(await settled())) return false;
  const text = state.text;
  try {
    const { version } = await put("api/file", {
      path: state.path, text, version: over === null ? state.saved.version : over,
    });
    set({ saved: { text, version }, conflict: null });
    remember();
    say(`${state.path} is saved.`, { tone: "good" });
    listFiles();
    return true;
  } catch (error) {
    if (error.status === 409) set({ conflict: { text: error.body.text, version: error.body.version, error: error.message } });
    else complain(error);
    return false;
  }
}

/** Takes the version that somebody else has saved; one's own can be had back by undo. */
export function takeTheirs() {
  const { text, version } = state.conflict;
  set({ saved: { text, version }, conflict: null });
  changeText(text, { label: "their version" });
  remember();
}

/** Somebody comes back to the page: another program may have written the file meanwhile. */
export async function lookAgain() {
  listFiles();
  const { path, saved, text, conflict } = state;
  if (path === null || saved.version === null || conflict) return;
  const file = await get(`api/file?path=${encodeURIComponent(path)}`).catch(() => null); // that it is gone is said when it is saved
  if (!file || file.version === saved.version || state.saved !== saved || state.text !== text) return;
  if (isDirty()) {
    say(`${path} has been changed by another program. Saving shows both versions.`);
    return;
  }
  set({ saved: { text: file.text, version: file.version } });
  changeText(file.text, { label: "a change by another program" });
  say(`${path} has been changed by another program; this is how it is now.`);
}

export async function listFiles() {
  try {
    set({ project: await get("api/project") });
  } catch (error) {
    complain(error);
  }
}

let sequence = 0;
let timer = 0;

/** Looks again in a moment: while somebody types. */
export function later() {
  clearTimeout(timer);
  timer = setTimeout(refresh, 180);
}

/** Where all boxes are now, so that an edit leaves them there. */
export function placesNow(diagram = state.diagram) {
  const places = {};
  for (const box of diagram?.boxes || []) places[box.key] = [box.x, box.y];
  return places;
}

/** Asks what the text means: the diagram, its problems, the units. */
export async function refresh({ tidy = false } = {}) {
  clearTimeout(timer);
  if (state.path === null) return;
  const number = ++sequence;
  set({ viewing: true });
  const nested = state.inside.length > 0;
  const few = !Object.keys(state.places).length && Object.keys(state.view?.units || {}).length <= 4;
  const fresh = tidy || nested || few || !state.diagram; // of few boxes that nobody has put somewhere, all may move
  try {
    const view = await post("api/view", {
      path: state.path,
      text: state.text,
      inside: state.inside,
      every_port: state.show.everyPort,
      places: fresh ? (nested || tidy ? {} : state.places) : { ...placesNow(), ...state.places },
      before: fresh ? null : state.diagram,
      order: state.show.order,
      cores: state.show.cores,
    });
    if (number !== sequence) return;
    if (nested) view.problems = view.problems.filter((problem) => problem.where?.[0] !== "run"); // the outer one says how long
    if (few && !nested && view.diagram) inRow(view.diagram);
    set({ view, viewing: false, diagram: view.diagram || state.diagram, ...(nested ? {} : { outer: view }) });
    tellSelection();
  } catch (error) {
    if (number !== sequence) return;
    set({ viewing: false });
    complain(error);
    if (nested) await enter(state.inside.slice(0, -1));
  }
}

/** Boxes that nothing connects yet stand beside each other: the picture is wider than it is high. */
function inRow(diagram) {
  if (diagram.wires.length || diagram.boxes.length < 2) return;
  let x = 24;
  for (const box of diagram.boxes) {
    const down = 24 - box.y;
    box.x = x;
    box.y += down;
    for (const pin of [...box.inputs, ...box.outputs]) pin.y += down;
    box.through = box.through.map(([from, to]) => [from + down, to + down]);
    x += 8 * Math.ceil((box.width + 56) / 8);
  }
}

/** A selection of something that is gone is none. */
function tellSelection() {
  const { selection, view } = state;
  if (!selection || !view) return;
  const there =
    selection.kind === "unit" ? selection.name in (view.units || {}) :
    selection.kind === "event" ? (view.events || []).some((event) => event.name === selection.name) :
    selection.kind === "input" ? (view.inputs || []).some((input) => input.name === selection.name) : true;
  if (!there && view.diagram) set({ selection: null });
}

/** Boxes were dragged: all others stay where they are, from now on also in later sessions. */
export async function moveBoxes(moved) {
  if (state.inside.length) return;
  const places = { ...placesNow(), ...state.places, ...moved };
  const known = new Set((state.diagram?.boxes || []).map((box) => box.key));
  for (const key of Object.keys(places)) if (!known.has(key)) delete places[key];
  set({ places });
  put(`api/places?path=${encodeURIComponent(state.path)}`, { places }).catch(complain);
  await refresh();
}

/** Lets the layout be found anew. */
export async function tidy() {
  set({ places: {} });
  try {
    if (!state.inside.length) await put(`api/places?path=${encodeURIComponent(state.path)}`, { places: {} });
  } catch (error) {
    complain(error);
  }
  await refresh({ tidy: true });
}

/** Opens a nested scenario in the diagram, or goes back to one on the way. */
export async function enter(inside) {
  set({ inside, diagram: null, selection: null });
  await refresh();
}
