/** What is selected, to look at and to change: a unit with its equations, a connection, an event, the master. */
import { html, useState } from "./vendor/preact-htm.js";
import { edit, enter, openFile } from "./draft.js";
import { removeSelected } from "./diagram.js";
import { count, number, parsed, written } from "./format.js";
import { say, set, state, useStore } from "./store.js";
import { Button, Choice, ExpressionField, Field, Icon, Message } from "./widgets.js";

/** A value as an operation sets it. Numbers go as they were typed: 2.0 is a real number, 2 may be a whole one. */
export function setting(at, text) {
  const value = typeof text === "string" ? parsed(text) : text;
  if (typeof value === "number" && typeof text === "string") {
    const plain = text.trim().replaceAll("−", "-");
    const toml = plain.replace(/^([+-]?)\./, "$10.").replace(/\.(?=e|$)/i, ".0");
    return { op: "set", at, value, toml };
  }
  if (Array.isArray(value) && typeof text === "string" && value.every((one) => typeof one === "number")) return { op: "set", at, value, toml: text.trim().replaceAll("−", "-") };
  return { op: "set", at, value };
}

/** A number where a real one is expected: 2 is written as 2.0. */
export function realSetting(at, text) {
  const made = setting(at, text);
  if (made.toml && /^[+-]?\d+$/.test(made.toml)) made.toml += ".0";
  return made;
}

const isTable = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** What to write so that a number has another unit of measure: it stands in a table, with the number as `key`. */
function unitSetting(at, written, key, port, typed) {
  const unit = typed.trim();
  if (isTable(written)) return [unit ? { op: "set", at: [...at, "unit"], value: unit } : { op: "remove", at: [...at, "unit"] }];
  if (!unit) return [];
  const real = !port.kind || port.kind === "real";
  return [{ op: "set", at, value: { unit } }, real ? realSetting([...at, key], String(written ?? 0)) : { op: "set", at: [...at, key], value: written }];
}

/** Ports are written as a list of names or as a table: the entries in either case, [name, written]. */
const entries = (value) => (Array.isArray(value) ? value.map((name) => [name, {}]) : Object.entries(value || {}));

/** What to write so that a list of names or a table has one more. */
function added(unit, key, table, name, value) {
  if (Array.isArray(table)) {
    if (isTable(value) && !Object.keys(value).length) return [{ op: "set", at: ["units", unit, key], value: [...table, name] }];
    return [{ op: "remove", at: ["units", unit, key] }, ...table.map((one) => ({ op: "set", at: ["units", unit, key, one], value: {} })),
      { op: "set", at: ["units", unit, key, name], value }];
  }
  return [{ op: "set", at: ["units", unit, key, name], value }];
}

function removed(unit, key, table, name) {
  if (Array.isArray(table)) return [{ op: "set", at: ["units", unit, key], value: table.filter((one) => one !== name) }];
  return [{ op: "remove", at: ["units", unit, key, name] }];
}

export function Inspector() {
  const [selection, view, inside] = useStore((s) => [s.selection, s.view, s.inside]);
  if (!view) return html`<p class="empty">Open a scenario, or begin a new one.</p>`;
  const locked = inside.length > 0;
  const body = !selection ? (locked && !view.path ? html`<${MadeOf} view=${view} name=${inside[inside.length - 1]} />` : html`<${ScenarioForm} view=${view} />`)
    : selection.kind === "unit" && view.units?.[selection.name] ? html`<${UnitForm} key=${selection.name} name=${selection.name} unit=${view.units[selection.name]} />`
    : selection.kind === "wire" ? html`<${WireForm} key=${selection.name} selection=${selection} view=${view} />`
    : selection.kind === "event" ? html`<${EventForm} key=${selection.name} name=${selection.name} view=${view} />`
    : selection.kind === "input" ? html`<${InputForm} key=${selection.name} name=${selection.name} view=${view} />`
    : selection.kind === "output" ? html`<${OutputForm} key=${selection.name} name=${selection.name} view=${view} />`
    : html`<${ScenarioForm} view=${view} />`;
  return html`<fieldset class="inspector" disabled=${locked}>${body}</fieldset>`;
}

const Heading = ({ what, name, onRename, tools }) => html`<header class="inspector-head">
  <p class="what">${what}</p>
  <div class="row">${onRename ? html`<${Field} value=${name} onCommit=${onRename} label="Name" id="unit-name" />` : html`<h2>${name}</h2>`}${tools}</div>
</header>`;

const Part = ({ title, children, open = true, extra, note }) => html`<details class="part" open=${open}>
  <summary><h3>${title}</h3>${note && html`<span class="note">${note}</span>`}</summary>
  ${extra}${children}</details>`;

/** A table of ports: name, value, unit of measure. */
const measure = (text) => (text ? html`<span class="measure">${text}</span>` : null);

// ------------------------------------------------------------------------------------------- units

const EQUATIONS = ["ode", "function"];

