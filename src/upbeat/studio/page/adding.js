/** Adding: units from the library, FMUs with what probe says of them, nested scenarios, and connections by keys. */
import { html, useEffect, useMemo, useState } from "./vendor/preact-htm.js";
import { post, upload } from "./api.js";
import { connect } from "./diagram.js";
import { edit, listFiles, moveBoxes, newFile, openFile } from "./draft.js";
import { diagramView } from "./diagram.js";
import { closeDialog, Button, Dialog } from "./widgets.js";
import { complain, say, set, state, useStore } from "./store.js";

/** Adds a unit, at a place if one is given, and selects it. */
export async function addUnit({ name, table, block }, at = null) {
  const answer = await edit([{ op: "add_unit", name, ...(block ? { block } : { table }) }], `add ${name}`);
  if (!answer) return null;
  const added = answer.added?.[0] || name;
  set({ selection: { kind: "unit", name: added, key: added }, tabs: { ...state.tabs, right: state.tabs.right === "text" ? "text" : "inspect" } });
  if (at) {
    await new Promise((done) => setTimeout(done, 50));
    await shown();
    moveBoxes({ [added]: at.map((value) => 8 * Math.round(value / 8)) });
  }
  return added;
}

/** When the diagram shows the text as it is. */
function shown() {
  return new Promise((done) => {
    const look = () => (state.viewing ? setTimeout(look, 30) : done());
    look();
  });
}

/** A path as the open scenario would name it: relative to its folder. */
function fromHere(path) {
  const here = (state.path || "").split("/").slice(0, -1);
  const there = path.split("/");
  while (here.length && there.length > 1 && here[0] === there[0]) { here.shift(); there.shift(); }
  return [...here.map(() => ".."), ...there].join("/");
}

const stem = (path) => path.split("/").pop().replace(/\.\w+$/, "").replaceAll(/\W+/g, "_");

/** All that can be added, with the words to find it by. */
function offers(library, project, path) {
  const files = project?.files || [];
  const blocks = (library?.blocks || []).map((block) => ({ key: `block ${block.kind}`, group: ["ode", "function"].includes(block.kind) ? "Equations" : "Blocks", title: block.title, kind: block.kind, about: block.about.replaceAll("`", ""),
    add: (at) => addUnit({ name: ["ode", "function"].includes(block.kind) ? { ode: "system", function: "formula" }[block.kind] : block.kind, block: block.kind }, at) }));
  const fmus = files.filter((file) => file.kind === "fmu").map((file) => ({ key: `fmu ${file.path}`, group: "FMUs of this project", title: stem(file.path), kind: "fmu", about: file.path,
    add: () => askProbe(file.path) }));
  const scenarios = files.filter((file) => file.kind === "scenario" && file.path !== path).map((file) => ({ key: `scenario ${file.path}`, group: "Scenarios inside this one", title: stem(file.path), kind: "scenario",
    about: file.path, add: (at) => addUnit({ name: stem(file.path), table: { scenario: fromHere(file.path) } }, at) }));
  return [...blocks, ...fmus, ...scenarios];
}

const matches = (offer, words) => words.every((word) => `${offer.title} ${offer.kind} ${offer.about} ${offer.group}`.toLowerCase().includes(word));

/** A list to search in and to choose from, by keys or by clicks. */
export function Chooser({ offers: all, onChoose, label, placeholder, empty = "Nothing is called so." }) {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const found = useMemo(() => {
    const hits = all.filter((offer) => matches(offer, words));
    const rank = (offer) => (words.length && offer.title.toLowerCase().startsWith(words[0]) ? 0 : words.length && offer.title.toLowerCase().includes(words[0]) ? 1 : 2);
    return words.length ? hits.map((offer, k) => [rank(offer), k, offer]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map((one) => one[2]) : hits;
  }, [typed, all]);
  useEffect(() => setAt(Math.max(0, found.findIndex((one) => !one.disabled))), [typed, all]);
  const press = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    if (step) {
      event.preventDefault();
      const next = Math.max(0, Math.min(found.length - 1, at + step));
      setAt(next);
      document.getElementById(`offer-${next}`)?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter" && found[at] && !found[at].disabled) {
      event.preventDefault();
      onChoose(found[at]);
    }
  };
  let group = null;
  return html`<div class="chooser">
    <input type="search" aria-label=${label} placeholder=${placeholder} value=${typed} spellcheck=${false} role="combobox" aria-expanded="true" aria-controls="offers"
      aria-activedescendant=${found.length ? `offer-${at}` : undefined} autocomplete="off" onInput=${(event) => setTyped(event.target.value)} onKeyDown=${press} />
    <div id="offers" role="listbox" aria-label=${label} class="offers" tabindex="-1">
      ${found.map((offer, k) => {
        const heading = offer.group !== group && !words.length ? html`<div class="offer-group" role="presentation">${offer.group}</div>` : null;
        group = offer.group;
        return html`${heading}<div key=${offer.key} id=${`offer-${k}`} role="option" aria-selected=${k === at} aria-disabled=${offer.disabled ? "true" : undefined} class=${`offer ${offer.disabled ? "refused" : ""}`}
          onClick=${() => !offer.disabled && onChoose(offer)} onMouseMove=${() => k !== at && setAt(k)}>
          <b>${offer.title}</b>${offer.kind ? html`<span class="mono">${offer.kind}</span>` : null}<span class="about">${offer.about}</span></div>`;
      })}
      ${found.length ? null : html`<p class="empty">${empty}</p>`}
    </div></div>`;
}

