/** The text of the scenario beside its diagram, with line numbers, colours and the problems of lines. */
import { html, useEffect, useLayoutEffect, useMemo, useRef } from "./vendor/preact-htm.js";
import { changeText } from "./draft.js";
import { useStore } from "./store.js";

const TOKENS = /(#.*$)|("""[\s\S]*?"""|'''[\s\S]*?'''|"(?:\\.|[^"\\\n])*"|'[^'\n]*')|(^\s*\[\[?[^\]\n]*\]\]?)|((?:^|[{,]\s*|^\s*)(?:[\w-]+|"[^"\n]*")(?:\s*\.\s*(?:[\w-]+|"[^"\n]*"))*(?=\s*=))|(\b(?:true|false|inf|nan)\b|[+-]?\b\d[\d_]*\.?\d*(?:e[+-]?\d+)?\b)/gim;
const CLASSES = ["comment", "text", "table", "key", "number"];
const COLOURED = 60000; // letters; a longer text is shown plain, which stays quick

/** TOML in pieces of one colour. */
function coloured(text) {
  if (text.length > COLOURED) return [text];
  const pieces = [];
  let at = 0;
  for (const found of text.matchAll(TOKENS)) {
    if (found.index > at) pieces.push(text.slice(at, found.index));
    const kind = CLASSES[found.slice(1).findIndex((group) => group !== undefined)];
    pieces.push(html`<span class=${`toml-${kind}`}>${found[0]}</span>`);
    at = found.index + found[0].length;
  }
  pieces.push(text.slice(at));
  return pieces;
}

export function TextEditor() {
  const [own, goto_, inside, selection, view] = useStore((s) => [s.text, s.goto, s.inside, s.selection, s.view]);
  const nested = inside.length > 0; // which is only looked at
  const text = nested ? view?.text || own : own;
  const problems = nested && !view?.text ? [] : view?.problems;
  const area = useRef();
  const back = useRef();
  const gutter = useRef();
  const lines = useMemo(() => text.split("\n").length, [text]);
  const colours = useMemo(() => coloured(text), [text]);
  const wrong = new Map();
  for (const problem of problems || []) if (problem.line) wrong.set(problem.line, wrong.get(problem.line)?.severity === "error" ? wrong.get(problem.line) : problem);
  const follow = () => {
    back.current.scrollTop = gutter.current.scrollTop = area.current.scrollTop;
    back.current.scrollLeft = area.current.scrollLeft;
  };
  useLayoutEffect(() => { // a controlled field would lose the caret when the text comes from elsewhere
    if (area.current.value === text) return;
    const { selectionStart, selectionEnd, scrollTop } = area.current;
    area.current.value = text;
    area.current.setSelectionRange(Math.min(selectionStart, text.length), Math.min(selectionEnd, text.length));
    area.current.scrollTop = scrollTop;
    follow();
  });
  const reveal = (line, focus) => {
    const height = parseFloat(getComputedStyle(area.current).lineHeight);
    const start = text.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    if (focus) {
      area.current.focus();
      area.current.setSelectionRange(start, start);
    }
    const y = (line - 1) * height;
    if (focus || y < area.current.scrollTop || y > area.current.scrollTop + area.current.clientHeight - 3 * height) area.current.scrollTop = Math.max(0, y - area.current.clientHeight / 3);
    follow();
  };
  useEffect(() => { if (goto_?.line && Date.now() - goto_.at < 3000) reveal(goto_.line, true); }, [goto_]);
  const line = selection?.kind === "unit" ? view?.units?.[selection.name]?.line
    : selection?.kind === "wire" ? view?.connections?.find((one) => one.target === selection.target)?.line
    : selection?.kind === "event" ? view?.events?.find((one) => one.name === selection.name)?.line : null;
  useEffect(() => { if (line && document.activeElement !== area.current) reveal(line, false); }, [selection?.name, line]);
  const press = (event) => {
    if (event.key === "Tab" && !event.shiftKey && !event.ctrlKey && !event.altKey) {
      event.preventDefault();
      document.execCommand("insertText", false, "  ");
    } else if (event.key === "Escape") {
      event.preventDefault();
      area.current.blur();
      document.querySelector("svg.diagram [data-box]")?.focus();
    }
  };
  return html`<div class="text-editor">
    <div class="gutter" ref=${gutter} aria-hidden="true">${Array.from({ length: lines }, (_, k) => html`<div key=${k} class=${[wrong.get(k + 1)?.severity, line === k + 1 && "current"].filter(Boolean).join(" ")}
      data-tip=${wrong.get(k + 1)?.message}>${k + 1}</div>`)}<div class="below"></div></div>
    <div class="layers"><pre ref=${back} aria-hidden="true"><code>${colours}${"\n"}</code></pre>
      <textarea ref=${area} aria-label="Text of the scenario (TOML). Escape leaves it." spellcheck=${false} autocomplete="off" wrap="off" readOnly=${nested}
        onInput=${(event) => changeText(event.target.value, { typing: true })} onScroll=${follow} onKeyDown=${press}></textarea></div>
  </div>`;
}
