/** Questions about the scenario or a run that take a while, and what comes back: sentences, pictures, tables, edits. */
import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact-htm.js";
import { get, post, remove } from "./api.js";
import { edit, settled } from "./draft.js";
import { complain, set, state, useStore } from "./store.js";
import { number, parsed } from "./format.js";
import { Button, Icon } from "./widgets.js";

const tolerance = { name: "tolerance", label: "tolerance", placeholder: "0.001" };

/** What can be asked, and with which options. Those with `needs` are asked when their options are there. */
const QUESTIONS = [
  { what: "explain", label: "Explain", about: "What the master does: order, loops, the program of a step, the engine." },
  { what: "stability", label: "Stability", about: "Whether the coupling can be trusted, as a verdict with its proof.", fields: [{ name: "step", label: "step / s", placeholder: "as written" }] },
  { what: "map", label: "Stability map", about: "The verdict over the step size and a parameter, as a picture.", needs: true,
    fields: [{ name: "parameter", label: "parameter", parameters: true }, { name: "low", label: "from" }, { name: "high", label: "to" }, { name: "points", label: "points a side", placeholder: "40" }] },
  { what: "trust", label: "Trust", about: "How large the error of the results is.", fields: [tolerance] },
  { what: "step", label: "Step size", about: "Step sizes with their errors and their work, and which one to take.", fields: [tolerance] },
  { what: "discover", label: "Discover events", about: "Jumps and kinks in results that no event was declared for." },
  { what: "schedule", label: "Schedule", about: "Which unit is computed on which core, and when: a Gantt chart.", fields: [{ name: "cores", label: "cores", placeholder: "2" }] },
  { what: "study", label: "Study", about: "The runs of the scenario's [study]: front, bands, tables." },
  { what: "report", label: "Report", about: "One page with all of it, as a file." },
];

/** Parameters of real numbers that a map can go over, with their values. */
const parameters = () => Object.entries(state.outer?.units || {}).flatMap(([unit, { parameters: own }]) => own.filter((port) => port.kind === "real" && typeof port.value === "number").map((port) => [`${unit}.${port.name}`, port.value]));

/** Asks; the answer is looked for until it is there. */
async function ask(what, options = {}) {
  if (!(await settled())) return;
  const run = ["trust", "discover", "report"].includes(what) && state.run?.file === state.path ? state.run.id : null;
  try {
    const { id } = await post("api/jobs", { what, path: state.path, text: state.text, run, options });
    const job = { id, what, state: "running", progress: null, message: "", result: null, text: state.text };
    set({ jobs: [job, ...state.jobs.filter((one) => one.what !== what)], judged: what, tabs: { ...state.tabs, bottom: "judge" } });
    let wait = 120;
    for (;;) {
      await new Promise((done) => setTimeout(done, wait));
      wait = Math.min(1000, wait * 1.3);
      if (!state.jobs.some((one) => one.id === id)) return;
      const now = await get(`api/jobs/${encodeURIComponent(id)}`);
      set({ jobs: state.jobs.map((one) => (one.id === id ? { ...one, ...now, id } : one)) });
      if (now.state !== "running") return;
    }
  } catch (error) {
    complain(error);
    set({ jobs: state.jobs.map((one) => (one.what === what && one.state === "running" ? { ...one, state: "failed", message: error.message } : one)) });
  }
}

async function cancel(job) {
  set({ jobs: state.jobs.filter((one) => one.id !== job.id) });
  remove(`api/jobs/${encodeURIComponent(job.id)}`).catch(complain);
}

