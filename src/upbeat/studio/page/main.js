/** The page of Upbeat Studio: its frame, and what happens when it is opened. */
import { html, render, useEffect, useRef } from "./vendor/preact-htm.js";
import { get } from "./api.js";
import { AddDialog, ConnectDialog, NewDialog, ProbeDialog } from "./adding.js";
import { CommandDialog, HelpDialog, OpenDialog, setTheme, startKeyboard } from "./commands.js";
import { ConflictDialog } from "./conflict.js";
import { Curves } from "./curves.js";
import { Diagram } from "./diagram.js";
import { isDirty, listFiles, lookAgain, newFile, openFile, redo, save, undo } from "./draft.js";
import { Inspector } from "./inspector.js";
import { Judging } from "./judging.js";
import { PictureDialog } from "./pictures.js";
import { RunBar } from "./run-bar.js";
import { isLive, listRuns, studioTimes, watch } from "./running.js";
import { Sidebar, takeFiles } from "./sidebar.js";
import { complain, kept, set, state, subscribe, useStore } from "./store.js";
import { traceOf } from "./traces.js";
import { TextEditor } from "./text-editor.js";
import { Button, Divider, Tabs, Toasts, startTooltips } from "./widgets.js";

const DIALOGS = { add: AddDialog, connect: ConnectDialog, probe: ProbeDialog, new: NewDialog, open: OpenDialog, commands: CommandDialog, help: HelpDialog, picture: PictureDialog };

function Studio() {
  const [sizes, dialog, conflict, hidden] = useStore((s) => [s.sizes, s.dialog, s.conflict, s.hidden]);
  const frame = useRef();
  const idle = useStore((s) => !s.run && s.tabs.bottom === "curves" && !s.sizes.chosen); // no curves yet: room for the diagram
  useEffect(() => {
    for (const side of ["left", "right", "bottom"]) frame.current.style.setProperty(`--${side}`, `${idle && side === "bottom" ? 150 : sizes[side]}px`);
    if (sizes.chosen) kept.set("sizes", sizes);
  }, [sizes, idle]);
  const Open = dialog && DIALOGS[dialog.name];
  return html`<div class="studio" ref=${frame}>
    <${Top} />
    <div class="left-pane"><${Sidebar} /></div><${Divider} side="left" upright=${true} />
    <main class="middle"><${Diagram} /><${Divider} side="bottom" /><${Bottom} /></main>
    <${Divider} side="right" upright=${true} /><div class="right-pane"><${Right} /></div>
    ${Open && html`<${Open} key=${dialog.path || dialog.name} dialog=${dialog} />`}
    ${conflict && html`<${ConflictDialog} conflict=${conflict} />`}
    <${Toasts} />
  </div>`;
}

function Top() {
  const [path, past, future, theme, name] = useStore((s) => [s.path, s.past, s.future, s.theme, s.view?.name]);
  const dirty = useStore((s) => s.path !== null && isDirty(s));
  useEffect(() => { document.title = path ? `${dirty ? "● " : ""}${path} – Upbeat Studio` : "Upbeat Studio"; }, [path, dirty]);
  return html`<header class="top">
    <div class="brand"><img src="icon.svg" alt="" width="22" height="22" /><h1>Upbeat Studio</h1>${path ? html`<span class="file-title mono" data-tip=${name || path}>${path.slice(path.lastIndexOf("/") + 1)}</span>` : null}</div>
    <div class="file-tools" role="toolbar" aria-label="File">
      <${Button} id="undo" label="Undo" icon="undo" text=${false} keys="Ctrl+Z" disabled=${!past.length} onClick=${undo} tip=${past.length ? `Undo: ${past[past.length - 1].label}` : "Undo"} />
      <${Button} id="redo" label="Redo" icon="redo" text=${false} keys="Ctrl+Y" disabled=${!future.length} onClick=${redo} />
      <${Button} id="save" label="Save" icon="save" keys="Ctrl+S" kind=${dirty ? "changed" : ""} disabled=${!dirty} tip=${dirty ? "Save the scenario file" : "All is saved"} onClick=${() => save()} />
    </div>
    <${RunBar} />
    <div class="page-tools" role="toolbar" aria-label="Page">
      <${Button} label="Commands" icon="menu" text=${false} keys="Ctrl+K" onClick=${() => set({ dialog: { name: "commands" } })} />
      <${Button} id="theme" label=${`Colours: ${{ auto: "as the system", light: "light", dark: "dark" }[theme]}`} icon=${state.themeShown === "dark" ? "sun" : "moon"} text=${false} onClick=${() => setTheme(state.themeShown === "dark" ? "light" : "dark")} />
      <${Button} label="Help" icon="help" text=${false} keys="?" onClick=${() => set({ dialog: { name: "help" } })} />
    </div></header>`;
}

function Right() {
  const [tab, problems] = useStore((s) => [s.tabs.right, s.view?.problems]);
  const wrong = (problems || []).filter((problem) => problem.severity !== "note" && (problem.where || []).join() !== "units").length;
  const severe = (problems || []).some((problem) => problem.severity === "error");
  return html`<${Tabs} name="right" chosen=${tab} onChoose=${(id) => set({ tabs: { ...state.tabs, right: id }, ...(id === "text" && state.sizes.right < 430 && innerWidth > 1100 ? { sizes: { ...state.sizes, right: 460 } } : {}) })} tabs=${[
    { id: "inspect", label: "Selected", body: () => html`<${Inspector} />` },
    { id: "text", label: "Text", badge: wrong || null, tone: severe ? "bad" : "warn", body: () => html`<${TextEditor} />` },
  ]} />`;
}