export function AddDialog() {
  const [library, project, path] = useStore((s) => [s.library, s.project, s.path]);
  const all = useMemo(() => offers(library, project, path), [library, project, path]);
  return html`<${Dialog} title="Add a unit" id="add-dialog" onClose=${closeDialog}>
    <${Chooser} offers=${all} label="Units to add" placeholder="Equations, a block, an FMU…" onChoose=${(offer) => { closeDialog(); offer.add(null); }} />
    <p class="note"><kbd>↑</kbd> <kbd>↓</kbd> choose, <kbd>Enter</kbd> adds. An FMU that is dropped anywhere is added, too.</p>
  <//>`;
}

// ---------------------------------------------------------------------------------------- connections by keys

export function ConnectDialog({ dialog }) {
  const view = useStore((s) => s.view);
  const [from, setFrom] = useState(dialog.from || null);
  const [targets, setTargets] = useState(null);
  useEffect(() => {
    if (!from) return;
    post("api/targets", { path: state.path, text: state.text, from }).then((answer) => setTargets(answer.targets), (error) => { complain(error); closeDialog(); });
  }, [from]);
  const sources = useMemo(() => [
    ...Object.entries(view?.units || {}).flatMap(([unit, { outputs }]) => outputs.map((port) => ({ key: `${unit}.${port.name}`, group: unit, title: `${unit}.${port.name}`, kind: port.unit || "", about: port.description || port.kind }))),
    ...(view?.inputs || []).map((port) => ({ key: port.name, group: "inputs of the scenario", title: port.name, kind: port.unit || "", about: port.description || "" })),
  ].sort((a, b) => (a.group === dialog.unit ? -1 : 0) - (b.group === dialog.unit ? -1 : 0)), [view]);
  const taken = new Map((view?.connections || []).map((connection) => [connection.target, connection.text]));
  const goals = useMemo(() => Object.entries(targets || {}).map(([name, verdict]) => ({ key: name, group: name.split(".")[0], title: name, kind: verdict.note || "", disabled: !verdict.ok,
    about: verdict.ok ? (taken.has(name) ? `now ${typeof taken.get(name) === "string" ? taken.get(name) : "an expression"}` : "free") : verdict.why }))
    .sort((a, b) => a.disabled - b.disabled), [targets]);
  return html`<${Dialog} title=${from ? `Connect ${from} to…` : "Connect which output?"} id="connect-dialog" onClose=${closeDialog} key=${from}>
    ${from ? html`<${Chooser} offers=${goals} label="Inputs" placeholder="An input…" empty=${targets ? "No input is called so." : "Looking…"} onChoose=${(goal) => { closeDialog(); connect(from, goal.key, targets[goal.key]); }} />`
      : html`<${Chooser} offers=${sources} label="Outputs" placeholder="An output…" empty="There are no outputs yet: add a unit first." onChoose=${(source) => setFrom(source.key)} />`}
  <//>`;
}

// -------------------------------------------------------------------------------------------------- FMUs