export function Judging() {
  const [jobs, judged, path, view] = useStore((s) => [s.jobs, s.judged, s.path, s.outer]);
  const job = jobs.find((one) => one.what === judged) || null;
  return html`<div class="judging">
    <nav class="questions" aria-label="Questions">${QUESTIONS.map((question) => {
      const known = jobs.find((one) => one.what === question.what);
      return html`<button type="button" key=${question.what} class=${`question ${judged === question.what ? "open" : ""}`} data-tip=${question.about} disabled=${path === null || (question.what === "study" && !view?.study)}
        aria-current=${judged === question.what ? "true" : undefined} onClick=${() => (known || question.needs ? set({ judged: question.what }) : ask(question.what, question.what === "schedule" ? { cores: state.show.cores || 2 } : {}))}>
        ${question.label}${known ? html`<span class=${`job-state ${known.state}`} aria-label=${known.state}></span>` : null}</button>`;
    })}</nav>
    <div class="answer" tabindex="0" role="region" aria-label="Answer" aria-live="polite">${judged ? html`<${Answer} key=${judged} what=${judged} job=${job} />` : html`<p class="empty">Ask whether the coupling is stable, how large the errors are, which step size is right. Each question runs in a process of its own.</p>`}</div>
  </div>`;
}

function Answer({ what, job }) {
  const text = useStore((s) => s.text);
  const result = job?.result || {};
  const question = QUESTIONS.find((one) => one.what === what);
  const [options, setOptions] = useState(() => (what === "map" && parameters().length ? around(parameters()[0]) : {}));
  const working = job?.state === "running";
  const missing = question.needs && (question.fields || []).some((field) => !field.placeholder && (options[field.name] === undefined || options[field.name] === ""));
  return html`<header class="answer-head"><h2>${question.label}</h2>
      ${(question.fields || []).map((field) => html`<label class="check" key=${field.name}>${field.label} ${field.parameters
        ? html`<select onChange=${(event) => setOptions({ ...options, ...around(parameters().find(([name]) => name === event.target.value)) })}>${parameters().map(([name]) => html`<option key=${name} value=${name} selected=${name === options.parameter}>${name}</option>`)}</select>`
        : html`<input class="mono short" value=${options[field.name] ?? ""} placeholder=${field.placeholder} onInput=${(event) => setOptions({ ...options, [field.name]: event.target.value })} onKeyDown=${(event) => event.key === "Enter" && !working && !missing && ask(what, numbers({ ...options, [field.name]: event.target.value }))} />`}</label>`)}
      ${working ? html`<span class="busy note" role="status">${job.message || "Working…"}</span>${job.progress !== null && job.progress !== undefined ? html`<progress value=${job.progress} max="1" aria-label="Progress"></progress>` : null}
        <${Button} label="Cancel" onClick=${() => cancel(job)} />` : html`<${Button} id="ask" label=${job ? "Ask again" : "Ask"} kind=${job ? "" : "primary"} disabled=${missing} onClick=${() => ask(what, numbers(options))} />`}
      ${result.file ? html`<a class="button" href=${`api/file/raw?path=${encodeURIComponent(result.file)}`} download>Save ${result.file.split("/").pop()}</a>` : null}
      ${result.edits?.length ? html`<${Button} label="Apply" icon="check" kind="primary" tip="Writes it into the scenario; undo takes it back" onClick=${() => edit(result.edits, job.what)} />` : null}
      ${job && !working && text !== job.text ? html`<span class="tag">the scenario has changed since</span>` : null}</header>
    ${!job ? html`<p class="note">${question.about}</p>` : null}
    ${result.sentence && job.state !== "failed" ? html`<p class="sentence">${result.sentence}</p>` : null}
    ${job?.state === "failed" ? html`<p class="problem error">${job.error?.error || job.message || "It failed."}${job.error?.hint ? html`<br />${job.error.hint}` : null}</p>` : null}
    ${result.data?.bars ? html`<${Gantt} data=${result.data} />` : null}
    ${result.data?.rows && result.data?.columns ? html`<${Table} data=${result.data} what=${job.what} />` : null}
    ${(result.svg || []).map((svg, k) => html`<${Picture} key=${k} svg=${svg} name=${`${question.label} ${k + 1}`} />`)}
    ${result.text && job?.state !== "failed" ? html`<pre class="report" tabindex="0">${result.text}</pre>` : null}`;
}

/** A parameter with values around the one that it has. */
const around = ([name, value]) => ({ parameter: name, low: String(value ? Math.min(0.5 * value, 2 * value) : -1), high: String(value ? Math.max(0.5 * value, 2 * value) : 1) });