function UnitForm({ name, unit }) {
  const path_ = useStore((s) => s.path);
  const table = unit.written || {};
  const kind = table.kind || (table.transitions ? "state_machine" : table.states ? "ode" : table.outputs ? "function" : unit.kind);
  const equations = !table.model && !table.scenario && !table.class && (EQUATIONS.includes(kind) || (!table.kind && (table.states || table.outputs)));
  const problems = (state.view?.problems || []).filter((problem) => problem.unit === name);
  const folder = path_?.includes("/") ? path_.slice(0, path_.lastIndexOf("/") + 1) : "";
  const rename = async (to) => {
    if (await edit([{ op: "rename_unit", unit: name, to: to.trim() }], `rename ${name}`)) set({ selection: { kind: "unit", name: to.trim(), key: to.trim() } });
  };
  return html`
    <${Heading} what=${[unit.kind, unit.rate, unit.isolation && unit.isolation !== "none" ? `isolation ${unit.isolation}` : null].filter(Boolean).join(" · ")} name=${name} onRename=${rename}
      tools=${html`${unit.inside?.length ? html`<${Button} label="Open" onClick=${() => enter([...state.inside, name])} />` : null}
        <${Button} label="Remove" icon="remove" text=${false} keys="Delete" onClick=${removeSelected} />`} />
    ${unit.title && ![name, unit.kind].includes(unit.title.toLowerCase()) ? html`<p class="note">${unit.title}</p>` : null}
    ${problems.map((problem, k) => html`<div key=${k} class=${`problem ${problem.severity}`}><${Icon} name="warn" /><p><${Message} text=${problem.message} /></p>
      ${(problem.fixes || []).map((fix, n) => html`<button type="button" key=${n} class="button fix" onClick=${() => edit(fix.edits, fix.label)}>${fix.label}</button>`)}</div>`)}
    ${table.scenario && html`<p class="note">The scenario <button type="button" class="link" onClick=${() => openFile(folder + table.scenario).catch((error) => say(error.message, { tone: "bad" }))}>${table.scenario}</button></p>`}
    ${table.model && html`<p class="note">Of the model <b class="mono">${table.model}</b>, which other units may share.</p>`}
    ${equations ? html`<${Equations} name=${name} table=${table} />` : html`<${Settings} name=${name} table=${table} />`}
    <${Parameters} name=${name} unit=${unit} table=${table} equations=${equations} />
    ${!equations || !table.states ? html`<${Starts} name=${name} unit=${unit} table=${table} />` : null}
    <${Inputs} name=${name} unit=${unit} />
    <${Adaptations} name=${name} written=${unit.adapt || []} />
    <${Part} title="Outputs" open=${false} note=${count(unit.outputs.length, "output")}><table class="ports"><tbody>${unit.outputs.map((port) => html`<tr key=${port.name} data-tip=${port.description || undefined}>
      <th scope="row" class="mono">${port.name}</th><td>${port.kind}${port.size > 1 ? ` [${port.size}]` : ""}</td><td>${measure(port.unit)}</td>
      <td class="note">${port.feedthrough?.length ? `directly from ${port.feedthrough.join(", ")}` : ""}</td></tr>`)}</tbody></table><//>
  `;
}

/** Keys of a unit that have no form of their own: what blocks, FMUs and others are set up with. */
function Settings({ name, table }) {
  const library = useStore((s) => s.library);
  const block = library?.blocks.find((one) => one.kind === table.kind);
  const known = (block?.parameters || []).filter((one) => !(one.name in table));
  const own = Object.entries(table).filter(([key, value]) => !["kind", "model", "scenario", "parameters", "start", "adapt"].includes(key) && !isTable(value));
  if (!own.length && !known.length) return null;
  const isExpression = (value) => typeof value === "string" && /[-+*/()]/.test(value);
  return html`<${Part} title=${table.kind || "Unit"} note=${block ? null : undefined}>
    ${block?.about ? html`<p class="note">${block.about.replaceAll("`", "")}</p>` : null}
    <table class="ports"><tbody>
    ${own.map(([key, value]) => html`<tr key=${key}><th scope="row" class="mono">${key}</th><td class="wide">${isExpression(value) && !["fmu", "path", "function", "class"].includes(key)
      ? html`<${ExpressionField} value=${value} unit=${name} label=${`${key} of ${name}`} onCommit=${(text) => edit([setting(["units", name, key], text)], key)} />`
      : html`<${Field} value=${value} mono=${true} label=${`${key} of ${name}`} onCommit=${(text) => edit([typeof value === "number" && !Number.isInteger(value) ? realSetting(["units", name, key], text) : setting(["units", name, key], text)], key)} />`}</td></tr>`)}
    ${known.map((one) => html`<tr key=${one.name} data-tip=${one.about || undefined}><th scope="row" class="mono unset">${one.name}</th><td class="wide">
      <${Field} value="" placeholder=${one.value === null || one.value === undefined ? "not set" : written(one.value)} mono=${true} label=${`${one.name} of ${name}`}
        onCommit=${(text) => text.trim() && edit([setting(["units", name, one.name], text)], one.name)} /></td></tr>`)}
    </tbody></table><//>`;
}

