/**
 * Curves of runs: a panel for each unit of measure, the events and the step sizes below, all on one time axis with
 * one cursor. uPlot draws; jumps, other runs and events are drawn over it.
 */
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact-htm.js";
import uPlot from "./vendor/uplot.js";
import { chooseSignals, isLive, move, setWindow, shownSignals } from "./running.js";
import { complain, set, state, subscribe, useStore } from "./store.js";
import { count, number, parsed } from "./format.js";
import { loadDifference, traceOf } from "./traces.js";
import { Button, Field } from "./widgets.js";

const AXIS = 62;
const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const palette = () => Array.from({ length: 8 }, (_, k) => token(`--curve-${k + 1}`));

/** The colour of a signal is that of its place among those that are shown. */
const colourOf = (names, name) => names.indexOf(name) % 8;

/** From when to when the time axis goes. */
function timeRange() {
  if (state.window) return state.window;
  const run = state.run;
  if (!run) return [0, 1];
  const trace = traceOf(run.id);
  const last = Math.max(trace.last ?? 0, run.time ?? 0);
  const first = trace.time.length ? Math.min(trace.time[0], run.start ?? trace.time[0]) : run.start ?? 0;
  if (!isLive(run)) return [first, last > first ? last : first + 1];
  if (run.until !== null && run.until !== undefined && Number.isFinite(run.until) && run.until - first <= 90) return [first, run.until];
  return last - first > 30 ? [last - 30, last] : [first, first + 30];
}

const plots = new Set();

/** All plots look at the same part of time. */
function sameWindow() {
  const [min, max] = timeRange();
  for (const plot of plots) if (plot.scales.x.min !== min || plot.scales.x.max !== max) plot.setScale("x", { min, max });
}

/** Whether half of a number beside the axis would be below the panel. */
const cut = (plot, v) => ((v - plot.scales.y.min) / (plot.scales.y.max - plot.scales.y.min)) * plot.bbox.height < 6 * (devicePixelRatio || 1);

const inside = (plot, t) => t >= plot.scales.x.min && t <= plot.scales.x.max;

/** What all plots share: one cursor, dragging chooses a part of time, a double click shows all of it. */
function shared(extra, series) {
  const grid = { stroke: token("--grid"), width: 1 };
  const axis = { stroke: token("--quiet"), font: "11px system-ui, sans-serif", grid, ticks: { ...grid, size: 4 }, gap: 4 };
  return {
    padding: [6, 20, 0, 0],
    legend: { show: false },
    series: [{}, ...series],
    cursor: {
      sync: { key: "time" }, drag: { x: true, y: false, setScale: false }, points: { show: extra.points !== false, size: 7 }, y: false,
      bind: {
        dblclick: () => () => { setWindow(null); return null; },
      },
    },
    scales: { x: { time: false, range: () => timeRange() }, ...extra.scales },
    axes: [{ ...axis, show: Boolean(extra.bottom), size: 26, values: (_, ticks) => ticks.map((t) => number(t, 9)) },
      { ...axis, size: AXIS, space: 22, filter: (plot, ticks) => ticks.map((v) => (cut(plot, v) ? null : v)), values: (_, ticks) => ticks.map((v) => (v === null ? "" : number(v, 5))), ...extra.axis }],
    hooks: {
      setSelect: [(plot) => {
        if (plot.select.width > 3) {
          plot.studioDragged = true;
          const window = [plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x")];
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          if (plot.studioHere) setWindow(window);
        }
      }],
      ...extra.hooks,
    },
  };
}

/** A uPlot of a size that follows its place, made anew when `keys` change. */
function usePlot(make, keys, height, data) {
  const place = useRef();
  const plot = useRef();
  useLayoutEffect(() => {
    const width = place.current.clientWidth;
    const made = new uPlot({ ...make(), width, height }, data(), place.current);
    plot.current = made;
    plots.add(made);
    made.over.addEventListener("pointerdown", () => { made.studioDragged = false; });
    made.over.addEventListener("pointerenter", () => { for (const one of plots) one.studioHere = one === made; });
    made.over.addEventListener("click", () => mark(made));
    made.over.addEventListener("wheel", (event) => wheel(made, event), { passive: false });
    const resized = new ResizeObserver(() => {
      const now = place.current?.clientWidth;
      if (now && now !== made.width) made.setSize({ width: now, height: made.height });
    });
    resized.observe(place.current);
    return () => {
      resized.disconnect();
      plots.delete(made);
      made.destroy();
    };
  }, keys);
  useLayoutEffect(() => {
    if (plot.current.height !== height) plot.current.setSize({ width: plot.current.width, height });
  }, [height]);
  return [place, plot];
}

/** A click sets the mark that values are compared with; a click on it takes it away. */
function mark(plot) {
  if (!plot.studioDragged && plot.cursor.left >= 0) {
    const there = typeof state.marker === "number" && Math.abs(plot.valToPos(state.marker, "x") - plot.cursor.left) < 4;
    set({ marker: there ? null : plot.posToVal(plot.cursor.left, "x") });
  }
}

function wheel(plot, event) {
  event.preventDefault();
  const [min, max] = [plot.scales.x.min, plot.scales.x.max];
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    const shift = ((event.deltaX || event.deltaY) / plot.over.clientWidth) * (max - min);
    setWindow([min + shift, max + shift]);
  } else {
    const at = plot.posToVal(event.offsetX, "x");
    const factor = Math.exp((event.deltaMode ? 30 : 1) * event.deltaY * 0.0018);
    setWindow([at + (min - at) * factor, at + (max - at) * factor]);
  }
}