/** Copies a file into the project folder; an FMU is then looked into. */
export async function takeFile(file, at = null) {
  const suffix = file.name.split(".").pop().toLowerCase();
  if (!["fmu", "ssp", "csv", "toml"].includes(suffix)) {
    say(`${file.name} is none of the files that a project is made of.`, { tone: "bad", hint: "FMUs (.fmu), systems (.ssp), scenarios (.toml) and tables (.csv) can be dropped." });
    return;
  }
  try {
    const { path } = await upload(file.name, file);
    await listFiles();
    if (suffix === "fmu") await askProbe(path, at);
    else if (suffix === "toml") await openFile(path);
    else say(`${path} is in the project folder now.`, { tone: "good" });
  } catch (error) {
    complain(error);
  }
}

/** Shows what probe says of an FMU before it is added. */
export async function askProbe(path, at = null) {
  set({ dialog: { name: "probe", path, at, answer: null, error: null } });
  try {
    const answer = await post("api/probe", { path });
    if (state.dialog?.name === "probe" && state.dialog.path === path) set({ dialog: { ...state.dialog, answer } });
  } catch (error) {
    if (state.dialog?.name === "probe") set({ dialog: { ...state.dialog, error } });
  }
}

export function ProbeDialog({ dialog }) {
  const { path, answer, error, at } = dialog;
  const add = async () => {
    closeDialog();
    if (state.path === null) await newFile(`${stem(path)}.toml`, "upbeat = 1\n");
    await addUnit({ name: stem(path), table: { kind: "fmu", file: fromHere(path) } }, at);
  };
  return html`<${Dialog} title=${path} id="probe-dialog" wide=${true} onClose=${closeDialog}>
    ${error ? html`<p class="problem error">${error.message} ${error.hint || ""}</p>`
      : !answer ? html`<p class="note busy" role="status">Looking into the FMU, in a process of its own…</p>`
      : html`<${ProbeTable} text=${answer.text} usable=${answer.usable} wrong=${(answer.report.rows || []).filter((row) => !row.ok)} />`}
    <footer><${Button} label="Add it to the scenario" icon="add" kind="primary" id="add-fmu" disabled=${Boolean(error)} onClick=${add} /><${Button} label="Cancel" onClick=${closeDialog} /></footer>
  <//>`;
}

function ProbeTable({ text, usable, wrong }) {
  const verdict = usable === false ? ["problem error", "It cannot be used as it is; the lines below tell why."]
    : wrong.length ? ["problem warning", `It can be loaded, but not all is well, as the lines with ! tell: ${wrong.map((row) => row.name).join(", ")}.`]
    : ["verdict good", "It can be used."];
  return html`<p class=${verdict[0]}>${verdict[1]}</p>
    <pre class="report" tabindex="0">${text}</pre>`;
}

// ----------------------------------------------------------------------------------------------- a new file

const NOTHING = "upbeat = 1\n\n[units]\n\n[connections]\n\n[master]\nstep = 0.01\n\n[run]\nuntil = 10.0\n";

export function NewDialog({ dialog }) {
  const project = useStore((s) => s.project);
  const [example, setExample] = useState(Boolean(dialog.example));
  const [name, setName] = useState(example ? "two_masses" : "");
  const path = name.trim().endsWith(".toml") ? name.trim() : `${name.trim()}.toml`;
  const wrong = !/^[\w][\w ./-]*$/.test(name.trim()) || name.includes("..") ? "A name has letters, digits, - and _; folders are separated by /." : project?.files.some((file) => file.path === path) ? `${path} exists already.` : null;
  const begin = async (event) => {
    event.preventDefault();
    if (wrong) return;
    closeDialog();
    try {
      await newFile(path, example ? await (await fetch("two_masses.toml")).text() : NOTHING);
    } catch (error) {
      complain(error);
    }
  };
  return html`<${Dialog} title="A new scenario" id="new-dialog" onClose=${closeDialog}>
    <form onSubmit=${begin}><label class="stacked">Name of its file<input class="mono" value=${name} placeholder="damped.toml" onInput=${(event) => setName(event.target.value)} aria-invalid=${name && wrong ? "true" : undefined} /></label>
    <label class="check"><input type="checkbox" checked=${example} onChange=${(event) => setExample(event.target.checked)} />begin with an example: two masses that collide</label>
    ${name && wrong ? html`<p class="field-problem" role="status">${wrong}</p>` : html`<p class="note">It is written when you save it.</p>`}
    <footer><button type="submit" class="button primary" disabled=${Boolean(wrong)}>Begin</button><${Button} label="Cancel" onClick=${closeDialog} /></footer></form>
  <//>`;
}
