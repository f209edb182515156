/** Everything that can be done, with its keys: for the keyboard, the list of commands and the help. */
import { html, useMemo } from "./vendor/preact-htm.js";
import { redo, refresh, save, tidy, undo, isDirty, openFile } from "./draft.js";
import { diagramView, removeSelected } from "./diagram.js";
import { Chooser } from "./adding.js";
import { isLive, tell } from "./running.js";
import { complain, kept, set, state, useStore } from "./store.js";
import { Dialog, closeDialog } from "./widgets.js";
import { startFromBar } from "./run-bar.js";

const tab = (side, id) => () => {
  set({ tabs: { ...state.tabs, [side]: id } });
  requestAnimationFrame(() => (document.querySelector(`#${side}-panel`)?.querySelector("textarea, input, button, [tabindex='0']") || document.getElementById(`${side}-tab-${id}`))?.focus());
};
const toggle = (name, again = true) => () => {
  set({ show: { ...state.show, [name]: !state.show[name] } });
  if (again) refresh();
};
const open = () => state.path !== null;
const editable = () => open() && !state.inside.length;
const live = () => isLive(state.run);

/** keys: as people read them. plain: a letter, which counts only where nobody types. */
export const COMMANDS = [
  { name: "Run", keys: "F5", do: () => startFromBar(), when: open, group: "Run" },
  { name: "Pause or go on", keys: "F6", do: () => tell(state.run.state === "paused" ? "resume" : "pause"), when: live, group: "Run" },
  { name: "Do one step", keys: "F7", do: () => tell("step"), when: live, group: "Run" },
  { name: "Stop", keys: "Shift+F5", do: () => tell("stop"), when: live, group: "Run" },
  { name: "Write a checkpoint", do: () => tell("checkpoint"), when: live, group: "Run" },
  { name: "Save", keys: "Ctrl+S", do: () => save(), when: open, group: "Scenario" },
  { name: "Undo", keys: "Ctrl+Z", do: undo, when: () => state.past.length > 0, group: "Scenario" },
  { name: "Redo", keys: "Ctrl+Y", do: redo, when: () => state.future.length > 0, group: "Scenario" },
  { name: "Open a file…", keys: "Ctrl+O", do: () => set({ dialog: { name: "open" } }), group: "Scenario" },
  { name: "New scenario…", do: () => set({ dialog: { name: "new" } }), group: "Scenario" },
  { name: "Add a unit…", keys: "A", plain: true, do: () => set({ dialog: { name: "add" } }), when: editable, group: "Diagram" },
  { name: "Connect…", keys: "C", plain: true, do: () => set({ dialog: { name: "connect", unit: state.selection?.kind === "unit" ? state.selection.name : null } }), when: editable, group: "Diagram" },
  { name: "Remove what is selected", keys: "Delete", plain: true, do: removeSelected, when: () => editable() && state.selection, group: "Diagram" },
  { name: "Show algebraic loops", keys: "L", plain: true, do: toggle("loops", false), when: () => state.show.loops || state.diagram?.wires.some((wire) => wire.loop), group: "Diagram" },
  { name: "Show the order", keys: "O", plain: true, do: toggle("order"), when: open, group: "Diagram" },
  { name: "Show all ports", keys: "P", plain: true, do: toggle("everyPort"), when: open, group: "Diagram" },
  { name: "Tidy up", keys: "T", plain: true, do: tidy, when: open, group: "Diagram" },
  { name: "Fit into view", keys: "0", plain: true, do: () => diagramView.fit(), when: open, group: "Diagram" },
  { name: "Larger", keys: "+", plain: true, do: () => diagramView.zoom(1.25), when: open, group: "Diagram" },
  { name: "Smaller", keys: "−", plain: true, do: () => diagramView.zoom(0.8), when: open, group: "Diagram" },
  { name: "To the diagram", keys: "Ctrl+1", do: () => (document.querySelector("svg.diagram [data-box]") || document.querySelector("#add-unit"))?.focus(), group: "Go to" },
  { name: "To what is selected", keys: "Ctrl+2", do: tab("right", "inspect"), group: "Go to" },
  { name: "To the text", keys: "Ctrl+3", do: tab("right", "text"), group: "Go to" },
  { name: "To the curves", keys: "Ctrl+4", do: tab("bottom", "curves"), group: "Go to" },
  { name: "To the log", do: tab("bottom", "log"), group: "Go to" },
  { name: "To the judgements", keys: "Ctrl+5", do: tab("bottom", "judge"), group: "Go to" },
  { name: "To the files", do: tab("left", "files"), group: "Go to" },
  { name: "To the runs", do: tab("left", "runs"), group: "Go to" },
  { name: "Light or dark", do: () => setTheme({ auto: "light", light: "dark", dark: "auto" }[state.theme]), group: "Page" },
  { name: "All commands", keys: "Ctrl+K", do: () => set({ dialog: { name: "commands" } }), group: "Page" },
  { name: "Help with the keyboard", keys: "?", plain: true, do: () => set({ dialog: { name: "help" } }), group: "Page" },
];