/**
 * The line of a signal. Between the two rows of a jump the pen is lifted, which uPlot's own gaps, as wide as the time
 * between their ends, do not do. Of all points in one column of pixels the first, the extremes and the last are drawn.
 */
function line(plot, series, first, last) {
  const [times, values] = [plot.data[0], plot.data[series]];
  const path = new Path2D();
  const { min, max } = plot.scales.x;
  const kx = plot.bbox.width / (max - min);
  const y = (value) => plot.valToPos(value, "y", true);
  const [y0, y1] = [plot.scales.y.min, plot.scales.y.max];
  const ky = plot.bbox.height / (y1 - y0);
  const [left, bottom] = [plot.bbox.left - min * kx, plot.bbox.top + plot.bbox.height + y0 * ky];
  let pen = false;
  let column = null;
  let [low, high, end] = [0, 0, 0];
  const close = () => {
    if (column === null) return;
    if (low !== high) {
      path.lineTo(column, bottom - low * ky);
      path.lineTo(column, bottom - high * ky);
    }
    path.lineTo(column, bottom - end * ky);
    column = null;
  };
  for (let k = Math.max(0, first - 1); k <= Math.min(last + 1, times.length - 1); k++) {
    const value = values[k];
    if (value === null || value === undefined) {
      close();
      pen = false;
      continue;
    }
    const x = Math.round((left + times[k] * kx) * 2) / 2;
    if (!pen) {
      path.moveTo(x, y(value));
      pen = true;
    } else if (x !== column) close();
    if (column === null) [column, low, high] = [x, value, value];
    else if (value < low) low = value;
    else if (value > high) high = value;
    end = value;
  }
  close();
  return { stroke: path, fill: null, clip: null, band: null, gaps: null, flags: 1 };
}

/** Lines that uPlot does not know: jumps of a signal, dotted, from the value before to the one after. */
function drawJumps(plot, trace, names, colours) {
  const { ctx } = plot;
  const seen = trace.jumps.filter((k) => inside(plot, trace.time[k]));
  if (seen.length > 1500) return;
  ctx.save();
  ctx.beginPath();
  ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
  ctx.clip();
  const pixel = devicePixelRatio || 1;
  names.forEach((name, n) => {
    const column = trace.values.get(name);
    if (!column) return;
    ctx.strokeStyle = ctx.fillStyle = colours[n];
    ctx.lineWidth = 1.2 * pixel;
    for (const k of seen) {
      const [a, b] = [column[k - 1], column[k + 1]];
      if (a === null || b === null || a === undefined || b === undefined || a === b) continue;
      const x = plot.valToPos(trace.time[k], "x", true);
      const [y0, y1] = [plot.valToPos(a, "y", true), plot.valToPos(b, "y", true)];
      if (Math.abs(y0 - y1) < 1.5) continue;
      ctx.setLineDash([2 * pixel, 3 * pixel]);
      ctx.beginPath();
      ctx.moveTo(x, y0);
      ctx.lineTo(x, y1);
      ctx.stroke();
      if (seen.length > 60) continue;
      ctx.setLineDash([]);
      for (const [y, filled] of [[y0, false], [y1, true]]) { // the value before is open, the one after is full
        ctx.beginPath();
        ctx.arc(x, y, 2.4 * pixel, 0, 2 * Math.PI);
        if (filled) ctx.fill();
        else { ctx.save(); ctx.fillStyle = token("--panel"); ctx.fill(); ctx.restore(); ctx.stroke(); }
      }
    }
  });
  ctx.restore();
}

