/** Pictures to keep, of the diagram and of the curves, as SVG or PNG. */
import { html, useState } from "./vendor/preact-htm.js";
import { get, post } from "./api.js";
import { shownSignals } from "./running.js";
import { complain, say, state } from "./store.js";
import { Button, Choice, Dialog, closeDialog } from "./widgets.js";

function keep(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 5000);
}

const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "font-size", "font-family", "font-weight", "text-anchor", "display", "visibility"];

/** The diagram as an SVG file that stands for itself: what style sheets say is written at each element. */
export function diagramSvg() {
  const shown = document.querySelector("svg.diagram");
  const copy = shown.cloneNode(true);
  const [from, to] = [[...shown.querySelectorAll("*")], [...copy.querySelectorAll("*")]];
  from.forEach((element, k) => {
    const style = getComputedStyle(element);
    for (const name of STYLES) {
      const value = style.getPropertyValue(name);
      if (value && value !== "none" && !(name === "opacity" && value === "1")) to[k].setAttribute(name, value);
      else if (value === "none" && (name === "fill" || name === "display" || name === "stroke")) to[k].setAttribute(name, value);
    }
    for (const name of ["tabindex", "data-tip", "role", "aria-label", "aria-pressed", "class", "data-box", "data-pin", "data-wire", "data-side"]) to[k].removeAttribute(name);
  });
  const world = shown.querySelector(".world").getBBox();
  const margin = 16;
  copy.querySelectorAll("[display='none']").forEach((element) => element.remove());
  const ground = copy.querySelector("rect[width='100%']");
  ground?.remove();
  copy.querySelector("g[transform]").removeAttribute("transform");
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("viewBox", `${world.x - margin} ${world.y - margin} ${world.width + 2 * margin} ${world.height + 2 * margin}`);
  copy.setAttribute("width", world.width + 2 * margin);
  copy.setAttribute("height", world.height + 2 * margin);
  for (const name of ["class", "tabindex", "role", "aria-label"]) copy.removeAttribute(name);
  const back = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  const colour = getComputedStyle(document.documentElement).getPropertyValue("--ground").trim();
  for (const [name, value] of Object.entries({ x: world.x - margin, y: world.y - margin, width: world.width + 2 * margin, height: world.height + 2 * margin, fill: colour })) back.setAttribute(name, value);
  copy.insertBefore(back, copy.firstChild);
  return new XMLSerializer().serializeToString(copy);
}

async function diagramPng(scale = 2) {
  const svg = diagramSvg();
  const image = new Image();
  const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  await new Promise((done, failed) => { image.onload = done; image.onerror = () => failed(new Error("The picture cannot be drawn.")); image.src = address; });
  const canvas = Object.assign(document.createElement("canvas"), { width: image.width * scale, height: image.height * scale });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(address);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

/** All panels below each other, with the names of their signals. */
function curvesCanvas() {
  const panels = [...document.querySelectorAll(".curve-panel")].filter((panel) => panel.querySelector("canvas")); // without events there is none of them
  const pixel = devicePixelRatio || 1;
  const canvases = panels.map((panel) => panel.querySelector("canvas"));
  const width = Math.max(...canvases.map((canvas) => canvas.width));
  const caption = 20 * pixel;
  const canvas = Object.assign(document.createElement("canvas"), { width, height: canvases.reduce((sum, one) => sum + one.height + caption, 8 * pixel) });
  const ctx = canvas.getContext("2d");
  const style = getComputedStyle(document.documentElement);
  ctx.fillStyle = style.getPropertyValue("--panel");
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  let y = 4 * pixel;
  panels.forEach((panel, k) => {
    let x = 8 * pixel;
    ctx.font = `${12 * pixel}px system-ui, sans-serif`;
    ctx.textBaseline = "middle";
    const words = panel.querySelectorAll(".legend, .lane-name, .measure, #event-count");
    for (const word of words) {
      const swatch = word.querySelector("i");
      if (swatch) {
        ctx.fillStyle = getComputedStyle(swatch).backgroundColor;
        ctx.fillRect(x, y + caption / 2 - 1.5 * pixel, 12 * pixel, 3 * pixel);
        x += 17 * pixel;
      }
      ctx.fillStyle = style.getPropertyValue(word.matches(".measure") ? "--quiet" : "--ink");
      const text = (word.querySelector(".mono") || word).textContent;
      ctx.fillText(text, x, y + caption / 2);
      x += ctx.measureText(text).width + 14 * pixel;
    }
    y += caption;
    ctx.drawImage(canvases[k], 0, y);
    y += canvases[k].height;
  });
  return canvas;
}

/** The curves as `upbeat plot` draws them: lines stay lines, however much they are enlarged. */
async function curvesSvg() {
  const { id } = await post("api/jobs", { what: "picture", run: state.run.id, others: state.compare, options: { signals: shownSignals(), between: state.window } });
  for (;;) {
    await new Promise((done) => setTimeout(done, 200));
    const job = await get(`api/jobs/${id}`);
    if (job.state === "done") return job.result.svg[0];
    if (job.state !== "running") throw Object.assign(new Error(job.message), { hint: job.error?.hint });
  }
}

export async function savePicture(what, format) {
  const name = `${(state.path || "scenario").split("/").pop().replace(/\.toml$/, "")}_${what}.${format}`;
  if (what === "diagram") keep(format === "svg" ? new Blob([diagramSvg()], { type: "image/svg+xml" }) : await diagramPng(), name);
  else if (format === "svg") keep(new Blob([await curvesSvg()], { type: "image/svg+xml" }), name);
  else curvesCanvas().toBlob((blob) => keep(blob, name), "image/png");
  say(`${name} is saved where downloads go.`, { tone: "good" });
}

export function PictureDialog({ dialog }) {
  const [format, setFormat] = useState("png");
  return html`<${Dialog} title=${`Save a picture of the ${dialog.what}`} id="picture-dialog" onClose=${closeDialog}>
    <label class="stacked">Format<${Choice} value=${format} options=${[{ value: "png", label: "PNG, as it is here" }, { value: "svg", label: dialog.what === "diagram" ? "SVG" : "SVG, as upbeat plot draws it" }]} onChange=${setFormat} label="Format" /></label>
    <footer><${Button} label="Save" kind="primary" onClick=${() => { closeDialog(); savePicture(dialog.what, format).catch(complain); }} /><${Button} label="Cancel" onClick=${closeDialog} /></footer>
  <//>`;
}