function Bottom() {
  const [tab, log, run, jobs] = useStore((s) => [s.tabs.bottom, s.log, s.run, s.jobs]);
  const bottom = useStore((s) => s.sizes.bottom);
  const large = Math.round(0.76 * innerHeight);
  const enlarge = () => set({ sizes: { ...state.sizes, bottom: bottom < large ? large : Math.round(0.48 * innerHeight), chosen: true } });
  const working = jobs.filter((job) => job.state === "running").length;
  return html`<${Tabs} name="bottom" chosen=${tab} onChoose=${(id) => set({ tabs: { ...state.tabs, bottom: id } })} tabs=${[
    { id: "curves", label: "Curves", body: () => html`<${Curves} />` },
    { id: "log", label: "Log", badge: run?.state === "failed" ? "!" : null, tone: "bad", body: () => html`<${Log} log=${log} run=${run} />` },
    { id: "judge", label: "Judge", badge: working || null, tone: "live", body: () => html`<${Judging} />` },
  ]} extra=${html`${run?.failure ? html`<${Failure} run=${run} />` : null}<span class="grow"></span>
    <${Button} label=${bottom >= large ? "More room for the diagram" : "More room for this"} icon=${bottom >= large ? "down" : "up"} text=${false} kind="quiet" onClick=${enlarge} />`} />`;
}

const Failure = ({ run }) => html`<p class="failure" role="alert" data-tip=${run.failure.message}><b>${run.failure.unit ? `${run.failure.unit} failed: ` : "The run failed: "}</b>${run.failure.message}
  ${run.failure.unit && run.failure.unit in (state.view?.units || {}) ? html`<button type="button" class="link" onClick=${() => set({ selection: { kind: "unit", name: run.failure.unit, key: run.failure.unit }, tabs: { ...state.tabs, right: "inspect" } })}>show it</button>` : null}</p>`;

function Log({ log, run }) {
  const end = useRef();
  useEffect(() => end.current?.scrollIntoView({ block: "nearest" }), [log.length]);
  const lines = [...(run?.notes || []).filter((note) => !log.includes(note)), ...log];
  return html`<div class="log" tabindex="0" role="log" aria-label="Log of the run">${lines.length ? lines.map((line, k) => html`<div key=${k}>${typeof line === "string" ? line : line.text || line.message || JSON.stringify(line)}</div>`) : html`<p class="empty">Nothing to tell.</p>`}
    ${run?.failure ? html`<div class="problem error">${run.failure.message}</div>` : null}${run?.said ? html`<div class="outcome">${run.said}</div>` : null}<div ref=${end}></div></div>`;
}

/** Files can be dropped anywhere. */
function startDropping() {
  let depth = 0;
  const files = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
  addEventListener("dragenter", (event) => { if (files(event)) { depth += 1; document.body.classList.add("dropping"); } });
  addEventListener("dragleave", (event) => { if (files(event) && --depth <= 0) { depth = 0; document.body.classList.remove("dropping"); } });
  addEventListener("dragover", (event) => { if (files(event)) event.preventDefault(); });
  addEventListener("drop", (event) => {
    if (!files(event)) return;
    event.preventDefault();
    depth = 0;
    document.body.classList.remove("dropping");
    takeFiles([...event.dataTransfer.files]).catch(complain);
  });
}

/** Opens what the address says, what the server was started with, or the only scenario there is; and finds runs again. */
async function begin() {
  setTheme(kept.get("theme") || "auto");
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(state.theme));
  const sizes = kept.get("sizes");
  if (sizes) set({ sizes: { ...state.sizes, ...sizes } });
  else set({ sizes: { ...state.sizes, bottom: Math.round(Math.max(250, Math.min(innerHeight * 0.48, 620))) } });
  const wanted = new URLSearchParams(location.hash.slice(1));
  render(html`<${Studio} />`, document.getElementById("studio"));
  document.querySelector("#studio > .loading")?.remove();
  get("api/library").then((library) => set({ library }), complain);
  await Promise.all([listFiles(), listRuns()]);
  const scenarios = (state.project?.files || []).filter((file) => file.kind === "scenario");
  const path = wanted.get("file") || state.project?.open || (scenarios.length === 1 ? scenarios[0].path : null);
  if (path) {
    try {
      await openFile(path);
    } catch (error) {
      if (!(await reopenDraft(path))) complain(error);
    }
  }
  const run = wanted.get("run") || state.runs.find((one) => isLive(one) && (!state.path || one.file === state.path))?.id;
  if (run && state.runs.some((one) => one.id === run)) await watch(run);
}

/** A scenario that was never saved has no file, but what was typed is kept. */
async function reopenDraft(path) {
  const draft = kept.get(`draft:${state.project?.folder}:${path}`);
  if (!draft || draft.version) return false;
  await newFile(path, draft.text);
  return true;
}

startKeyboard();
startTooltips();
startDropping();
addEventListener("focus", lookAgain);
begin().catch(complain);

/** For tests and measurements: what the page knows. */
window.studio = { state, set, subscribe, traceOf, times: studioTimes };