/** Options as they were typed, numbers as numbers; what is empty is left out. */
const numbers = (options) => Object.fromEntries(Object.entries(options).filter(([, value]) => value !== "").map(([name, value]) => [name, name === "parameter" ? value : parsed(String(value))]));

/** A picture from the server. As an image it can do nothing but be looked at. */
function Picture({ svg, name }) {
  const address = useMemo(() => URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" })), [svg]);
  useEffect(() => () => URL.revokeObjectURL(address), [address]);
  return html`<figure class="picture"><img src=${address} alt=${name} /><figcaption><a class="button" href=${address} download=${`${name.toLowerCase().replaceAll(" ", "_")}.svg`}>Save SVG</a></figcaption></figure>`;
}

/** Rows that the server sorted out; a row may bring edits with it. */
function Table({ data, what }) {
  return html`<table class="result"><thead><tr>${data.columns.map((column) => html`<th key=${column} scope="col">${column}</th>`)}${data.rows.some((row) => row.edits) ? html`<th></th>` : null}</tr></thead>
    <tbody>${data.rows.map((row, k) => {
      const cells = Array.isArray(row) ? row : row.cells || data.columns.map((column) => row[column]);
      return html`<tr key=${k} class=${row.chosen ? "chosen" : ""}>${cells.map((cell, n) => html`<td key=${n} class=${typeof cell === "number" ? "mono number" : ""}>${typeof cell === "number" ? number(cell, 4) : cell}</td>`)}
        ${row.edits ? html`<td><${Button} label="Apply" onClick=${() => edit(row.edits, what)} /></td>` : null}</tr>`;
    })}</tbody></table>`;
}

/** What runs where and when. */
function Gantt({ data }) {
  const place = useRef();
  const [width, setWidth] = useState(700);
  useEffect(() => {
    const resized = new ResizeObserver(() => place.current && setWidth(Math.max(320, place.current.clientWidth - 8)));
    resized.observe(place.current);
    return () => resized.disconnect();
  }, []);
  const end = data.bars.reduce((most, bar) => Math.max(most, bar.end), 0) || 1;
  const begin = data.bars.reduce((least, bar) => Math.min(least, bar.begin), end);
  const units = [...new Set(data.bars.map((bar) => bar.unit).filter(Boolean))];
  const [left, row] = [64, 34];
  const x = (t) => left + ((t - begin) / (end - begin)) * (width - left - 12);
  const height = data.cores * row + 34;
  const scale = end - begin < 2e3 ? [1, "µs"] : [1e-3, "ms"]; // the server measures in microseconds
  const ticks = Array.from({ length: 6 }, (_, k) => begin + ((end - begin) * k) / 5);
  return html`<figure class="gantt" ref=${place}><svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${`Schedule of a step on ${data.cores} cores`}>
    ${ticks.map((t, k) => html`<g key=${k} class="tick"><line x1=${x(t)} x2=${x(t)} y1="4" y2=${data.cores * row + 6} /><text x=${x(t)} y=${height - 10} text-anchor=${k === 5 ? "end" : "middle"}>${number((t - begin) * scale[0], 3)}${k === 5 ? ` ${scale[1]}` : ""}</text></g>`)}
    ${Array.from({ length: data.cores }, (_, core) => html`<text key=${core} class="core-name" x="0" y=${core * row + 25}>core ${core + 1}</text>`)}
    ${data.bars.map((bar, k) => {
      const w = Math.max(1.5, x(bar.end) - x(bar.begin) - 1);
      return html`<g key=${k} class=${`bar ${bar.unit ? `core-${units.indexOf(bar.unit) % 6}` : "other"}`} data-tip=${`${bar.name}\n${number((bar.begin - begin) * scale[0], 4)} – ${number((bar.end - begin) * scale[0], 4)} ${scale[1]}`}>
        <rect x=${x(bar.begin)} y=${bar.core * row + 8} width=${w} height=${row - 10} rx="3" />${w > 7.2 * (bar.unit || bar.name).length ? html`<text x=${x(bar.begin) + w / 2} y=${bar.core * row + 25}>${bar.unit || bar.name}</text>` : null}</g>`;
    })}</svg></figure>`;
}
