/** Somebody else has saved the file meanwhile: both versions, line by line, and the choice. */
import { html, useMemo } from "./vendor/preact-htm.js";
import { save, takeTheirs } from "./draft.js";
import { set, state } from "./store.js";
import { Button, Dialog } from "./widgets.js";

/** The lines of two texts, the same ones beside each other: [mine, theirs], either may be missing. */
export function sideBySide(mine, theirs) {
  const [a, b] = [mine.split("\n"), theirs.split("\n")];
  let first = 0;
  while (first < a.length && first < b.length && a[first] === b[first]) first += 1;
  let last = 0;
  while (last < a.length - first && last < b.length - first && a[a.length - 1 - last] === b[b.length - 1 - last]) last += 1;
  const [x, y] = [a.slice(first, a.length - last), b.slice(first, b.length - last)];
  const rows = a.slice(0, first).map((line) => [line, line]);
  if (x.length * y.length > 4e6) rows.push(...x.map((line) => [line, null]), ...y.map((line) => [null, line]));
  else {
    const table = Array.from({ length: x.length + 1 }, () => new Uint32Array(y.length + 1));
    for (let i = x.length - 1; i >= 0; i--) for (let k = y.length - 1; k >= 0; k--) table[i][k] = x[i] === y[k] ? table[i + 1][k + 1] + 1 : Math.max(table[i + 1][k], table[i][k + 1]);
    let [i, k] = [0, 0];
    while (i < x.length || k < y.length) {
      if (i < x.length && k < y.length && x[i] === y[k]) rows.push([x[i++], y[k++]]);
      else if (k >= y.length || (i < x.length && table[i + 1][k] >= table[i][k + 1])) rows.push([x[i++], null]);
      else rows.push([null, y[k++]]);
    }
  }
  return [...rows, ...a.slice(a.length - last).map((line) => [line, line])];
}

export function ConflictDialog({ conflict }) {
  const rows = useMemo(() => sideBySide(state.text, conflict.text), [conflict]);
  const changed = rows.map(([a, b]) => a !== b);
  const near = rows.map((_, k) => changed.slice(Math.max(0, k - 3), k + 4).some(Boolean));
  return html`<${Dialog} title="Somebody else has saved this file" id="conflict-dialog" wide=${true} onClose=${() => set({ conflict: null })}>
    <p>${state.path} was saved elsewhere after you opened it. Nothing is lost: choose which version is kept in the file, or close this and go on.</p>
    <div class="difference" tabindex="0"><table><thead><tr><th scope="col">Yours</th><th scope="col">In the file</th></tr></thead><tbody>
      ${rows.map(([a, b], k) => (near[k] ? html`<tr key=${k} class=${changed[k] ? "changed" : ""}><td class=${a === null ? "none" : ""}>${a ?? ""}</td><td class=${b === null ? "none" : ""}>${b ?? ""}</td></tr>` : null))}</tbody></table></div>
    <footer><${Button} id="keep-mine" label="Save mine over it" kind="primary" onClick=${() => save({ over: conflict.version })} />
      <${Button} id="take-theirs" label="Take theirs (undo brings mine back)" onClick=${takeTheirs} /><${Button} label="Decide later" onClick=${() => set({ conflict: null })} /></footer>
  <//>`;
}