/** Curves of another run, dashed. */
function drawOther(plot, trace, names, colours, stepped, n) {
  const { ctx } = plot;
  const pixel = devicePixelRatio || 1;
  ctx.save();
  ctx.beginPath();
  ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
  ctx.clip();
  ctx.lineWidth = 1.4 * pixel;
  ctx.setLineDash([[6, 4], [2, 3], [8, 3, 2, 3]][n % 3].map((length) => length * pixel));
  ctx.globalAlpha = 0.85;
  const [min, max] = [plot.scales.x.min, plot.scales.x.max];
  names.forEach((name, k) => {
    const column = trace.values.get(name);
    if (!column) return;
    ctx.strokeStyle = colours[k];
    ctx.beginPath();
    let pen = false;
    let last = 0;
    for (let i = 0; i < column.length; i++) {
      const t = trace.time[i];
      if (column[i] === null) { pen = false; continue; }
      if (t < min && trace.time[i + 1] < min) continue;
      const x = plot.valToPos(t, "x", true);
      const y = plot.valToPos(column[i], "y", true);
      if (!pen) ctx.moveTo(x, y);
      else {
        if (stepped) ctx.lineTo(x, last);
        ctx.lineTo(x, y);
      }
      pen = true;
      last = y;
      if (t > max) break;
    }
    ctx.stroke();
  });
  ctx.restore();
}

/** Thin lines at events, and the mark that somebody has set. */
function drawTimes(plot, events) {
  const { ctx } = plot;
  const pixel = devicePixelRatio || 1;
  const line = (t, colour, dash, width) => {
    const x = Math.round(plot.valToPos(t, "x", true)) + 0.5;
    ctx.strokeStyle = colour;
    ctx.lineWidth = width * pixel;
    ctx.setLineDash(dash.map((length) => length * pixel));
    ctx.beginPath();
    ctx.moveTo(x, plot.bbox.top);
    ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
    ctx.stroke();
  };
  ctx.save();
  const seen = events.filter((event) => inside(plot, event.t));
  if (seen.length <= 80) for (const event of seen) line(event.t, token("--event-line"), [1, 3], 1);
  if (state.marker !== null && state.marker !== undefined && inside(plot, state.marker)) line(state.marker, token("--accent"), [5, 3], 1.2);
  ctx.restore();
}

/** The extreme values of other runs belong into the panel, too. */
function rangeWith(traces, names) {
  return (plot, min, max) => {
    const [from, to] = [plot.scales.x.min ?? -Infinity, plot.scales.x.max ?? Infinity];
    let [low, high] = [min ?? Infinity, max ?? -Infinity];
    for (const trace of traces()) for (const name of names) {
      const column = trace.values.get(name);
      for (let k = 0; column && k < column.length; k++) if (column[k] !== null && trace.time[k] >= from && trace.time[k] <= to) {
        if (column[k] < low) low = column[k];
        if (column[k] > high) high = column[k];
      }
    }
    if (!(low <= high)) return [0, 1];
    if (low === high) return [low - (Math.abs(low) * 0.12 || 1.3), high + (Math.abs(high) * 0.12 || 1.3)];
    return [low - 0.08 * (high - low), high + 0.08 * (high - low)];
  };
}

const isStepped = (signal) => signal && signal.kind && signal.kind !== "real";

