/**
 * The diagram: boxes, pins and wires at the places that the server found, drawn as SVG. One can move about in it,
 * select, drag boxes, connect by dragging from an output to an input, and open nested scenarios.
 */
import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact-htm.js";
import { post } from "./api.js";
import { edit, enter, moveBoxes, openFile, tidy, refresh } from "./draft.js";
import { complain, say, set, state, useStore } from "./store.js";
import { count } from "./format.js";
import { Button, Icon, Message } from "./widgets.js";

const GRID = 8;
const isUnit = (box) => box.kind === "unit" || box.kind === "nested";

/** The name by which connections know a pin: unit.port, or the name of the scenario's own input or output. */
export const pinName = (box, pin) => (isUnit(box) ? `${box.name}.${pin.name}` : box.name);

/** The path of a wire, with round corners. */
function path(points) {
  const kept = points.filter((p, k) => k === 0 || p[0] !== points[k - 1][0] || p[1] !== points[k - 1][1]);
  let text = `M${kept[0][0]},${kept[0][1]}`;
  for (let k = 1; k < kept.length - 1; k++) {
    const [a, b, c] = [kept[k - 1], kept[k], kept[k + 1]];
    const before = Math.hypot(b[0] - a[0], b[1] - a[1]);
    const after = Math.hypot(c[0] - b[0], c[1] - b[1]);
    const r = Math.min(6, before / 2, after / 2);
    const p = [b[0] - (r * (b[0] - a[0])) / before, b[1] - (r * (b[1] - a[1])) / before];
    const q = [b[0] + (r * (c[0] - b[0])) / after, b[1] + (r * (c[1] - b[1])) / after];
    text += ` L${p[0]},${p[1]} Q${b[0]},${b[1]} ${q[0]},${q[1]}`;
  }
  const last = kept[kept.length - 1];
  return `${text} L${last[0]},${last[1]}`;
}

/** A way for a wire while an end of it is being dragged. */
const elbow = ([x0, y0], [x1, y1]) => {
  const bend = Math.max(24, Math.abs(x1 - x0) / 2);
  return `M${x0},${y0} C${x0 + bend},${y0} ${x1 - bend},${y1} ${x1},${y1}`;
};

const short = (text, letters) => (text.length > letters ? `${text.slice(0, letters - 1)}…` : text);

/** What is wrong, by the keys of boxes. The most serious problem decides the colour. */
function problemsByBox(view) {
  const found = new Map();
  for (const problem of view?.problems || []) {
    const own = ["events", "inputs", "outputs"].includes(problem.where?.[0]) && problem.where.length > 1;
    const key = problem.unit || (own ? `${problem.where[0].slice(0, -1)} ${problem.where[1]}` : null);
    if (!key || problem.severity === "note") continue; // notes stand with the unit when it is selected
    const entry = found.get(key) || { count: 0, severity: "note", ports: new Map(), texts: [] };
    entry.count += 1;
    entry.texts.push(problem.message);
    if (problem.severity === "error" || (problem.severity === "warning" && entry.severity === "note")) entry.severity = problem.severity;
    if (problem.port) entry.ports.set(problem.port, problem);
    found.set(key, entry);
  }
  return found;
}

/** When each port is computed: its number in the order. Those of a loop, which are solved together, share one. */
const orderOf = (order) => new Map((order || []).flatMap((ports, k) => ports.map((port) => [port, k + 1])));

