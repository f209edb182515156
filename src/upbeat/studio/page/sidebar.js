/** The left side: the files of the project folder, and the runs that are kept in it. */
import { html } from "./vendor/preact-htm.js";
import { isDirty, openFile } from "./draft.js";
import { askProbe, takeFile } from "./adding.js";
import { compareWith, forget, resume, subtractRun, watch } from "./running.js";
import { complain, set, state, useStore } from "./store.js";
import { duration, moment, number, size } from "./format.js";
import { Button, Icon, Tabs } from "./widgets.js";

const LIVE = ["starting", "running", "paused"];

export function Sidebar() {
  const [tab, runs] = useStore((s) => [s.tabs.left, s.runs]);
  const live = runs.filter((run) => LIVE.includes(run.state)).length;
  return html`<${Tabs} name="left" chosen=${tab} onChoose=${(id) => set({ tabs: { ...state.tabs, left: id } })} tabs=${[
    { id: "files", label: "Files", body: () => html`<${Files} />` },
    { id: "runs", label: "Runs", badge: live || null, tone: "live", body: () => html`<${Runs} />` },
  ]} />`;
}

function Files() {
  const [project, path] = useStore((s) => [s.project, s.path]);
  useStore((s) => s.text);
  if (!project) return null;
  const groups = [
    ["Scenarios", project.files.filter((file) => file.kind === "scenario")],
    ["FMUs and systems", project.files.filter((file) => file.kind === "fmu" || file.kind === "ssp")],
    ["Data", project.files.filter((file) => file.kind === "csv")],
  ];
  const unsaved = path && !project.files.some((file) => file.path === path);
  return html`<div class="files">
    <div class="row tight"><${Button} label="New" icon="file" id="new-file" onClick=${() => set({ dialog: { name: "new" } })} />
      <label class="button" data-tip="Copies a file into the project folder (or drop it anywhere)"><${Icon} name="add" /><span>File…</span>
        <input type="file" class="hidden-input" accept=".fmu,.ssp,.csv,.toml" multiple onChange=${(event) => { takeFiles(event.target.files); event.target.value = ""; }} /></label></div>
    ${unsaved ? html`<ul class="plain"><li><span class="file open"><span class="file-name">${path}</span><span class="dot-mark" data-tip="not saved yet">●</span></span></li></ul>` : null}
    ${groups.map(([title, files]) => (files.length ? html`<h3 key=${title}>${title}</h3><ul class="plain">${files.map((file) => html`<li key=${file.path}>
      <button type="button" class=${`file ${file.path === path ? "open" : ""}`} data-tip=${`${file.path}   ${size(file.size)}`} aria-current=${file.path === path ? "true" : undefined}
        onClick=${() => opened(file)}><span class="file-name"><${FileName} path=${file.path} /></span>${file.path === path && isDirty() ? html`<span class="dot-mark">●</span>` : null}</button></li>`)}</ul>` : null))}
    ${!project.files.length ? html`<p class="empty">This folder is empty. Begin a new scenario, or drop an FMU anywhere.</p>` : null}
  </div>`;
}

const FileName = ({ path }) => {
  const at = path.lastIndexOf("/") + 1;
  return html`${at ? html`<span class="note">${path.slice(0, at)}</span>` : null}${path.slice(at)}`;
};

function opened(file) {
  if (file.kind === "scenario") openFile(file.path).catch(complain);
  else if (file.kind === "fmu") askProbe(file.path);
  else window.open(`api/file/raw?path=${encodeURIComponent(file.path)}`, "_blank", "noopener");
}

/** Files that were chosen or dropped: into the project, and FMUs into the scenario. */
export async function takeFiles(files, at = null) {
  for (const file of files) await takeFile(file, at);
}

const STATES = {
  starting: "starting", running: "running", paused: "paused", ended: "ended", failed: "failed", stopped: "stopped",
};

function Runs() {
  const [runs, run, compare, subtract] = useStore((s) => [s.runs, s.run, s.compare, s.subtract]);
  if (!runs.length) return html`<p class="empty">No runs yet. Start one with <kbd>F5</kbd>; its results are kept in <span class="mono">runs/</span>.</p>`;
  return html`<ul class="plain runs">${runs.map((one) => {
    const here = run?.id === one.id;
    return html`<li key=${one.id} class=${`run ${one.state} ${here ? "open" : ""}`}>
      <button type="button" class="run-main" aria-current=${here ? "true" : undefined} onClick=${() => watch(one.id)}>
        <span class=${`state ${one.state}`}>${STATES[one.state] || one.state}</span>
        <span class="run-file">${one.file}</span>
        <span class="note">${moment(one.started)}${one.time !== null && one.time !== undefined ? ` · t = ${number(one.time, 4)} s` : ""}${one.wall ? ` · ${duration(one.wall)}` : ""}</span>
      </button>
      ${one.failure ? html`<p class="problem error small" data-tip=${one.failure.message}>${one.failure.unit ? html`<b class="mono">${one.failure.unit}</b> ` : null}${one.failure.message}</p>` : null}
      ${here ? html`<div class="row tight">
        ${one.resumable ? html`<${Button} label=${one.state === "ended" ? "Go on" : "Resume"} icon="play" tip="Goes on from the last checkpoint" onClick=${() => resume(one.id)} />` : null}
        ${one.result ? html`<a class="button" href=${`api/file/raw?path=${encodeURIComponent(one.result)}`} download data-tip=${one.result}>Results</a>` : null}
        ${!LIVE.includes(one.state) ? html`<${Button} label="Remove this run" icon="remove" text=${false} onClick=${() => forget(one.id)} />` : null}</div>`
      : run ? html`<div class="row tight"><label class="check"><input type="checkbox" checked=${compare.includes(one.id)} onChange=${() => compareWith(one.id)} />overlay</label>
        <label class="check"><input type="checkbox" checked=${subtract === one.id} onChange=${() => subtractRun(subtract === one.id ? null : one.id)} />subtract</label></div>` : null}
    </li>`;
  })}</ul>`;
}