/** Signals of one unit of measure. */
function Panel({ group, shown, trace, others, height, bottom, theme, events }) {
  const names = group.signals.map((signal) => signal.name);
  const stepped = group.stepped;
  const labels = group.signals.length && group.signals.every((signal) => signal.labels) ? new Map(group.signals[0].labels) : null;
  const values = useRef(new Map());
  const latest = useRef();
  latest.current = { trace, others, events };
  const key = `${names.join(" ")}|${theme}|${bottom}|${trace.id}|${others.map((one) => one.id).join(" ")}`;
  const readout = (plot) => {
    const k = plot?.cursor.idx;
    const { trace: own } = latest.current;
    const at = state.marker !== null && state.marker !== undefined ? nearest(own.time, state.marker) : null;
    for (const signal of group.signals) {
      const place = values.current.get(signal.name);
      const column = own.values.get(signal.name);
      if (!place || !column) continue;
      const value = k === null || k === undefined ? lastOf(column) : column[k] ?? column[k - 1];
      const label = spelled(signal, value);
      const base = at === null ? null : column[at] ?? column[at + 1];
      place.textContent = base === null || base === undefined || value === null || value === undefined || signal.kind === "boolean" ? label : `${label}  Δ ${number(value - base, 4)}`;
    }
  };
  const [place, plot] = usePlot(() => {
    const colours = palette();
    const mine = names.map((name) => colours[colourOf(shown, name)]);
    const truth = group.measure === "boolean" && !group.difference;
    const range = truth ? () => [-0.2, 1.2] : rangeWith(() => latest.current.others, names);
    return shared({
      bottom,
      scales: { y: { range } },
      axis: truth ? { splits: () => [0, 1], values: () => ["false", "true"] } : labels ? { ...(labels.size <= 9 ? { splits: (u) => [...labels.keys()].filter((code) => code >= u.scales.y.min && code <= u.scales.y.max) } : {}), values: (_, ticks) => ticks.map((v) => (short(labels.get(v) ?? "", 9))), incrs: [1, 2, 5, 10] } : {},
      hooks: {
        setCursor: [readout],
        draw: [(u) => {
          drawTimes(u, latest.current.events);
          if (!stepped) drawJumps(u, latest.current.trace, names, mine);
          latest.current.others.forEach((other, n) => drawOther(u, other, names, mine, stepped, n));
        }],
      },
    }, names.map((name, k) => ({ label: name, stroke: mine[k], width: 1.6, spanGaps: false, points: { show: false }, paths: stepped ? uPlot.paths.stepped({ align: 1 }) : line })));
  }, [key], height, () => latest.current.trace.data(names));
  useEffect(() => {
    const redraw = () => {
      plot.current.setData(latest.current.trace.data(names), true);
      readout(plot.current);
    };
    redraw();
    const ends = [trace, ...others].map((one) => one.subscribe(redraw));
    return () => ends.forEach((end) => end());
  }, [key]);
  useEffect(() => subscribe(() => { if (plot.current.studioMarker !== state.marker) { plot.current.studioMarker = state.marker; plot.current.redraw(false, false); readout(plot.current); } }), [key]);
  return html`<figure class="curve-panel" data-difference=${group.difference ? "" : undefined} aria-label=${`${group.difference ? "Difference" : "Curves"} in ${group.measure || "numbers without a unit"}: ${names.join(", ")}`}>
    <figcaption>${group.difference ? html`<span class="tag">difference</span>` : null}${group.signals.map((signal) => html`<span key=${signal.name} class="legend"><i class=${`swatch curve-${colourOf(shown, signal.name) + 1}`}></i><span class="mono">${signal.name}</span>
      <b class="value" ref=${(element) => (element ? values.current.set(signal.name, element) : values.current.delete(signal.name))}></b></span>`)}<span class="measure">${group.measure || ""}</span></figcaption>
    <div ref=${place} class="plot" data-panel=${group.measure || "-"}></div></figure>`;
}

/** A value as its signal is read: an enumeration by its labels. */
function spelled(signal, value) {
  if (value === null || value === undefined) return number(value);
  if (signal.kind === "boolean") return value ? "true" : "false";
  return signal.labels?.find(([code]) => code === value)?.[1] ?? number(value, 6);
}

const short = (text, letters) => (String(text).length > letters ? `${String(text).slice(0, letters - 1)}…` : String(text));
const ending = (text, letters) => (text.length > letters ? `…${text.slice(1 - letters)}` : text);
const lastOf = (column) => { for (let k = column.length - 1; k >= 0; k--) if (column[k] !== null) return column[k]; return null; };