function Parameters({ name, unit, table, equations }) {
  const own = table.parameters || {};
  const change = (port, text) => {
    const at = ["units", name, "parameters", port.name];
    const place = isTable(own[port.name]) ? [...at, "value"] : at;
    if (text.trim() === "") return edit([{ op: "remove", at }], `default ${port.name}`);
    return edit([port.kind === "real" ? realSetting(place, text) : setting(place, text)], `${name}.${port.name}`);
  };
  const ports = unit.adapt?.length ? unit.parameters.filter((port) => port.name.startsWith("unit.")).map((port) => ({ ...port, name: port.name.slice(5) })) // what is adapted is called unit within
    : unit.parameters;
  const known = ports.length ? ports // while a unit is wrong there is only what is written
    : Object.entries(own).map(([key, value]) => ({ name: key, kind: "real", value: isTable(value) ? value.value : value, unit: isTable(value) ? value.unit : "" }));
  const kinds = known.filter((port) => !(table.kind && !equations && port.name in table));
  if (!kinds.length && !equations) return null;
  return html`<${Part} title="Parameters" note=${kinds.length ? null : "none"}>
    <table class="ports"><tbody>${kinds.map((port) => html`<tr key=${port.name} data-tip=${[port.description, port.tunable ? "may change during a run" : "fixed during a run"].filter(Boolean).join("\n")}>
      <th scope="row" class="mono">${port.name}</th>
      <td class="wide">${port.kind === "boolean"
        ? html`<input type="checkbox" checked=${Boolean(port.value)} aria-label=${`${name}.${port.name}`} onChange=${(event) => edit([setting(["units", name, "parameters", port.name], event.target.checked)], port.name)} />`
        : html`<${Field} value=${port.value} mono=${true} label=${`${name}.${port.name}`} placeholder=${port.unit || ""} onCommit=${(text) => change(port, text)} />`}</td>
      <td class="unit">${equations && port.name in own && ["real", "integer"].includes(port.kind) ? html`<${Field} value=${port.unit} label=${`Unit of measure of ${port.name}`} placeholder="unit" onCommit=${(text) => edit(unitSetting(["units", name, "parameters", port.name], own[port.name], "value", port, text), `unit of ${port.name}`)} />` : measure(port.unit)}</td>
      <td class="act">${equations && port.name in own ? html`<button type="button" class="button quiet" aria-label=${`Remove parameter ${port.name}`} onClick=${() => edit(removed(name, "parameters", own, port.name), `remove ${port.name}`)}><${Icon} name="remove" /></button>` : null}</td></tr>`)}</tbody></table>
    ${equations && html`<${NewEntry} what="parameter" placeholder="k = 1.0" onAdd=${(key, text) => edit([realSetting(["units", name, "parameters", key], text || "1.0")], `parameter ${key}`)} />`}
  <//>`;
}

function Starts({ name, unit, table }) {
  if (!unit.states?.length) return null;
  return html`<${Part} title="Start values"><table class="ports"><tbody>${unit.states.map((port) => html`<tr key=${port.name} data-tip=${port.description || undefined}>
    <th scope="row" class="mono">${port.name}</th><td class="wide"><${Field} value=${port.start ?? port.value} mono=${true} label=${`start of ${name}.${port.name}`}
      onCommit=${(text) => edit([text.trim() === "" ? { op: "remove", at: ["units", name, "start", port.name] } : realSetting(["units", name, "start", port.name], text)], `start of ${port.name}`)} /></td>
    <td>${measure(port.unit)}</td></tr>`)}</tbody></table><//>`;
}

const goTo = (line) => set({ tabs: { ...state.tabs, right: "text" }, goto: { line, at: Date.now() } });

/** A connection with a table or a list for its text is changed in the text of the scenario. */
const InText = ({ connection }) => html`<span class="grow mono note cut" data-tip=${written(connection.text)}>${written(connection.text)}</span>
  <button type="button" class="link" onClick=${() => goTo(connection.line)}>line ${connection.line}</button>`;

/** Where each input gets its value from; an expression may be typed at once. */
function Inputs({ name, unit }) {
  const view = useStore((s) => s.view);
  if (!unit.inputs.length) return null;
  const from = new Map((view?.connections || []).map((connection) => [connection.target, connection]));
  return html`<${Part} title="Inputs">${unit.inputs.map((port) => {
    const target = `${name}.${port.name}`;
    return html`<div class="entry" key=${port.name} data-tip=${port.description || undefined}><label class="mono" for=${`input-${port.name}`}>${port.name}</label><span class="equals">=</span>
      ${from.has(target) && typeof from.get(target).text !== "string" ? html`<${InText} connection=${from.get(target)} />` : html`<${ExpressionField} id=${`input-${port.name}`} target=${target} value=${from.get(target)?.text ?? ""} label=${`${target} is connected to`} placeholder=${from.has(target) ? "" : `${port.start !== undefined && port.start !== null ? `${number(port.start)} (free)` : "not connected"}`}
        onCommit=${(text) => edit([text ? { op: "connect", from: text, to: target, text } : { op: "disconnect", to: target }], `connect ${target}`)} />`}${measure(port.unit)}</div>`;
  })}<//>`;
}