const Pin = ({ box, pin, out, verdict, onBegin, problem, turn }) => {
  const x = out ? box.x + box.width : box.x;
  const name = pinName(box, pin);
  if (pin.name === " " || box.kind === "event") return null;
  const tip = [verdict ? (verdict.ok ? verdict.note : verdict.why) : null, problem?.message, pin.tooltip || name].filter(Boolean).join("\n");
  return html`<g class=${`pin ${out ? "out" : "in"} ${pin.loop ? "loop" : ""} ${verdict ? (verdict.ok ? "allowed" : "refused") : ""} ${problem ? problem.severity : ""}`}
    data-pin=${name} data-side=${out ? "out" : "in"} data-tip=${tip} onPointerDown=${out && pin.name !== " " ? (event) => onBegin(event, box, pin) : undefined}>
    <rect class="reach" x=${out ? x - (isUnit(box) ? 22 : 10) : x - 9} y=${pin.y - 8} width=${isUnit(box) ? 31 : 19} height="16" />
    <circle cx=${x} cy=${pin.y} r="3.4" />
    ${turn ? html`<g class="turn"><rect x=${out ? x + 5 : x - 6 - 7 * String(turn).length - 4} y=${pin.y - 13} width=${7 * String(turn).length + 5} height="11" rx="5" /><text x=${out ? x + 7.5 + 3.5 * String(turn).length : x - 7.5 - 3.5 * String(turn).length} y=${pin.y - 4.5}>${turn}</text></g>` : null}
    ${isUnit(box) && pin.name.trim() ? html`<text x=${out ? x - 7 : x + 7} y=${pin.y + 3.5} text-anchor=${out ? "end" : "start"}>${short(pin.name, 26)}</text>` : null}
  </g>`;
};

function Box({ box, selected, problems, failed, order, core, targets, handlers, faded }) {
  const unit = isUnit(box);
  const classes = ["box", box.kind, selected && "selected", box.loop && "loop", failed && "failed", problems?.severity, faded && "faded",
    core !== undefined && `core core-${core % 6}`].filter(Boolean).join(" ");
  const tip = [failed ? `failed: ${failed}` : null, ...(problems?.texts || []), box.tooltip].filter(Boolean).join("\n");
  return html`<g class=${classes} data-box=${box.key} tabindex="0" role="button" aria-pressed=${String(Boolean(selected))}
    aria-label=${`${box.kind} ${box.title}${problems ? `, ${count(problems.count, "problem")}` : ""}${failed ? ", failed" : ""}`}
    onPointerDown=${(event) => handlers.down(event, box)} onDblClick=${() => handlers.open(box)} onFocus=${() => handlers.focus(box)}>
    <rect class="body" data-tip=${tip} x=${box.x} y=${box.y} width=${box.width} height=${box.height} rx=${unit ? 5 : box.height / 2} />
    ${box.kind === "nested" && html`<rect class="inner" x=${box.x + 3} y=${box.y + 3} width=${box.width - 6} height=${box.height - 6} rx="3" />`}
    <text class="title" x=${box.x + box.width / 2} y=${box.y + (unit ? 16 : 16.5)}>${short(box.title, 26)}</text>
    ${box.lines.map((line, k) => html`<text key=${k} class=${k ? "rate" : "kind"} x=${box.x + box.width / 2} y=${box.y + 29 + 12 * k}>${line}</text>`)}
    ${box.through.map(([y0, y1], k) => html`<path key=${k} class="through" d=${`M${box.x + 2},${y0} L${box.x + box.width - 2},${y1}`} />`)}
    ${[[box.inputs, false], [box.outputs, true]].map(([pins, out]) => pins.map((pin) => html`<${Pin} key=${`${out}${pin.name}`} box=${box} pin=${pin} out=${out}
      verdict=${!out && targets ? targets[pinName(box, pin)] : null} onBegin=${handlers.wire} problem=${problems?.ports.get(pin.name)} turn=${order?.get(pinName(box, pin))} />`))}
    ${core !== undefined && html`<g class="mark core-mark"><rect x=${box.x} y=${box.y - 12} width="40" height="11" rx="3" /><text x=${box.x + 20} y=${box.y - 3.500}>core ${core + 1}</text></g>`}
    ${(problems || failed) && html`<g class="mark alarm" data-tip=${tip}><circle cx=${box.x + box.width} cy=${box.y} r="8" /><text x=${box.x + box.width} y=${box.y + 4}>${failed ? "×" : problems.count > 1 ? problems.count : "!"}</text></g>`}
  </g>`;
}

const wireKey = (wire) => `${wire.kind} ${wire.source} ${wire.target}`;