const pressed = (event) => {
  const key = event.key.length === 1 ? event.key.toUpperCase() : event.key;
  return `${event.ctrlKey || event.metaKey ? "Ctrl+" : ""}${event.shiftKey && key.length > 1 ? "Shift+" : ""}${key === "-" ? "−" : key === "=" ? "+" : key}`;
};

/** Listens for the keys of all commands. */
export function startKeyboard() {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.altKey) return;
    if (state.dialog || state.conflict) return;
    const keys = pressed(event);
    const typing = event.target.matches?.("input:not([type=checkbox]):not([type=range]), textarea, select");
    const shiftZ = (event.ctrlKey || event.metaKey) && event.shiftKey && event.key.toLowerCase() === "z";
    const command = shiftZ ? COMMANDS.find((one) => one.name === "Redo") : COMMANDS.find((one) => one.keys === keys && !(one.plain && typing));
    if (!command) return;
    if (["Undo", "Redo"].includes(command.name) && event.target.matches("[data-typed], input[type=search], input.short")) return; // the letters in a field come first
    event.preventDefault();
    if (!command.when || command.when()) Promise.resolve(command.do()).catch(complain);
  });
  addEventListener("beforeunload", (event) => {
    if (state.path !== null && isDirty() && !kept.get(`draft:${state.project?.folder}:${state.path}`)) event.preventDefault();
  });
}

/** Light, dark, or as the system is. */
export function setTheme(theme) {
  kept.set("theme", theme);
  const dark = theme === "dark" || (theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  set({ theme, themeShown: dark ? "dark" : "light" });
}

export function CommandDialog() {
  const offers = useMemo(() => COMMANDS.map((command) => ({ key: command.name, title: command.name, kind: "", about: command.keys || "", group: command.group, disabled: command.when && !command.when(), command })), []);
  return html`<${Dialog} title="Commands" id="command-dialog" onClose=${closeDialog}>
    <${Chooser} offers=${offers} label="Commands" placeholder="What to do…" onChoose=${({ command }) => { closeDialog(); requestAnimationFrame(() => command.do()); }} /><//>`;
}

export function OpenDialog() {
  const project = useStore((s) => s.project);
  const offers = (project?.files || []).filter((file) => file.kind === "scenario").map((file) => ({ key: file.path, group: "", title: file.path, kind: "", about: "", path: file.path }));
  return html`<${Dialog} title="Open a scenario" id="open-dialog" onClose=${closeDialog}>
    <${Chooser} offers=${offers} label="Scenarios" placeholder="Name of a file…" onChoose=${({ path }) => { closeDialog(); openFile(path).catch(complain); }} /><//>`;
}

export function HelpDialog() {
  const groups = [...new Set(COMMANDS.map((command) => command.group))];
  return html`<${Dialog} title="With the keyboard" id="help-dialog" wide=${true} onClose=${closeDialog}>
    <div class="keys">${groups.map((group) => html`<section key=${group}><h3>${group}</h3><dl>${COMMANDS.filter((command) => command.group === group && command.keys).map((command) => html`<div key=${command.name}><dt><kbd>${command.keys}</kbd></dt><dd>${command.name}</dd></div>`)}</dl></section>`)}
      <section><h3>In the diagram</h3><dl><div><dt><kbd>arrows</kbd></dt><dd>from box to box</dd></div><div><dt><kbd>Shift+arrows</kbd></dt><dd>move a box</dd></div><div><dt><kbd>Enter</kbd></dt><dd>open it</dd></div><div><dt>drag from an output</dt><dd>connect it</dd></div><div><dt>wheel, drag the ground</dt><dd>zoom, move about</dd></div></dl></section>
      <section><h3>In the curves</h3><dl><div><dt><kbd>←</kbd> <kbd>→</kbd> <kbd>+</kbd> <kbd>−</kbd> <kbd>0</kbd></dt><dd>move, zoom, show all</dd></div><div><dt>drag, wheel</dt><dd>zoom</dd></div><div><dt>click</dt><dd>set a mark; values then show their difference to it</dd></div></dl></section></div>
  <//>`;
}