/** Name and text of something new: "k = 1.0", or only a name. */
function NewEntry({ what, placeholder, onAdd, dotted }) {
  const [typed, setTyped] = useState("");
  const add = () => {
    const found = typed.match(dotted ? /^\s*([A-Za-z_]\w*\.[^\s=]+)\s*=\s*(.+)$/s : /^\s*([A-Za-z_]\w*)\s*'?\s*(?:=\s*(.*))?$/s);
    if (!found) {
      if (typed.trim()) say(`Type the ${what} as ${placeholder}.`, { tone: "bad" });
      return;
    }
    onAdd(found[1], (found[2] || "").trim());
    setTyped("");
  };
  return html`<div class="new-entry"><input class="mono" aria-label=${`New ${what}`} placeholder=${`+ ${what}: ${placeholder}`} value=${typed} data-typed=${typed ? "" : undefined} spellcheck=${false} autocomplete="off"
    onInput=${(event) => setTyped(event.target.value)} onBlur=${() => typed.trim() && add()} onKeyDown=${(event) => { if (event.key === "Enter") { event.preventDefault(); add(); } }} /></div>`;
}

/** States with their rates and start values, outputs, locals and inputs of a unit of equations. */
function Equations({ name, table }) {
  const states = Object.entries(table.states || {});
  const outputs = Array.isArray(table.outputs) ? table.outputs.map((one) => [one, null]) : Object.entries(table.outputs || {});
  const locals = Object.entries(table.locals || {});
  const inputs = entries(table.inputs);
  const at = (...keys) => ["units", name, ...keys];
  const asText = (value) => (isTable(value) ? value.der ?? value.value : value);
  const place = (key, one, value, part) => (isTable(value) ? at(key, one, part) : at(key, one));
  const remove = (key, one) => html`<button type="button" class="button quiet" aria-label=${`Remove ${one}`} onClick=${() => edit([...removed(name, key, table[key], one),
    ...(key === "states" && table.start && one in table.start ? [{ op: "remove", at: at("start", one) }] : [])], `remove ${one}`)}><${Icon} name="remove" /></button>`;
  const unitOf = (key, one, value) => html`<${Field} value=${isTable(value) ? value.unit : ""} label=${`Unit of measure of ${one}`} placeholder="unit" onCommit=${(text) => {
    const unit = text.trim();
    if (isTable(value)) return edit([unit ? { op: "set", at: at(key, one, "unit"), value: unit } : { op: "remove", at: at(key, one, "unit") }], `unit of ${one}`);
    const part = key === "states" ? "der" : key === "outputs" ? "value" : "start";
    const rest = value === null || (isTable(value) && !Object.keys(value).length) ? {} : { [part]: value };
    return edit(Array.isArray(table[key]) ? added(name, key, table[key].filter((name_) => name_ !== one), one, { unit }) : [{ op: "set", at: at(key, one), value: { ...rest, unit } }], `unit of ${one}`);
  }} />`;
  return html`
    ${(states.length > 0 || table.kind === "ode") && html`<${Part} title="States">
      ${states.map(([one, value]) => html`<div class="equation" key=${one}>
        <div class="entry"><label class="mono" for=${`state-${one}`}>${one}′</label><span class="equals">=</span>
          <${Expressions} id=${`state-${one}`} value=${asText(value)} unit=${name} label=${`derivative of ${one}`} onCommit=${(text) => edit([{ op: "set", at: place("states", one, value, "der"), value: text }], `${one}′`)} />${remove("states", one)}</div>
        <div class="entry small"><label for=${`start-${one}`}>starts at</label><${Field} id=${`start-${one}`} mono=${true} value=${isTable(value) && "start" in value ? value.start : table.start?.[one] ?? ""} placeholder="0" label=${`start of ${one}`}
          onCommit=${(text) => edit([text.trim() === "" ? { op: "remove", at: isTable(value) && "start" in value ? at("states", one, "start") : at("start", one) }
            : realSetting(isTable(value) && !(table.start && one in table.start) ? at("states", one, "start") : at("start", one), text)], `start of ${one}`)} />${unitOf("states", one, value)}</div>
      </div>`)}
      <${NewEntry} what="state" placeholder="v = (F - x)/m" onAdd=${(one, text) => edit(added(name, "states", table.states, one, text || "0"), `state ${one}`)} />
    <//>`}
    <${Part} title="Inputs of the equations" open=${inputs.length > 0 || !states.length} note=${inputs.length ? inputs.map(([one]) => one).join(", ") : "none"}>
      ${inputs.map(([one, value]) => html`<div class="entry" key=${one}><label class="mono">${one}</label><span class="note">start</span>
        <${Field} mono=${true} value=${isTable(value) ? value.start ?? "" : value} placeholder="0" label=${`start of input ${one}`} onCommit=${(text) => edit(isTable(value) && !Array.isArray(table.inputs) && Object.keys(value).length
          ? [realSetting(at("inputs", one, "start"), text || "0.0")] : Array.isArray(table.inputs) ? [...added(name, "inputs", table.inputs.filter((name_) => name_ !== one), one, { start: 0 }), realSetting(at("inputs", one, "start"), text || "0.0")]
          : [realSetting(at("inputs", one), text || "0.0")], `start of ${one}`)} />${unitOf("inputs", one, value)}${remove("inputs", one)}</div>`)}
      <${NewEntry} what="input" placeholder="F" onAdd=${(one, text) => edit(table.inputs && !Array.isArray(table.inputs) ? [realSetting(at("inputs", one), text || "0.0")] : added(name, "inputs", table.inputs || [], one, {}), `input ${one}`)} />
    <//>
    <${Part} title="Outputs of the equations" note=${!outputs.length && states.length ? "all states" : null} open=${!states.length || outputs.length > 0}>
      ${outputs.map(([one, value]) => html`<div class="equation" key=${one}><div class="entry"><label class="mono" for=${`output-${one}`}>${one}</label><span class="equals">=</span>
        ${value === null ? html`<span class="note grow">as it is</span>` : html`<${Expressions} id=${`output-${one}`} value=${asText(value)} unit=${name} label=${`output ${one}`}
          onCommit=${(text) => edit([{ op: "set", at: place("outputs", one, value, "value"), value: text }], `output ${one}`)} />`}${value === null ? null : unitOf("outputs", one, value)}${remove("outputs", one)}</div></div>`)}
      <${NewEntry} what="output" placeholder="y = 2*u" onAdd=${(one, text) => edit(Array.isArray(table.outputs)
        ? (text ? [{ op: "remove", at: at("outputs") }, ...table.outputs.map((name_) => ({ op: "set", at: at("outputs", name_), value: name_ })), { op: "set", at: at("outputs", one), value: text }] : [{ op: "set", at: at("outputs"), value: [...table.outputs, one] }])
        : [{ op: "set", at: at("outputs", one), value: text || one }], `output ${one}`)} />
    <//>
    <${Part} title="Locals" open=${locals.length > 0} note=${locals.length ? null : "none"}>
      ${locals.map(([one, value]) => html`<div class="entry" key=${one}><label class="mono" for=${`local-${one}`}>${one}</label><span class="equals">=</span>
        <${Expressions} id=${`local-${one}`} value=${value} unit=${name} label=${`local ${one}`} onCommit=${(text) => edit([{ op: "set", at: at("locals", one), value: text }], `local ${one}`)} />${remove("locals", one)}</div>`)}
      <${NewEntry} what="local" placeholder="gap = x - y" onAdd=${(one, text) => edit([{ op: "set", at: at("locals", one), value: text || "0" }], `local ${one}`)} />
    <//>
    ${states.length > 0 && html`<${Solver} name=${name} table=${table} />`}
  `;
}

/** An expression; of an array one for each cell. */
function Expressions({ value, id, label, unit, onCommit }) {
  if (!Array.isArray(value)) return html`<${ExpressionField} id=${id} value=${written(value)} unit=${unit} label=${label} onCommit=${onCommit} />`;
  const change = (k, cell) => onCommit(value.map((old, n) => (n === k ? (typeof old === "number" ? parsed(cell) : cell) : old)));
  return html`<div class="cells">${value.map((cell, k) => html`<${Expressions} key=${k} id=${k ? `${id}-${k}` : id} value=${cell} unit=${unit} label=${`${label}[${k}]`} onCommit=${(text) => change(k, text)} />`)}</div>`;
}

function Solver({ name, table }) {
  const library = useStore((s) => s.library);
  const kind = isTable(table.solver) ? table.solver.kind : table.solver || "rk4";
  const options = (library?.solvers || []).map((one) => one.kind);
  if (!options.includes(kind)) options.push(kind);
  const known = library?.solvers.find((one) => one.kind === kind);
  return html`<${Part} title="Solver" open=${false} note=${kind}>
    <${Choice} value=${kind} options=${options} label="Solver" onChange=${(value) => edit([{ op: "set", at: ["units", name, "solver"], value }], `solver ${value}`)} />
    <p class="note">${known?.about?.replaceAll("`", "")}</p>
    <table class="ports"><tbody>${(known?.parameters || []).map((one) => html`<tr key=${one.name} data-tip=${one.about || undefined}><th scope="row" class="mono">${one.name}</th><td class="wide">
      <${Field} mono=${true} value=${isTable(table.solver) ? table.solver[one.name] ?? "" : ""} placeholder=${written(one.value)} label=${`${one.name} of the solver`} onCommit=${(text) =>
        edit([...(isTable(table.solver) ? [] : [{ op: "set", at: ["units", name, "solver"], value: { kind } }]),
          text.trim() === "" ? { op: "remove", at: ["units", name, "solver", one.name] } : setting(["units", name, "solver", one.name], text)], `solver ${one.name}`)} /></td></tr>`)}</tbody></table>
  <//>`;
}

/** What is put around a unit, written as sentences: "average on v with steps = 2". */
function Adaptations({ name, written: given }) {
  const [typed, setTyped] = useState("");
  const at = ["units", name, "adapt"];
  const add = () => {
    if (typed.trim()) edit([{ op: "set", at, value: [...given, typed.trim()] }], "adaptation");
    setTyped("");
  };
  return html`<${Part} title="Adaptations" open=${given.length > 0} note=${given.length ? null : "none"}>
    ${given.map((text, k) => html`<div class="entry" key=${k}><span class="mono grow">${written(text)}</span><button type="button" class="button quiet" aria-label=${`Remove adaptation ${k + 1}`}
      onClick=${() => edit([given.length > 1 ? { op: "set", at, value: given.filter((_, n) => n !== k) } : { op: "remove", at }], "remove adaptation")}><${Icon} name="remove" /></button></div>`)}
    <div class="new-entry"><input class="mono" aria-label="New adaptation" placeholder="+ adaptation: average on v with steps = 2" value=${typed} data-typed=${typed ? "" : undefined} spellcheck=${false} autocomplete="off"
      onInput=${(event) => setTyped(event.target.value)} onBlur=${add} onKeyDown=${(event) => { if (event.key === "Enter") { event.preventDefault(); add(); } }} /></div><//>`;
}

// ------------------------------------------------------------------------------- connections, events, inputs

function WireForm({ selection, view }) {
  const connection = (view.connections || []).find((one) => one.target === selection.target);
  const port = view.units?.[selection.target.split(".")[0]]?.inputs.find((one) => one.name === selection.target.slice(selection.target.indexOf(".") + 1));
  if (selection.wire === "watch") return html`<${Heading} what="event" name=${`${selection.source} – ${selection.target}`} /><p class="note">The event ${selection.target} looks at ${selection.source}.</p>
    <${Button} label=${`Show ${selection.target}`} onClick=${() => set({ selection: { kind: "event", name: selection.target, key: `event ${selection.target}` } })} />`;
  return html`<${Heading} what="connection" name=${`→ ${selection.target}`} tools=${html`<${Button} label="Disconnect" icon="remove" text=${false} keys="Delete" onClick=${removeSelected} />`} />
    ${connection && typeof connection.text !== "string" ? html`<div class="entry wire-text"><${InText} connection=${connection} /></div>` : connection ? html`<div class="entry wire-text"><label class="mono" for="connection-text">${selection.target}</label><span class="equals">=</span></div>
      <div class="wire-text"><${ExpressionField} id="connection-text" target=${selection.target} value=${written(connection.text)} label=${`Expression of ${selection.target}`} onCommit=${(text) =>
        edit([text ? { op: "connect", from: text, to: selection.target, text } : { op: "disconnect", to: selection.target }], `connect ${selection.target}`)} /></div>
      ${port ? html`<p class="note">The input is ${port.kind}${port.unit ? html`, in ${measure(port.unit)}` : ", without a unit of measure"}. An expression over outputs and inputs of the scenario may stand here: <span class="mono">2*${selection.source}</span></p>` : null}`
      : html`<p class="note">From ${selection.source}</p>`}`;
}

function EventForm({ name, view }) {
  const event = (view.events || []).find((one) => one.name === name);
  if (!event) return null;
  const then = isTable(event.then) ? Object.entries(event.then).flatMap(([unit, value]) => (isTable(value) ? Object.entries(value).map(([port, text]) => [[unit, port], `${unit}.${port}`, text]) : [[[unit], unit, value]])) : [];
  return html`<${Heading} what="event between units" name=${name} tools=${html`<${Button} label="Remove" icon="remove" text=${false} keys="Delete" onClick=${removeSelected} />`} />
    <${Part} title="When"><${ExpressionField} value=${written(event.when)} label=${`When ${name} happens`} onCommit=${(text) => edit([{ op: "set", at: ["events", name, "when"], value: text }], `when ${name}`)} /><//>
    <${Part} title="Then">${then.map(([keys, label, text]) => html`<div class="equation" key=${label}><label class="mono" for=${`then-${label}`}>${label}</label><${ExpressionField} id=${`then-${label}`} value=${written(text)} label=${`${label} becomes`}
      onCommit=${(value) => edit([value ? { op: "set", at: ["events", name, "then", ...keys], value } : { op: "remove", at: ["events", name, "then", ...keys] }], `then ${label}`)} /></div>`)}
      <${NewEntry} what="change" dotted=${true} placeholder="mass.v = -mass.v" onAdd=${(target, text) => edit([{ op: "set", at: ["events", name, "then", target.slice(0, target.indexOf(".")), target.slice(target.indexOf(".") + 1)], value: text }], `then ${target}`)} /><//>`;
}

function InputForm({ name, view }) {
  const port = (view.inputs || []).find((one) => one.name === name) || { name };
  const at = port.at || ["inputs", name, "start"];
  return html`<${Heading} what="input of the scenario" name=${name} tools=${html`<${Button} label="Remove" icon="remove" text=${false} keys="Delete" onClick=${removeSelected} />`} />
    <table class="ports"><tbody><tr><th scope="row">starts at</th><td class="wide"><${Field} mono=${true} value=${port.start ?? port.value} label=${`start of ${name}`}
      onCommit=${(text) => edit([port.kind === "real" || !port.kind ? realSetting(at, text) : setting(at, text)], `start of ${name}`)} /></td><td class="unit">${port.kind && !["real", "integer"].includes(port.kind) ? null : html`<${Field} value=${port.unit} label=${`Unit of measure of ${name}`} placeholder="unit" onCommit=${(text) => edit(unitSetting(["inputs", name], at.length > 2 ? {} : port.start ?? port.value, "start", port, text), `unit of ${name}`)} />`}</td></tr></tbody></table>
    <p class="note">It can be moved with a slider while the scenario runs.</p>`;
}

const OutputForm = ({ name, view }) => html`<${Heading} what="output of the scenario" name=${name} tools=${html`<${Button} label="Remove" icon="remove" text=${false} keys="Delete" onClick=${removeSelected} />`} />
  ${(view.outputs || []).filter((output) => output.name === name).map((output) => html`<div class="wire-text"><${OwnOutput} key=${name} output=${output} /></div>`)}`;

// --------------------------------------------------------------------------------------- the scenario

/** What an adapted unit consists of: it is no scenario with a master of its own. */
function MadeOf({ view, name }) {
  const wires = useStore((s) => s.diagram?.wires.length);
  return html`<${Heading} what="what it is made of" name=${name} />
    <p class="note">${count(Object.keys(view.units || {}).length, "unit")}, ${count(wires || 0, "wire")}${wires ? "" : ": its rules say what goes where"}</p>
    <${Units} view=${view} />`;
}

const Units = ({ view }) => html`<${Part} title="Units"><ul class="plain units">${Object.entries(view.units || {}).map(([name, unit]) => html`<li key=${name}><button type="button" class="link mono" onClick=${() => set({ selection: { kind: "unit", name, key: name } })}>${name}</button><span class="note">${unit.kind || unit.title}</span></li>`)}</ul><//>`;

function ScenarioForm({ view }) {
  const library = useStore((s) => s.library);
  const master = view.master?.written || {};
  const inputs = view.inputs || [];
  const run = view.run || {};
  const properties = view.properties || [];
  const coupling = isTable(master.coupling) ? master.coupling.kind : master.coupling;
  const solves = library?.couplings?.find((one) => one.kind === coupling)?.parameters.some((one) => one.name === "loops");
  const part = (key, options, fallback) => html`<${MasterPart} key=${key} what=${key} value=${master[key]} options=${options} fallback=${fallback} />`;
  return html`
    <${Heading} what="scenario" name=${state.inside.length ? view.path || state.inside[state.inside.length - 1] : state.path || ""} />
    <p class="note">${count(Object.keys(view.units || {}).length, "unit")}, ${count((view.connections || []).length, "connection")}${view.loops?.length ? `, ${count(view.loops.length, "algebraic loop")}` : ""}${view.study ? ", with a study" : ""}</p>
    <${Part} title="Master">
      <table class="ports master"><tbody>
        ${part("coupling", library?.couplings, "chosen by itself")}
        <tr><th scope="row"><label for="master-step">step</label></th><td class="wide"><${Field} id="master-step" mono=${true} value=${master.step ?? (isTable(master.pace) ? master.pace.step : undefined)} placeholder="chosen by itself" label="Communication step"
          onCommit=${(text) => edit([text.trim() === "" ? { op: "remove", at: ["master", "step"] } : realSetting(isTable(master.pace) && "step" in master.pace ? ["master", "pace", "step"] : ["master", "step"], text)], "step")} /></td><td>${measure("s")}</td></tr>
        ${part("pace", library?.paces, "follows from the step")}
        ${part("inputs", library?.inputs, "hold")}
        ${solves ? html`<${MasterPart} what="loops" value=${isTable(master.coupling) ? master.coupling.loops : undefined} options=${library.loops} fallback="by Newton's method" at=${["master", "coupling", "loops"]} />` : null}
      </tbody></table>
      ${view.master?.explained?.length ? html`<${Explained} sentences=${view.master.explained} />` : null}
    <//>
    <${Part} title="Run"><table class="ports"><tbody><tr><th scope="row"><label for="run-until-file">until</label></th><td class="wide"><${Field} id="run-until-file" mono=${true} value=${run.until} placeholder="not set" label="Ends at"
      onCommit=${(text) => edit([text.trim() === "" ? { op: "remove", at: ["run", "until"] } : realSetting(["run", "until"], text)], "until")} /></td><td>${measure("s")}</td></tr></tbody></table><//>
    <${Part} title="Inputs of the scenario" note=${inputs.length ? null : "none"} open=${inputs.length > 0}>
      ${inputs.map((port) => html`<div class="entry" key=${port.name}><button type="button" class="link mono" onClick=${() => set({ selection: { kind: "input", name: port.name, key: `input ${port.name}` } })}>${port.name}</button>
        <span class="grow mono">${number(port.start ?? port.value)}</span>${measure(port.unit)}</div>`)}
      <${NewEntry} what="input" placeholder="wind = 0.0" onAdd=${(one, text) => edit([{ ...realSetting(["inputs", one, "start"], text || "0.0") }], `input ${one}`)} />
    <//>
    <${Part} title="Events between units" note=${view.events?.length ? null : "none"} open=${Boolean(view.events?.length)}>
      ${(view.events || []).map((event) => html`<div class="entry" key=${event.name}><button type="button" class="link mono" onClick=${() => set({ selection: { kind: "event", name: event.name, key: `event ${event.name}` } })}>${event.name}</button><span class="grow note mono cut">${written(event.when)}</span></div>`)}
      <${NewEntry} what="event" placeholder="touch = mass.x <= 0 and mass.v < 0" onAdd=${(one, text) => edit([{ op: "set", at: ["events", one, "when"], value: text || "false" }], `event ${one}`).then((done) => done && set({ selection: { kind: "event", name: one, key: `event ${one}` } }))} />
    <//>
    ${view.structures?.length ? html`<${Part} title="Structures">
      ${view.structures.map((structure) => html`<${Line} key=${structure.name} name=${structure.name} line=${structure.line} note=${[].concat(structure.units).join(", ")} />
        ${structure.events.map((event) => html`<${Line} key=${event.name} name=${`${event.name} → ${event.to}`} line=${event.line} note=${written(event.when)} inner=${true} />`)}`)}<//>` : null}
    <${Part} title="Outputs of the scenario" note=${view.outputs?.length ? null : "none"} open=${Boolean(view.outputs?.length)}>
      ${(view.outputs || []).map((output) => html`<${OwnOutput} key=${output.name} output=${output} />`)}
      <${NewEntry} what="output" placeholder="distance = right.x - left.x" onAdd=${(one, text) => edit([{ op: "set", at: ["outputs", one], value: text }], `output ${one}`)} />
    <//>
    ${properties.length ? html`<${Part} title="Properties">${properties.map((property, k) => html`<p key=${k} class="mono note">${typeof property === "string" ? property : `${property.name}: ${written(property.text ?? property.formula ?? "")}`}</p>`)}<//>` : null}
    <${Units} view=${view} />
  `;
}

/** Something that is changed in the text of the scenario. */
const Line = ({ name, line, note, inner }) => html`<div class=${`entry ${inner ? "small" : ""}`} data-tip=${note}><button type="button" class="link mono" onClick=${() => goTo(line)}>${name}</button><span class="grow note mono cut">${note}</span></div>`;

/** An output of the scenario: an expression, or a table with one in it. */
function OwnOutput({ output: { name, text, line } }) {
  const at = isTable(text) ? ["outputs", name, "value"] : ["outputs", name];
  const own = isTable(text) ? text.value : text;
  const change = (typed) => edit([typed ? { op: "set", at, value: typed } : { op: "remove", at: ["outputs", name] }], `output ${name}`);
  return html`<div class="entry"><label class="mono" for=${`own-${name}`}>${name}</label><span class="equals">=</span>${typeof own === "string"
    ? html`<${ExpressionField} id=${`own-${name}`} value=${own} label=${`output ${name} of the scenario`} onCommit=${change} />${isTable(text) ? measure(text.unit) : null}`
    : html`<${InText} connection=${{ text, line }} />`}</div>`;
}

/** What the choices come to, as `upbeat explain` says it. */
function Explained({ sentences }) {
  const [all, setAll] = useState(false);
  const FEW = 5;
  return html`<ul class="explained">${sentences.slice(0, all ? undefined : FEW).map((sentence, k) => html`<li key=${k}>${sentence}</li>`)}</ul>
    ${sentences.length > FEW ? html`<button type="button" class="link" onClick=${() => setAll(!all)}>${all ? "less" : `${sentences.length - FEW} more`}</button>` : null}`;
}

/** The size of steps that a master has, however it is written. */
const stepOf = ({ step, pace }) => step ?? (isTable(pace) ? pace.step ?? (typeof pace.pace === "number" ? pace.pace : pace.steps?.[0]) : undefined);

/** What to write for another pace: a step is said in one place, and stays what it was. */
function paceEdits(master, made) {
  const step = stepOf(master);
  const away = (key) => (master[key] === undefined ? [] : [{ op: "remove", at: ["master", key] }]);
  if (made === null) return [...away("pace"), ...(step === undefined || master.step !== undefined ? [] : [realSetting(["master", "step"], String(step))])];
  if (isTable(made) && step !== undefined) {
    for (const key of ["step", "pace"]) if (key in made) made[key] = step;
    if (made.steps) made.steps = [step];
  }
  return [...away("step"), { op: "set", at: ["master", "pace"], value: made }];
}

/** One of the parts of a master: which one, and its settings. How loops are solved is said with the coupling. */
function MasterPart({ what, value, options, fallback, at = ["master", what] }) {
  const kind = isTable(value) ? value.kind : value ?? "";
  const known = (options || []).find((one) => one.kind === kind);
  const choices = [{ value: "", label: fallback }, ...(options || []).map((one) => ({ value: one.kind, label: one.kind.replaceAll("_", " ") }))];
  if (kind !== "" && typeof kind === "string" && !known) choices.push({ value: kind, label: kind });
  const master = () => state.view?.master?.written || {};
  const choose = (chosen) => {
    const table = chosen === "" ? null : options.find((one) => one.kind === chosen)?.toml ?? chosen;
    const made = isTable(table) ? { ...table } : table;
    if (what === "pace") return edit(paceEdits(master(), made), what);
    if (made === null) return edit([{ op: "remove", at }], what);
    const first = Object.keys(state.view?.units || {})[0];
    if (isTable(made) && made.rates && first) made.rates = { [first]: 2 };
    const { coupling } = master();
    return edit([...(what === "loops" && !isTable(coupling) ? [{ op: "set", at: ["master", "coupling"], value: { kind: coupling } }] : []), { op: "set", at, value: made }], what);
  };
  const elsewhere = (key) => key === { pace: "step", coupling: "loops" }[what]; // with a row of its own
  const own = isTable(value) ? Object.entries(value).filter(([key, item]) => key !== "kind" && !isTable(item) && !elsewhere(key)) : [];
  const unset = (known?.parameters || []).filter((one) => !(isTable(value) && one.name in value) && !elsewhere(one.name));
  const table = () => (isTable(value) ? [] : [{ op: "set", at, value: { kind } }]);
  return html`<tr data-tip=${known?.about?.replaceAll("`", "") || undefined}><th scope="row"><label for=${`master-${what}`}>${what}</label></th><td class="wide" colspan="2">
      <${Choice} id=${`master-${what}`} value=${typeof kind === "string" ? kind : ""} options=${choices} label=${what} onChange=${choose} />
      ${kind && (own.length || unset.length) ? html`<details class="more"><summary>${own.length ? own.map(([key, item]) => `${key} ${written(item)}`).join(", ") : "settings"}</summary>
        ${known?.about ? html`<p class="note">${known.about.replaceAll("`", "")}</p>` : null}
        ${[...own.map(([name, item]) => ({ name, now: item })), ...unset].map((one) => html`<div class="entry" key=${one.name}><label class="mono">${one.name}</label>
          <${Field} mono=${true} value=${one.now ?? ""} placeholder=${written(one.value)} label=${`${one.name} of ${what}`} onCommit=${(text) =>
            edit([...table(), text.trim() === "" ? { op: "remove", at: [...at, one.name] } : setting([...at, one.name], text)], `${what} ${one.name}`)} /></div>`)}
      </details>` : null}</td></tr>`;
}