function Wire({ wire, selected, onSelect, faded, moved }) {
  const d = moved || path(wire.points);
  const name = wire.loop ? "loop" : wire.kind;
  return html`<g class=${`wire ${wire.kind} ${wire.loop ? "loop" : ""} ${selected ? "selected" : ""} ${faded ? "faded" : ""}`} data-wire=${wireKey(wire)}
    data-tip=${wire.tooltip} onPointerDown=${(event) => onSelect(event, wire)}>
    <path class="hit" d=${d} />
    <path class="line" d=${d} marker-end=${wire.kind === "watch" ? undefined : `url(#arrow-${name})`}
      marker-start=${wire.kind === "watch" && wire.both ? "url(#arrow-watch)" : undefined} />
  </g>`;
}

/** How far the diagram is moved and enlarged, kept outside of the components: moving about draws nothing anew. */
const camera = { x: 0, y: 0, k: 1, touched: false };

export function Diagram() {
  const [diagram, view, selection, show, run, inside, viewing, path_] = useStore((s) => [s.diagram, s.view, s.selection, s.show, s.run, s.inside, s.viewing, s.path]);
  const [drag, setDrag] = useState(null); // a box: {key, dx, dy}
  const [wiring, setWiring] = useState(null); // {from, start, to, targets, over}
  const svg = useRef();
  const world = useRef();
  const latest = useRef();
  const pointing = useRef(false);
  const revealed = useRef();
  latest.current = { diagram, wiring, drag };

  const place = () => world.current?.setAttribute("transform", `translate(${camera.x},${camera.y}) scale(${camera.k})`);
  const at = (event) => {
    const box = svg.current.getBoundingClientRect();
    return [(event.clientX - box.left - camera.x) / camera.k, (event.clientY - box.top - camera.y) / camera.k];
  };
  const fit = () => {
    const d = latest.current.diagram;
    if (!d || !svg.current) return;
    const { width: all, height } = svg.current.getBoundingClientRect();
    const top = state.inside.length ? 82 : 46; // where the tools are
    const width = all - (state.show.order ? 236 : 0); // where the list of the order is
    if (!width || !height) return;
    const [x0, y0, x1, y1] = extent(d);
    camera.k = Math.min(1.75, Math.max(0.02, Math.min((width - 48) / (x1 - x0), (height - top - 30) / (y1 - y0))));
    camera.x = (width - camera.k * (x0 + x1)) / 2;
    camera.y = (height + top - 16 - camera.k * (y0 + y1)) / 2;
    camera.touched = false;
    place();
  };
  const zoom = (factor, x, y) => {
    const box = svg.current.getBoundingClientRect();
    const [px, py] = [x ?? box.width / 2, y ?? box.height / 2];
    const k = Math.min(5, Math.max(0.02, camera.k * factor));
    camera.x = px - ((px - camera.x) * k) / camera.k;
    camera.y = py - ((py - camera.y) * k) / camera.k;
    camera.k = k;
    camera.touched = true;
    place();
  };
  /** Moves the picture just so far that all of a box is in it. */
  const reveal = (box) => {
    const { width, height } = svg.current.getBoundingClientRect();
    const [x, y] = [camera.x + camera.k * box.x, camera.y + camera.k * box.y];
    const into = (at, from, to, size) => (at < from ? from : at + size > to ? Math.max(from, to - size) : at);
    camera.x += into(x, 24, width - 24, camera.k * box.width) - x;
    camera.y += into(y, 56, height - 52, camera.k * box.height) - y;
    place();
  };
  diagramView.fit = fit;
  diagramView.zoom = zoom;
  diagramView.middle = () => {
    const box = svg.current?.getBoundingClientRect();
    return box ? [(box.width / 2 - camera.x) / camera.k, (box.height / 2 - camera.y) / camera.k] : [0, 0];
  };

  useLayoutEffect(place);
  useEffect(() => { camera.touched = false; }, [path_, inside]);
  useEffect(() => { if (!camera.touched && diagram) fit(); }, [diagram, path_, inside, show.order]);
  useEffect(() => { // what has just been added, or was chosen by keys, is in the picture
    const box = diagram?.boxes.find((one) => one.key === selection?.key);
    if (box && box.key !== revealed.current && camera.touched && !pointing.current) reveal(box);
    revealed.current = box?.key;
  }, [diagram, selection?.key]);
  useEffect(() => {
    const element = svg.current;
    const resized = new ResizeObserver(() => camera.touched || fit());
    resized.observe(element);
    const wheel = (event) => {
      event.preventDefault();
      const box = element.getBoundingClientRect();
      if (event.shiftKey || (event.deltaX && !event.ctrlKey)) {
        camera.x -= event.deltaX || event.deltaY;
        camera.y -= event.deltaX ? event.deltaY : 0;
        camera.touched = true;
        place();
      } else zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : event.ctrlKey ? 0.01 : 0.0016)), event.clientX - box.left, event.clientY - box.top);
    };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => { resized.disconnect(); element.removeEventListener("wheel", wheel); };
  }, []);

  /** Follows the pointer until it is let go. */
  const follow = (move, end) => {
    pointing.current = true;
    const stop = (event) => {
      pointing.current = false;
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", stop);
      removeEventListener("pointercancel", stop);
      removeEventListener("keydown", escape, true);
      end(event);
    };
    const escape = (event) => { if (event.key === "Escape") { event.stopPropagation(); stop(null); } };
    addEventListener("pointermove", move);
    addEventListener("pointerup", stop);
    addEventListener("pointercancel", stop);
    addEventListener("keydown", escape, true);
  };

  const pan = (event) => {
    if (event.button > 1) return;
    const from = [event.clientX - camera.x, event.clientY - camera.y];
    let moved = false;
    const begun = [event.clientX, event.clientY];
    follow((e) => {
      if (!moved && Math.hypot(e.clientX - begun[0], e.clientY - begun[1]) < 4) return;
      moved = true;
      camera.x = e.clientX - from[0];
      camera.y = e.clientY - from[1];
      camera.touched = true;
      place();
    }, () => { if (!moved) set({ selection: null }); });
  };

  const handlers = {
    focus: (box) => { if (state.selection?.key !== box.key && !latest.current.wiring && !latest.current.drag) select(box); },
    open: (box) => open(box),
    down: (event, box) => {
      if (event.button) return;
      event.stopPropagation();
      select(box);
      const from = at(event);
      let to = null;
      follow((e) => {
        const [x, y] = at(e);
        if (!to && Math.hypot(x - from[0], y - from[1]) * camera.k < 4) return;
        if (state.inside.length) return;
        const snap = (value, base) => Math.round((base + value) / GRID) * GRID - base;
        to = { key: box.key, dx: snap(x - from[0], box.x), dy: snap(y - from[1], box.y) };
        setDrag(to);
      }, async (e) => {
        if (e && to && (to.dx || to.dy)) {
          camera.touched = true;
          await moveBoxes({ [box.key]: [box.x + to.dx, box.y + to.dy] });
        }
        setDrag(null);
      });
    },
    wire: (event, box, pin) => {
      if (event.button || state.inside.length) return;
      event.stopPropagation();
      event.preventDefault();
      if (isUnit(box) && !pin.name) {
        set({ dialog: { name: "connect", from: null, unit: box.name } });
        return;
      }
      const from = pinName(box, pin);
      const start = [box.x + box.width, pin.y];
      let now = { from, start, to: at(event), targets: null, over: null };
      setWiring(now);
      const asked = post("api/targets", { path: state.path, text: state.text, from }).then(({ targets }) => {
        if (latest.current.wiring) setWiring(now = { ...now, targets });
        return targets;
      }, complain);
      follow((e) => {
        const under = document.elementFromPoint(e.clientX, e.clientY);
        const target = under?.closest?.('[data-side="in"]')?.dataset.pin || null;
        now = { ...now, to: at(e), over: target, pointer: [e.clientX, e.clientY] };
        setWiring(now);
      }, async (e) => {
        setWiring(null);
        if (!e || !now.over) return;
        const targets = await asked; // which may come later than somebody lets go
        if (targets) connect(from, now.over, targets[now.over]);
      });
    },
  };
  const chooseWire = (event, wire) => {
    if (event.button) return;
    event.stopPropagation();
    set({ selection: { kind: "wire", name: wireKey(wire), wire: wire.kind, source: wire.source, target: wire.target, key: wireKey(wire) }, tabs: { ...state.tabs, right: "inspect" } });
  };

  const problems = problemsByBox(view);
  const failed = run?.failure?.unit && run.file === path_ ? run.failure : null;
  const order = show.order ? orderOf(view?.master?.order) : null;
  const cores = (show.cores && view?.master?.cores) || {};
  const hasLoops = diagram?.wires.some((wire) => wire.loop);
  const boxes = diagram?.boxes || [];
  const shifted = (box) => (drag?.key === box.key ? { ...box, x: box.x + drag.dx, y: box.y + drag.dy, inputs: box.inputs.map((p) => ({ ...p, y: p.y + drag.dy })),
    outputs: box.outputs.map((p) => ({ ...p, y: p.y + drag.dy })), through: box.through.map(([a, b]) => [a + drag.dy, b + drag.dy]) } : box);
  const dragged = drag && boxes.find((box) => box.key === drag.key);
  const moved = (wire) => {
    if (!drag) return null;
    const own = (name, kind) => name === drag.key || (isUnit(dragged) && name.startsWith(`${dragged.name}.`)) || (!isUnit(dragged) && name === dragged.name && kind);
    const [a, b] = [own(wire.source, dragged.kind === "input"), own(wire.target, dragged.kind !== "input")];
    if (!a && !b) return null;
    const first = wire.points[0];
    const last = wire.points[wire.points.length - 1];
    return elbow(a ? [first[0] + drag.dx, first[1] + drag.dy] : first, b ? [last[0] + drag.dx, last[1] + drag.dy] : last);
  };
  const over = wiring?.over && wiring.targets?.[wiring.over];
  const empty = view && !Object.keys(view.units || {}).length && !(view.problems || []).some((problem) => (problem.where || []).join() !== "units"); // that there are no units yet is no problem

  return html`<section class="diagram-pane" aria-label="Diagram">
    <${DiagramBar} hasLoops=${hasLoops} fit=${fit} />
    <div class="canvas"><svg ref=${svg} class=${`diagram ${show.loops ? "show-loops" : ""} ${wiring ? "wiring" : ""} ${drag ? "dragging" : ""} ${viewing ? "viewing" : ""}`}
      role="group" aria-label=${`Diagram of ${path_ || "nothing"}: ${count(boxes.filter(isUnit).length, "unit")}, ${count(diagram?.wires.length || 0, "wire")}`} onPointerDown=${pan}
      onKeyDown=${diagramKeys}>
      <defs>
        <pattern id="dots" width="24" height="24" patternUnits="userSpaceOnUse"><circle cx="1" cy="1" r="0.900" class="dot" /></pattern>
        ${["signal", "loop", "event", "watch"].map((name) => html`<marker key=${name} id=${`arrow-${name}`} class=${`arrow ${name}`} viewBox="0 0 8 8" refX=${name === "watch" ? 8 : 11.5} refY="4"
          markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto-start-reverse"><path d="M0,0.8 L8,4 L0,7.200 z" /></marker>`)}
      </defs>
      <rect class="ground" width="100%" height="100%" fill="url(#dots)" />
      <g ref=${world} class="world">
        ${(diagram?.wires || []).map((wire) => html`<${Wire} key=${wireKey(wire)} wire=${wire} selected=${selection?.kind === "wire" && selection.name === wireKey(wire)}
          onSelect=${chooseWire} faded=${show.loops && !wire.loop} moved=${moved(wire)} />`)}
        ${boxes.map(shifted).map((box) => html`<${Box} key=${box.key} box=${box} selected=${selection?.key === box.key} problems=${problems.get(box.key)}
          failed=${isUnit(box) && failed?.unit === box.name ? failed.message : null} order=${order} core=${isUnit(box) ? cores[box.name] : undefined}
          targets=${wiring?.targets} handlers=${handlers} faded=${show.loops && !box.loop && hasLoops} />`)}
        ${wiring && html`<path class=${`wire-in-hand ${over ? (over.ok ? "allowed" : "refused") : ""}`} d=${elbow(wiring.start, wiring.to)} />`}
      </g>
    </svg></div>
    ${wiring && html`<${WireHint} wiring=${wiring} verdict=${over} />`}
    ${path_ === null ? html`<${Welcome} />` : empty ? html`<${EmptyDiagram} />` : html`<${ProblemStrip} problems=${view?.problems || []} />`}
    ${show.order && view?.master?.order ? html`<${OrderList} order=${view.master.order} />` : null}
  </section>`;
}

/** What other modules may ask of the diagram. */
export const diagramView = { fit() {}, zoom() {}, middle: () => [0, 0] };

function extent(diagram) {
  const xs = [];
  const ys = [];
  for (const box of diagram.boxes) { xs.push(box.x, box.x + box.width); ys.push(box.y, box.y + box.height); }
  for (const wire of diagram.wires) for (const [x, y] of wire.points) { xs.push(x); ys.push(y); }
  if (!xs.length) return [0, 0, 200, 100];
  const least = (list) => list.reduce((a, b) => Math.min(a, b));
  const most = (list) => list.reduce((a, b) => Math.max(a, b));
  return [least(xs), least(ys), most(xs), most(ys)];
}

const select = (box) => set({
  selection: { kind: isUnit(box) ? "unit" : box.kind, name: box.name, key: box.key },
  tabs: { ...state.tabs, right: state.tabs.right === "text" ? "text" : "inspect" },
});

const open = (box) => {
  if (box.kind === "nested" || (isUnit(box) && state.view?.units?.[box.name]?.written?.scenario)) enter([...state.inside, box.name]);
  else document.querySelector(".right-pane input, .right-pane textarea")?.focus();
};

/** Connects two ports, or says why not. An input that has a connection gets this one instead. */
export async function connect(from, to, verdict) {
  if (verdict && !verdict.ok) {
    say(verdict.why || `${from} cannot be connected to ${to}.`, { tone: "bad" });
    return false;
  }
  const done = await edit([{ op: "connect", from, to }], `connect ${from} to ${to}`);
  if (done) set({ selection: { kind: "wire", name: `signal ${from} ${to}`, key: `signal ${from} ${to}`, wire: "signal", source: from, target: to } });
  return Boolean(done);
}

/** Removes what is selected. */
export async function removeSelected() {
  const { selection } = state;
  if (!selection) return;
  if (selection.kind === "unit") await edit([{ op: "remove_unit", unit: selection.name }], `remove ${selection.name}`);
  else if (selection.kind === "wire" && selection.wire !== "watch") {
    const own = (state.view?.connections || []).some((connection) => connection.target === selection.target);
    await edit([own ? { op: "disconnect", to: selection.target } : { op: "remove", at: ["outputs", selection.target] }], "remove connection");
  } else if (selection.kind === "event") await edit([{ op: "remove", at: ["events", selection.name] }], `remove event ${selection.name}`);
  else if (selection.kind === "input") await edit([{ op: "remove", at: ["inputs", selection.name] }], `remove input ${selection.name}`);
  else if (selection.kind === "output") await edit([{ op: "remove", at: ["outputs", selection.name] }], `remove output ${selection.name}`);
  set({ selection: null });
}

/** Arrow keys go from box to box, with Shift they move one; Enter opens, Delete removes. */
function diagramKeys(event) {
  const boxes = state.diagram?.boxes || [];
  const box = boxes.find((one) => one.key === state.selection?.key);
  const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (direction && event.ctrlKey) return;
  if (direction && box && event.shiftKey) {
    moveBoxes({ [box.key]: [box.x + GRID * direction[0], box.y + GRID * direction[1]] });
  } else if (direction) {
    const middle = (one) => [one.x + one.width / 2, one.y + one.height / 2];
    const [x, y] = box ? middle(box) : [-1e6 * direction[0], -1e6 * direction[1]];
    let best = null;
    let least = Infinity;
    for (const one of boxes) {
      if (one === box) continue;
      const [dx, dy] = [middle(one)[0] - x, middle(one)[1] - y];
      const along = dx * direction[0] + dy * direction[1];
      const across = Math.abs(dx * direction[1]) + Math.abs(dy * direction[0]);
      if (along > 1 && along + 2.5 * across < least) {
        least = along + 2.5 * across;
        best = one;
      }
    }
    if (!best) return;
    document.querySelector(`[data-box="${CSS.escape(best.key)}"]`)?.focus();
  } else if (event.key === "Enter" && box) open(box);
  else if ((event.key === "Delete" || event.key === "Backspace") && state.selection) removeSelected();
  else if (event.key === "Escape") set({ selection: null });
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/** Beside the pointer: what the wire in hand would be connected to, or why not. */
function WireHint({ wiring, verdict }) {
  const hint = useRef();
  useLayoutEffect(() => {
    if (!wiring.pointer) return;
    hint.current.style.left = `${Math.min(wiring.pointer[0] + 20, innerWidth - 330)}px`;
    hint.current.style.top = `${wiring.pointer[1] + 24}px`;
  });
  const text = !wiring.over ? `${wiring.from} → drop on an input`
    : !verdict ? `${wiring.from} → ${wiring.over}`
    : verdict.ok ? `${wiring.from} → ${wiring.over}${verdict.note ? `   (${verdict.note})` : ""}` : verdict.why;
  return html`<div ref=${hint} class=${`wire-hint ${verdict ? (verdict.ok ? "allowed" : "refused") : ""}`} role="status">${text}</div>`;
}

function DiagramBar({ hasLoops, fit }) {
  const [show, inside, path_, view, viewing] = useStore((s) => [s.show, s.inside, s.path, s.view, s.viewing]);
  const toggle = (name) => {
    set({ show: { ...state.show, [name]: !state.show[name] } });
    if (name !== "loops") refresh();
  };
  return html`<div class="diagram-bar">
    ${inside.length ? html`<nav class="crumbs" aria-label="Nested scenarios"><button type="button" class="crumb" onClick=${() => enter([])}>${path_}</button>
      ${inside.map((name, k) => html`<span key=${k}>›</span><button type="button" class="crumb" aria-current=${k === inside.length - 1 ? "page" : undefined}
        onClick=${() => enter(inside.slice(0, k + 1))}>${name}</button>`)}
      ${view && !view.path ? html`<span class="note">what it is made of; it is changed in ${path_}</span>` : view ? html`<span class="note">inside ${view.path}: <button type="button" class="link" onClick=${() => openFile(view.path).catch(complain)}>open that file</button> to change it</span>` : null}</nav>` : null}
    <div class="tools" role="toolbar" aria-label="Diagram">
      <${Button} label="Add" icon="add" kind="primary" keys="A" tip="Add a unit" disabled=${inside.length > 0} onClick=${() => set({ dialog: { name: "add" } })} id="add-unit" />
      <${Button} label="Connect" icon="link" keys="C" tip="Connect an output to an input (or drag from an output)" disabled=${inside.length > 0}
        onClick=${() => set({ dialog: { name: "connect" } })} id="connect" />
      <span class="gap"></span>
      <${Button} label="Loops" keys="L" tip=${`Algebraic loops${view?.loops?.length ? `: ${view.loops.length}` : ": there are none"}`} pressed=${show.loops} disabled=${!hasLoops && !show.loops} onClick=${() => toggle("loops")} />
      <${Button} label="Order" keys="O" tip="In which order ports are computed at one instant" pressed=${show.order} onClick=${() => toggle("order")} />
      <label class="cores" data-tip="Assign the units to so many cores"><span>Cores</span><select value=${String(show.cores)} onChange=${(event) => { set({ show: { ...state.show, cores: Number(event.target.value) } }); refresh(); }}>
        ${[0, 2, 4, 8].map((n) => html`<option key=${n} value=${n} selected=${n === show.cores}>${n || "off"}</option>`)}</select>${show.cores && viewing ? html`<span class="busy" role="status" aria-label="Assigning units to cores"></span>` : null}</label>
      <${Button} label="All ports" keys="P" tip="Also draw ports that nothing is connected to" pressed=${show.everyPort} onClick=${() => toggle("everyPort")} />
      <span class="gap"></span>
      <${Button} label="Tidy up" icon="tidy" text=${false} keys="T" onClick=${tidy} />
      <${Button} label="Fit into view (wheel, + and − zoom)" icon="fit" text=${false} keys="0" onClick=${fit} />
      <${Button} label="Save a picture of the diagram" icon="camera" text=${false} onClick=${() => set({ dialog: { name: "picture", what: "diagram" } })} />
    </div>
  </div>`;
}

/** What can be done where nothing is open yet. */
function Welcome() {
  const project = useStore((s) => s.project);
  if (!project) return null;
  const scenarios = project.files.filter((file) => file.kind === "scenario").slice(0, 6);
  return html`<div class="empty-diagram welcome">
    <img src="icon.svg" alt="" width="44" height="44" />
    <h2>Look at a coupled scenario, change it, run it</h2>
    <p>${scenarios.length ? "Open one of this folder, or begin a new one." : "Nothing is in this folder yet. Begin a new scenario, or look at an example."} All that you do here is written into the scenario file.</p>
    ${scenarios.length ? html`<div class="row choices">${scenarios.map((file) => html`<button type="button" key=${file.path} class="button mono" onClick=${() => openFile(file.path).catch(complain)}>${file.path}</button>`)}</div>` : null}
    <div class="row"><${Button} label="New scenario" icon="add" kind="primary" onClick=${() => set({ dialog: { name: "new" } })} />
      <${Button} label="Two masses that collide: an example" id="begin-example" onClick=${() => set({ dialog: { name: "new", example: true } })} /></div>
    <span class="note">or drop an FMU anywhere</span>
  </div>`;
}

function EmptyDiagram() {
  return html`<div class="empty-diagram">
    <h2>An empty scenario</h2>
    <p>Add units, connect an output to an input by dragging, and start it.</p>
    <div class="row"><${Button} label="Add a unit" icon="add" kind="primary" keys="A" onClick=${() => set({ dialog: { name: "add" } })} />
    <span class="note">or drop an FMU anywhere</span></div>
  </div>`;
}

/** What each step does, one line after the other. */
function OrderList({ order }) {
  return html`<aside class="order-list" aria-label="Order at an instant" tabindex="0"><h3>Order at an instant</h3>
    <ol>${order.map((group, k) => html`<li key=${k}>${group.join(" · ")}${group.length > 1 ? html`<span class="note"> a loop</span>` : null}</li>`)}</ol></aside>`;
}

/** The problems that a look at the scenario finds, with what would solve them. */
export function ProblemStrip({ problems }) {
  const [open, setOpen] = useState(false);
  if (!problems.length) return null;
  const worst = ["error", "warning", "note"].find((severity) => problems.some((problem) => problem.severity === severity));
  const sorted = [...problems].sort((a, b) => "ewn".indexOf(a.severity[0]) - "ewn".indexOf(b.severity[0]));
  const shown = open ? sorted : sorted.slice(0, 1);
  return html`<div class=${`problem-strip ${worst} ${open ? "open" : ""}`} role="region" aria-label="Problems" tabindex=${open ? "0" : undefined}>
    ${shown.map((problem, k) => html`<${Problem} key=${k} problem=${problem} />`)}
    ${problems.length > 1 && html`<button type="button" class="button quiet all" aria-expanded=${String(open)} onClick=${() => setOpen(!open)}>${open ? "less" : `all ${problems.length}`}</button>`}
  </div>`;
}

/** A problem with its place and its fixes. */
export function Problem({ problem }) {
  const go = () => {
    if (problem.unit && problem.unit in (state.view?.units || {})) set({ selection: { kind: "unit", name: problem.unit, key: problem.unit } });
    if (problem.line) set({ tabs: { ...state.tabs, right: "text" }, goto: { line: problem.line, column: problem.column, at: Date.now() } });
  };
  return html`<div class=${`problem ${problem.severity}`}>
    <${Icon} name="warn" />
    <p data-tip=${problem.severity === "error" ? undefined : problem.message}><${Message} text=${problem.message} /></p>
    ${(problem.fixes || []).map((fix, k) => html`<button type="button" key=${k} class="button fix" onClick=${() => edit(fix.edits, fix.label)}>${fix.label}</button>`)}
    ${problem.line && html`<button type="button" class="button quiet" onClick=${go}>line ${problem.line}</button>`}
  </div>`;
}