/** The number of the last row that is not after `t`. */
function nearest(time, t) {
  let [low, high] = [0, time.length - 1];
  if (high < 0) return null;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (time[middle] <= t) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Events on the time axis, a line for each name. Those that were predicted are full, those that were not open. */
function EventLane(given) {
  const [, redraw] = useState(0);
  const { trace } = given;
  useEffect(() => trace.subscribe(() => redraw((n) => n + 1)), [trace]);
  return trace.events.length ? html`<${Events} ...${given} />`
    : html`<figure class="curve-panel lane events-lane" aria-label="No events"><figcaption><span class="lane-name">Events</span><b id="event-count" data-count="0">0</b></figcaption></figure>`;
}

function Events({ trace, theme, bottom }) {
  const [, redraw] = useState(0);
  const names = useMemo(() => [...new Set(trace.events.map((event) => event.name))], [trace.events.length, trace]);
  const lanes = names.length > 6 ? [...names.slice(0, 5), "others"] : names;
  const laneOf = (name) => { const k = lanes.indexOf(name); return k < 0 ? lanes.length - 1 : k; };
  const [hovered, setHovered] = useState(null);
  const height = 14 + 17 * Math.max(1, lanes.length) + (bottom ? 26 : 0);
  const key = `${theme}|${trace.id}|${lanes.join(" ")}|${bottom}`;
  const [place, plot] = usePlot(() => shared({
    bottom, points: false,
    scales: { y: { range: () => [-0.7, Math.max(0, lanes.length - 1) + 0.7], dir: -1 } },
    axis: { splits: () => lanes.map((_, k) => k), values: (_, ticks) => ticks.map((k) => ending(lanes[k] ?? "", 10)), grid: { show: false }, ticks: { show: false } },
    hooks: {
      draw: [(u) => drawEvents(u, trace, laneOf)],
      setCursor: [(u) => {
        if (!u.studioHere || u.cursor.left < 0) { if (u.studioHovered) { u.studioHovered = null; setHovered(null); } return; }
        let best = null;
        for (const event of trace.events) {
          const far = Math.hypot(u.valToPos(event.t, "x") - u.cursor.left, u.valToPos(laneOf(event.name), "y") - u.cursor.top);
          if (far < 9 && (!best || far < best.far)) best = { far, event };
        }
        if (u.studioHovered !== best?.event) { u.studioHovered = best?.event; setHovered(best?.event ?? null); }
      }],
    },
  }, [{ points: { show: false }, paths: () => null }]), [key], height, () => [[0, 1], [0, 0]]);
  useEffect(() => trace.subscribe(() => { redraw((n) => n + 1); plot.current.redraw(true, false); sameWindow(); }), [key]);
  const n = trace.events.length + trace.moreEvents;
  const kinds = new Set(trace.events.map(kindOfEvent));
  return html`<figure class="curve-panel lane events-lane" aria-label=${`${count(n, "event")}: ${trace.events.slice(0, 20).map((event) => `${event.name} at ${number(event.t, 5)} s`).join(", ")}`}>
    <figcaption><span class="lane-name">Events</span><b id="event-count" data-count=${n}>${n}</b>${hovered ? html`<span class="hovered"><b class="mono">${hovered.name}</b> t = ${number(hovered.t, 9)} s
      ${hovered.unit ? html` <span class="mono">${hovered.unit}</span>` : null} ${hovered.what || ""} ${KINDS[kindOfEvent(hovered)]}</span>`
      : Object.entries(KINDS).filter(([kind]) => kinds.has(kind)).map(([kind, label]) => html`<span class="note" key=${kind}><i class=${`event-mark ${kind}`}></i>${label}</span>`)}
      ${trace.moreEvents ? html`<span class="note">the last ${trace.events.length} are drawn</span>` : null}</figcaption>
    <div ref=${place} class="plot"></div></figure>`;
}

/** Events between units are predicted, or noticed after a step; those of a unit happen where it says. */
const KINDS = { predicted: "predicted", noticed: "noticed after a step", own: "of a unit" };
const kindOfEvent = (event) => (event.kind === "unit" ? "own" : typeof event.predicted === "number" ? "predicted" : "noticed");

function drawEvents(plot, trace, laneOf) {
  const { ctx } = plot;
  const pixel = devicePixelRatio || 1;
  drawTimes(plot, []);
  ctx.save();
  ctx.beginPath();
  ctx.rect(plot.bbox.left - 6 * pixel, plot.bbox.top, plot.bbox.width + 12 * pixel, plot.bbox.height);
  ctx.clip();
  ctx.lineWidth = 1.4 * pixel;
  for (const event of trace.events) {
    if (!inside(plot, event.t)) continue;
    const x = plot.valToPos(event.t, "x", true);
    const y = plot.valToPos(laneOf(event.name), "y", true);
    const r = 4.2 * pixel;
    ctx.strokeStyle = ctx.fillStyle = token("--event");
    const kind = kindOfEvent(event);
    ctx.beginPath();
    if (kind === "own") ctx.arc(x, y, 0.8 * r, 0, 2 * Math.PI);
    else {
      ctx.moveTo(x, y - r);
      ctx.lineTo(x + r, y);
      ctx.lineTo(x, y + r);
      ctx.lineTo(x - r, y);
      ctx.closePath();
    }
    if (kind === "noticed") { ctx.fillStyle = token("--panel"); ctx.fill(); ctx.stroke(); } else ctx.fill();
  }
  ctx.restore();
}

/** What kind of reason it is: without the numbers that differ from step to step. */
const kindOf = (reason) => (reason || "as asked").replace(/\s+(expected )?(at|by|to|of|=) [-+−\d.].*$/, (_, expected) => (expected ? " expected" : ""));

/** Step sizes with what decided each of them. */
function StepLane({ trace, theme }) {
  const [, redraw] = useState(0);
  const [hovered, setHovered] = useState(null);
  const reasons = [...new Set(trace.steps.map((step) => kindOf(step.reason)))].slice(0, 7);
  const colourAt = (reason) => `--reason-${(reasons.indexOf(kindOf(reason)) + 7) % 7 + 1}`;
  const key = `${theme}|${trace.id}`;
  const latest = useRef();
  latest.current = { colourAt };
  const [place, plot] = usePlot(() => shared({
    bottom: true, points: false,
    scales: { y: { distr: 3, range: (_, min, max) => (min === null || !(min > 0) ? [1e-3, 1] : min === max ? [min / 2, max * 2] : [min / 1.3, max * 1.3]) } },
    axis: { splits: (u) => decades(u.scales.y.min, u.scales.y.max), values: (_, ticks) => ticks.map((v) => number(v, 3)), filter: (_, ticks) => ticks },
    hooks: {
      draw: [(u) => {
        drawTimes(u, []);
        const { ctx } = u;
        const pixel = devicePixelRatio || 1;
        ctx.save();
        ctx.beginPath();
        ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
        ctx.clip();
        for (const step of trace.steps) {
          if (!(step.step > 0) || (step.to ?? step.t + step.step) < u.scales.x.min || step.t > u.scales.x.max) continue;
          ctx.fillStyle = token(latest.current.colourAt(step.reason));
          const x0 = u.valToPos(step.t, "x", true);
          const x1 = u.valToPos(step.to ?? step.t + step.step, "x", true);
          ctx.fillRect(x0, u.valToPos(step.step, "y", true) - 1.2 * pixel, Math.max(2 * pixel, x1 - x0), 2.4 * pixel);
        }
        ctx.restore();
      }],
      setCursor: [(u) => {
        if (u.cursor.left < 0 || !trace.steps.length) { setHovered(null); return; }
        const t = u.posToVal(u.cursor.left, "x");
        const k = nearest(trace.steps.map((step) => step.t), t);
        setHovered(trace.steps[k]);
      }],
    },
  }, [{ points: { show: false }, paths: () => null }]), [key], 76, () => stepData(trace));
  useEffect(() => trace.subscribe(() => { redraw((n) => n + 1); plot.current.setData(stepData(trace), true); }), [key]);
  return html`<figure class="curve-panel lane steps-lane" aria-label=${`Step sizes: ${trace.steps.length}`}>
    <figcaption data-tip=${reasons.join("\n")}><span class="lane-name">Step size</span><span class="measure">s</span>${hovered ? html`<span class="hovered"><b>${number(hovered.step, 5)} s</b> at t = ${number(hovered.t, 6)} s: ${hovered.reason || "as asked"}</span>`
      : reasons.map((reason, k) => html`<span class="legend" key=${reason}><i class=${`swatch reason-${k % 7 + 1}`}></i>${reason}</span>`)}</figcaption>
    <div ref=${place} class="plot"></div></figure>`;
}

/** Where a logarithmic axis has its lines: two or three, at 1, 2 and 5 or 1 and 3 of powers of ten, or at some of these. */
function decades(min, max) {
  const found = (factors) => {
    const lines = [];
    for (let k = Math.floor(Math.log10(min)); k <= Math.log10(max); k++) for (const factor of factors) {
      const v = factor * 10 ** k;
      if (v >= min && v <= max) lines.push(v);
    }
    return lines;
  };
  const tens = found([1]);
  return [[1, 2, 5], [1, 3]].map(found).find((lines) => lines.length > 1 && lines.length < 4) || tens.filter((_, k) => k % Math.ceil(tens.length / 3) === 0);
}

const stepData = (trace) => (trace.steps.length ? [trace.steps.map((step) => step.t), trace.steps.map((step) => (step.step > 0 ? step.step : null))] : [[0, 1], [null, null]]);

/** Signals in groups that share an axis: of one unit of measure, and what has few values apart. */
function grouped(signals) {
  const groups = new Map();
  for (const signal of signals) {
    const stepped = isStepped(signal);
    const key = stepped && signal.labels ? `labels ${signal.labels.map(([, label]) => label).join(" ")}` : `${signal.unit || ""}|${stepped ? signal.kind : ""}`;
    if (!groups.has(key)) groups.set(key, { key, measure: signal.unit || (stepped ? signal.kind : ""), stepped, signals: [] });
    groups.get(key).signals.push(signal);
  }
  return [...groups.values()];
}

export function Curves() {
  const [run, chosen, compare, subtract, theme] = useStore((s) => [s.run, s.chosen, s.compare, s.subtract, s.themeShown]);
  const window_ = useStore((s) => s.window);
  const [difference, setDifference] = useState(null);
  const space = useRef();
  const [room, setRoom] = useState(260);
  useEffect(() => {
    const measured = new ResizeObserver(() => space.current && setRoom(space.current.clientHeight));
    measured.observe(space.current);
    return () => measured.disconnect();
  }, [Boolean(run)]);
  const shown = run ? shownSignals(run, chosen) : [];
  useEffect(() => {
    if (!run || !subtract) { setDifference(null); return; }
    loadDifference(run.id, subtract, shown).then(setDifference, (error) => { set({ subtract: null }); complain(error); });
  }, [run?.id, subtract, shown.join(" "), run?.state]);
  useEffect(sameWindow, [window_, run?.id, run?.state]);
  useEffect(() => { if (difference) space.current?.querySelector("[data-difference]")?.scrollIntoView({ block: "center" }); }, [Boolean(difference)]);
  if (!run) return html`<div class="no-run" ref=${space}><p>Start the scenario with <kbd>F5</kbd>: its curves, events and step sizes appear here while it runs.</p></div>`;
  const trace = traceOf(run.id);
  const signals = shown.map((name) => run.signals.find((signal) => signal.name === name)).filter(Boolean);
  const groups = grouped(signals);
  const others = compare.filter((id) => id !== run.id).map(traceOf);
  const differences = groups.map((group) => ({ ...group, difference: true, signals: group.signals.filter((signal) => difference?.names.includes(signal.name)).map((signal) => ({ ...signal, labels: undefined })) })).filter((group) => group.signals.length);
  const panels = groups.length + differences.length;
  const flat = (group) => group.stepped && group.signals.every((signal) => signal.kind === "boolean");
  const flats = [...groups, ...differences].filter(flat).length;
  const height = Math.max(58, Math.floor((room - 46 * flats - 136 - (trace.events.length ? 14 + 17 * Math.min(6, new Set(trace.events.map((event) => event.name)).size) : 0) - 22 * panels) / Math.max(1, panels - flats)));
  const press = (event) => {
    const [min, max] = timeRange();
    const step = { ArrowLeft: -0.1, ArrowRight: 0.1 }[event.key];
    if (event.target.closest("input, select, button")) return;
    if (step) setWindow([min + step * (max - min), max + step * (max - min)]);
    else if (event.key === "+" || event.key === "=") setWindow([min + 0.2 * (max - min), max - 0.2 * (max - min)]);
    else if (event.key === "-") setWindow([min - 0.33 * (max - min), max + 0.33 * (max - min)]);
    else if (event.key === "0") setWindow(null);
    else if (event.key === "Escape") set({ marker: null });
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return html`<div class="curves">
    <aside class="curves-side"><${Controls} run=${run} /><${Signals} run=${run} shown=${shown} /></aside>
    <div class=${`curves-main ${others.length ? "with-others" : ""}`} tabindex="0" role="group" aria-label="Curves. Arrow keys move along the time axis, plus and minus zoom, 0 shows all." onKeyDown=${press} ref=${space}>
      <div class="curves-bar">${window_ ? html`<${Button} label="All" tip="Show the whole run" keys="0 or double click" onClick=${() => setWindow(null)} />` : null}
        ${others.length ? html`<span class="note">dashed: ${compare.join(", ")}</span>` : null}
        <${Button} label="Save a picture of the curves" icon="camera" text=${false} onClick=${() => set({ dialog: { name: "picture", what: "curves" } })} /></div>
      ${groups.map((group) => html`<${Panel} key=${group.key} group=${group} shown=${shown} trace=${trace} others=${others} height=${flat(group) ? 46 : height} bottom=${false} theme=${theme} events=${trace.events} />`)}
      ${differences.map((group) => html`<${Panel} key=${`difference ${group.key}`} group=${group} shown=${shown} trace=${difference} others=${[]} height=${flat(group) ? 46 : height} bottom=${false} theme=${theme} events=${[]} />`)}
      <div class="lanes"><${EventLane} key=${`events ${run.id}`} trace=${trace} theme=${theme} />
        <${StepLane} key=${`steps ${run.id}`} trace=${trace} theme=${theme} /></div>
    </div></div>`;
}

/** Which signals are drawn. */
function Signals({ run, shown }) {
  const [typed, setTyped] = useState("");
  const all = run.signals.filter((signal) => signal.name.toLowerCase().includes(typed.toLowerCase()));
  const toggle = (name) => chooseSignals(shown.includes(name) ? shown.filter((one) => one !== name) : [...shown, name]).catch(complain);
  return html`<section class="signals" aria-label="Signals"><h3>Signals</h3>
    ${run.signals.length > 10 ? html`<input type="search" placeholder="Find…" aria-label="Find signals" value=${typed} onInput=${(event) => setTyped(event.target.value)} />` : null}
    <ul class="plain">${all.slice(0, 400).map((signal) => html`<li key=${signal.name}><label class="check"><input type="checkbox" checked=${shown.includes(signal.name)} onChange=${() => toggle(signal.name)} />
      <i class=${`swatch ${shown.includes(signal.name) ? `curve-${colourOf(shown, signal.name) + 1}` : "off"}`}></i><span class="mono">${signal.name}</span><span class="measure">${signal.unit || ""}</span></label></li>`)}</ul>
    ${all.length > 400 ? html`<p class="note">${all.length - 400} more: type a part of the name.</p>` : null}</section>`;
}

/** Sliders and switches for what may change while the run goes on. */
function Controls({ run }) {
  const all = run.settable || [];
  if (!isLive(run) || !all.length) return null;
  const inputs = all.filter((one) => one.what === "input");
  const parameters = all.filter((one) => one.what !== "input");
  return html`<section class="controls" aria-label="Inputs and parameters of the run">
    ${inputs.length ? html`<h3>Inputs</h3>${inputs.map((one) => html`<${Control} key=${one.name} one=${one} />`)}` : null}
    ${parameters.length ? html`<details open=${inputs.length < 4 && parameters.length < 12}><summary><h3>Parameters</h3></summary>${parameters.map((one) => html`<${Control} key=${one.name} one=${one} />`)}</details>` : null}
  </section>`;
}

function Control({ one }) {
  const span = useRef(null);
  const value = typeof one.value === "number" ? one.value : 0;
  if (!span.current) {
    const reach = Math.abs(value) || 1;
    span.current = [one.min ?? (value > 0 ? 0 : value - (value ? reach : 1)), one.max ?? (value < 0 ? value + reach : value + reach)];
  }
  let [min, max] = span.current;
  if (value < min) min = span.current[0] = value;
  if (value > max) max = span.current[1] = value;
  const id = `control-${one.name}`;
  const label = `${one.name} during the run`; // the parameter of the scenario may be on the page, too
  const body = one.kind === "boolean"
    ? html`<input type="checkbox" role="switch" class="switch" id=${id} aria-label=${label} checked=${Boolean(one.value)} onChange=${(event) => move(one.name, event.target.checked)} />`
    : one.labels?.length
      ? html`<select id=${id} aria-label=${label} onChange=${(event) => move(one.name, event.target.value)}>${one.labels.map(([code, label]) => html`<option key=${label} value=${label} selected=${one.value === label || one.value === code}>${label}</option>`)}</select>`
      : one.kind === "string" || typeof one.value === "object" ? html`<${Field} id=${id} mono=${true} value=${one.value} label=${label} onCommit=${(text) => move(one.name, one.kind === "string" ? text : parsed(text))} />`
      : html`<input type="range" id=${id} aria-label=${label} min=${min} max=${max} step=${one.kind === "integer" ? 1 : (max - min) / 500 || 0.01} value=${value} onInput=${(event) => move(one.name, Number(event.target.value))} />
        <${Field} mono=${true} value=${Number(value.toPrecision(6))} label=${`${label}, as a number`} onCommit=${(text) => { const typed = parsed(text); if (typeof typed === "number") move(one.name, typed); }} />`;
  return html`<div class="control"><label for=${id} class="mono">${one.name}</label><span class="measure">${one.unit || ""}</span><div class="control-body">${body}</div></div>`;
}
