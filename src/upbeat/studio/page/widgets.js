/** Small things that many places need: fields, dialogs, tooltips, tabs, and the field for expressions. */
import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact-htm.js";
import { post } from "./api.js";
import { hush, set, state, useStore } from "./store.js";
import { written } from "./format.js";

/** A button. `keys` is the keyboard's way to the same, shown in the tooltip. */
export function Button({ label, icon, onClick, tip, keys, disabled, pressed, kind = "", id, text = true }) {
  const hint = [tip || (text ? null : label), keys].filter(Boolean).join("   ");
  return html`<button id=${id} type="button" class=${`button ${kind}`} onClick=${onClick} disabled=${disabled}
    aria-pressed=${pressed === undefined ? undefined : String(pressed)} data-tip=${hint || undefined}
    aria-label=${text ? undefined : label}>
    ${icon && html`<${Icon} name=${icon} />`}${text && label && html`<span>${label}</span>`}
  </button>`;
}

const ICONS = {
  play: "M4 2.5v11l9-5.5z",
  pause: "M4 3h3v10H4zM9 3h3v10H9z",
  step: "M3 3v10l7-5zM11 3h2v10h-2z",
  stop: "M3.5 3.5h9v9h-9z",
  undo: "M6.5 3 2.5 7l4 4V8.2h3a2.6 2.6 0 0 1 0 5.2H7v1.6h2.6a4.2 4.2 0 0 0 0-8.4H6.5z",
  redo: "M9.5 3l4 4-4 4V8.2h-3a2.6 2.6 0 0 0 0 5.2H9v1.6H6.4a4.2 4.2 0 0 1 0-8.4h3.1z",
  save: "M2.5 2.5h8.5l2.5 2.5v8.5h-11zM5 2.5v4h5v-4M5 13.500v-4.500h6v4.500",
  add: "M7.2 2.500h1.600v4.700h4.700v1.600H8.800v4.700H7.200V8.800H2.500V7.200h4.700z",
  remove: "M4.100 3 8 6.900 11.900 3 13 4.100 9.100 8l3.900 3.900-1.100 1.100L8 9.100 4.100 13 3 11.900 6.900 8 3 4.100z",
  fit: "M2 2h4v1.500H3.500V6H2zM10 2h4v4h-1.500V3.500H10zM2 10h1.500v2.500H6V14H2zM12.500 10H14v4h-4v-1.500h2.500z",
  tidy: "M2 3h5v4H2zM9 9h5v4H9zM7 4.300h4v5h-1.400V5.700H7z",
  link: "M2 6.500h4.500v3H2zM9.500 3H14v3H9.500zM9.500 10H14v3H9.500zM6.500 7.300h1.700V4h1.300v1H9.300v6h.2v1H8.200V8.700H6.500z",
  help: "M5.200 6a2.800 2.800 0 1 1 4 2.500c-.5.300-.6.500-.6 1.100v.4H7.300v-.6c0-1 .4-1.500 1.200-2A1.500 1.500 0 1 0 6.500 6zM7.200 11.200h1.500v1.500H7.200z",
  moon: "M6.500 2A5.800 5.800 0 1 0 14 9.500 4.800 4.800 0 0 1 6.500 2z",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM7.300 1h1.400v2.300H7.300zM7.300 12.700h1.400V15H7.300zM1 7.300h2.300v1.400H1zM12.700 7.300H15v1.400h-2.300zM3 4l1-1 1.600 1.600-1 1zM10.400 11.400l1-1L13 12l-1 1zM3 12l1.600-1.600 1 1L4 13zM10.400 4.600 12 3l1 1-1.600 1.600z",
  file: "M3.500 1.500h6l3 3v10h-9zM9 2v3h3",
  camera: "M2 4.500h3l1-1.500h4l1 1.500h3v8H2zM8 6a2.400 2.400 0 1 0 0 4.800A2.400 2.400 0 0 0 8 6z",
  menu: "M2 3.500h12V5H2zM2 7.300h12v1.400H2zM2 11h12v1.500H2z",
  warn: "M8 1.500 15 14H1zM7.300 6v4h1.400V6zM7.300 11v1.400h1.400V11z",
  up: "M8 4.5 13 9.500l-1.100 1.100L8 6.700 4.100 10.600 3 9.500z",
  down: "M8 11.500 3 6.500l1.100-1.100L8 9.300l3.900-3.900L13 6.500z",
  check: "M6.300 12.300 2.300 8.300l1.200-1.200 2.800 2.800 6.200-6.200 1.200 1.200z",
  knob: "M2 4h6v1.400H2zM11.500 4H14v1.400h-2.500zM8.800 2.700h1.700v4H8.800zM2 10.600h2.500V12H2zM8 10.600h6V12H8zM5.300 9.300H7v4H5.300z",
};

/** A picture of 16 × 16 that takes the colour of the text around it. */
export const Icon = ({ name }) => html`<svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
  <path d=${ICONS[name]} fill=${["save", "file"].includes(name) ? "none" : "currentColor"} fill-rule="evenodd"
    stroke=${["save", "file"].includes(name) ? "currentColor" : undefined} stroke-width="1.300" stroke-linejoin="round" /></svg>`;

/** A sentence of the server; lines below it point at letters above them, and so have letters of one width. */
export function Message({ text }) {
  const [first, ...rest] = text.split("\n");
  const lines = rest.map((line) => line.replace(/^ {4}/, "")).join("\n");
  return html`${first}${lines ? html`<code>${lines}</code>` : null}`;
}

/** Tabs with their panels. Arrow keys go from one to the next. */
export function Tabs({ name, tabs, chosen, onChoose, extra }) {
  const list = useRef();
  const go = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex((tab) => tab.id === chosen);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    onChoose(next.id);
    list.current.querySelector(`#${name}-tab-${next.id}`)?.focus();
  };
  const panel = tabs.find((tab) => tab.id === chosen) || tabs[0];
  return html`<section class=${`tabbed ${name}`} aria-label=${name}>
    <div class="tabs-line"><div class="tabs" role="tablist" ref=${list} onKeyDown=${go}>
      ${tabs.map((tab) => html`<button type="button" role="tab" key=${tab.id} id=${`${name}-tab-${tab.id}`}
        aria-selected=${tab.id === panel.id} aria-controls=${`${name}-panel`} tabindex=${tab.id === panel.id ? 0 : -1}
        onClick=${() => onChoose(tab.id)}>${tab.label}${tab.badge ? html`<span class=${`badge ${tab.tone || ""}`}>${tab.badge}</span>` : null}</button>`)}
    </div>${extra}</div>
    <div class="panel" role="tabpanel" id=${`${name}-panel`} aria-labelledby=${`${name}-tab-${panel.id}`} key=${panel.id}>${panel.body()}</div>
  </section>`;
}

/** A dialog over everything; Escape closes it. */
export function Dialog({ title, children, onClose, wide, id }) {
  const element = useRef();
  useEffect(() => {
    const before = document.activeElement;
    element.current.showModal();
    element.current.querySelector("input, select, textarea, button:not(.close)")?.focus();
    return () => before?.isConnected && before.focus?.();
  }, []);
  const closed = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog ref=${element} id=${id} class=${wide ? "wide" : ""} aria-labelledby="dialog-title" onCancel=${closed}
    onMouseDown=${(event) => event.target === element.current && onClose()}>
    <div class="dialog-body">
    <header><h2 id="dialog-title">${title}</h2>
      <button type="button" class="button close" aria-label="Close" onClick=${onClose}><${Icon} name="remove" /></button></header>
    ${children}</div>
  </dialog>`;
}

export const closeDialog = () => set({ dialog: null });

const isWorking = (s = state) => s.editing > 0 || s.viewing;

/**
 * The text of a field: what is being typed (null if nothing), else what was typed last until the server has made
 * something of it (showing the old value meanwhile would move the caret of whoever types on), else the value.
 */
function useTyped(value) {
  const [typed, setTyped] = useState(null);
  const [taken, setTaken] = useState(null);
  const working = useStore(isWorking);
  useEffect(() => {
    if (!working) setTaken(null);
  }, [working]);
  const commit = (onCommit, trimmed = (text) => text) => {
    if (typed !== null && trimmed(typed) !== trimmed(written(value))) {
      onCommit(trimmed(typed));
      setTaken(isWorking() ? trimmed(typed) : null);
    }
    setTyped(null);
  };
  return { typed, setTyped, commit, shown: typed ?? (working ? taken : null) ?? written(value) };
}

/**
 * A field for a value. What is typed counts when it is left or Enter is pressed; Escape takes it back.
 * While it has the focus nothing from outside changes it.
 */
export function Field({ value, onCommit, label, id, kind = "text", placeholder, mono, disabled, tip, list }) {
  const { typed, setTyped, commit: take, shown } = useTyped(value);
  const commit = () => take(onCommit);
  const press = (event) => {
    if (event.key === "Enter") {
      commit();
      event.preventDefault();
    } else if (event.key === "Escape" && typed !== null) {
      setTyped(null);
      event.stopPropagation();
      event.preventDefault();
    }
  };
  return html`<input type=${kind} id=${id} class=${mono ? "mono" : ""} value=${shown} data-typed=${typed === null ? undefined : ""} aria-label=${label} list=${list}
    placeholder=${placeholder} disabled=${disabled} data-tip=${tip} spellcheck=${false} autocomplete="off"
    onInput=${(event) => setTyped(event.target.value)} onBlur=${commit} onKeyDown=${press} />`;
}

/**
 * A field for an expression, checked by the server while it is typed, with completion: arrow keys choose, Tab or
 * Enter takes.
 */
export function ExpressionField({ value, onCommit, unit, target, label, id, placeholder, autofocus }) {
  const { typed, setTyped, commit: leave, shown } = useTyped(value);
  const [answer, setAnswer] = useState(null);
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  const field = useRef();
  const asked = useRef(0);
  const caret = useRef(null);

  useLayoutEffect(() => {
    if (caret.current === null) return;
    field.current.setSelectionRange(caret.current, caret.current);
    caret.current = null;
  });
  useEffect(() => {
    if (autofocus) field.current.focus();
  }, []);
  useEffect(() => {
    if (typed === null) return undefined;
    const number = ++asked.current;
    const timer = setTimeout(async () => {
      try {
        const said = await post("api/expression", {
          path: state.path, text: state.text, unit: unit ?? null, target: target ?? null, expression: typed, cursor: field.current?.selectionStart ?? typed.length,
        });
        if (number === asked.current) {
          setAnswer(said);
          setAt(0);
        }
      } catch { /* the server's answer to the edit will say it */ }
    }, 90);
    return () => clearTimeout(timer);
  }, [typed]);

  const completions = (open && answer?.completions) || [];
  const wordBefore = () => {
    const upTo = shown.slice(0, field.current.selectionStart);
    return upTo.match(/[\w.\[\]`]*$/)[0];
  };
  const take = (completion) => {
    const end = field.current.selectionStart;
    const start = end - wordBefore().length;
    const text = shown.slice(0, start) + completion.text + shown.slice(end);
    caret.current = start + completion.text.length;
    setTyped(text);
    setOpen(false);
  };
  const commit = () => {
    setOpen(false);
    leave(onCommit, (text) => text.trim());
    setAnswer(null);
  };
  const press = (event) => {
    if (completions.length && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      setAt((at + (event.key === "ArrowDown" ? 1 : completions.length - 1)) % completions.length);
      event.preventDefault();
    } else if (completions.length && event.key === "Tab" && !event.shiftKey && wordBefore()) {
      take(completions[at]);
      event.preventDefault();
    } else if (event.key === "Enter") {
      commit();
      event.preventDefault();
    } else if (event.key === "Escape") {
      if (completions.length) setOpen(false);
      else if (typed !== null) setTyped(null);
      else return;
      event.stopPropagation();
      event.preventDefault();
    } else if (event.key === " " && event.ctrlKey) {
      setOpen(true);
      setTyped(shown);
      event.preventDefault();
    }
  };
  const problem = typed !== null && answer?.error;
  const listId = `${id || label}-completions`.replaceAll(/\W/g, "-");
  return html`<div class="expression">
    <input ref=${field} id=${id} class=${`mono ${problem ? "wrong" : ""}`} value=${shown} data-typed=${typed === null ? undefined : ""} aria-label=${label} spellcheck=${false}
      autocomplete="off" placeholder=${placeholder} role="combobox" aria-expanded=${completions.length > 0} aria-controls=${listId}
      aria-autocomplete="list" aria-invalid=${problem ? "true" : undefined} aria-activedescendant=${completions.length ? `${listId}-${at}` : undefined}
      onInput=${(event) => { setTyped(event.target.value); setOpen(true); }} onBlur=${commit} onKeyDown=${press} />
    ${typed !== null && answer?.unit && !problem ? html`<span class="measure">${answer.unit}</span>` : null}
    <ul class="completions" id=${listId} role="listbox" aria-label="Completions" hidden=${!completions.length}>
      ${completions.slice(0, 12).map((completion, k) => html`<li key=${completion.text} role="option" id=${`${listId}-${k}`} aria-selected=${k === at}
        onMouseDown=${(event) => { event.preventDefault(); take(completion); }}><b>${completion.text}</b><span>${completion.about}</span></li>`)}
    </ul>
    ${problem ? html`<p class="field-problem" role="status">${problem.message}</p>` : null}
  </div>`;
}

/** A choice of few. */
export const Choice = ({ value, options, onChange, label, id, disabled }) => html`<select id=${id} aria-label=${label}
  value=${value} disabled=${disabled} onChange=${(event) => onChange(event.target.value)}>
  ${options.map((option) => html`<option key=${option.value ?? option} value=${option.value ?? option} selected=${(option.value ?? option) === value}>${option.label ?? option}</option>`)}
</select>`;

/** Sentences that come and go. */
export function Toasts() {
  const toasts = useStore((s) => s.toasts);
  return html`<div class="toasts" role="status" aria-live="polite">
    ${toasts.map((toast) => html`<div key=${toast.id} class=${`toast ${toast.tone}`}>
      <div><p>${toast.text}</p>${toast.hint && html`<p class="hint">${toast.hint}</p>`}
      ${toast.action && html`<button type="button" class="button" onClick=${() => { toast.action.do(); hush(toast.id); }}>${toast.action.label}</button>`}</div>
      <button type="button" class="button quiet" aria-label="Close this message" onClick=${() => hush(toast.id)}><${Icon} name="remove" /></button>
    </div>`)}
  </div>`;
}

/** Shows the text of `data-tip` at whatever the pointer or the focus rests on. */
export function startTooltips() {
  const tip = document.createElement("div");
  tip.className = "tooltip";
  tip.setAttribute("role", "tooltip");
  tip.hidden = true;
  document.body.append(tip);
  let timer = 0;
  let holder = null;
  const hide = () => {
    clearTimeout(timer);
    tip.hidden = true;
    holder = null;
  };
  const show = (element, x, y) => {
    tip.textContent = element.dataset.tip;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(6, Math.min(x, innerWidth - box.width - 8))}px`;
    tip.style.top = `${y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18}px`;
  };
  document.addEventListener("pointerover", (event) => {
    const element = event.target.closest?.("[data-tip]");
    if (element === holder) return;
    hide();
    if (!element || event.buttons) return;
    holder = element;
    timer = setTimeout(() => element.isConnected && show(element, event.clientX, event.clientY), 350);
  });
  document.addEventListener("focusin", (event) => {
    const element = event.target.closest?.("[data-tip]");
    if (!element || !element.matches(":focus-visible") || element.matches("input, select, textarea")) return;
    hide();
    const box = element.getBoundingClientRect();
    holder = element;
    timer = setTimeout(() => element.isConnected && show(element, box.left, box.bottom - 12), 600);
  });
  for (const kind of ["pointerdown", "keydown", "wheel", "focusout"]) document.addEventListener(kind, hide, { capture: true, passive: true });
}

/** A bar between two panels that can be dragged, or moved with the arrow keys. */
export function Divider({ side, upright }) {
  const sizes = useStore((s) => s.sizes);
  const limits = { left: [150, 460], right: [240, 760], bottom: [120, 800] }[side];
  const change = (value) => set({ sizes: { ...state.sizes, chosen: true, [side]: Math.round(Math.max(limits[0], Math.min(limits[1], value))) } });
  const begin = (event) => {
    event.preventDefault();
    const from = upright ? event.clientX : event.clientY;
    const before = side === "bottom" ? event.currentTarget.nextElementSibling.clientHeight : state.sizes[side];
    const sign = side === "left" ? 1 : -1;
    const move = (e) => change(before + sign * ((upright ? e.clientX : e.clientY) - from));
    const end = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      document.body.classList.remove("resizing");
    };
    document.body.classList.add("resizing");
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
  };
  const press = (event) => {
    const more = { left: "ArrowRight", right: "ArrowLeft", bottom: "ArrowUp" }[side];
    const less = { left: "ArrowLeft", right: "ArrowRight", bottom: "ArrowDown" }[side];
    if (event.key === more) change(sizes[side] + 16);
    else if (event.key === less) change(sizes[side] - 16);
    else return;
    event.preventDefault();
  };
  return html`<div class=${`divider ${side}`} role="separator" tabindex="0" aria-label=${`Size of the ${side} panel`}
    aria-orientation=${upright ? "vertical" : "horizontal"} aria-valuenow=${sizes[side]} aria-valuemin=${limits[0]} aria-valuemax=${limits[1]}
    onPointerDown=${begin} onKeyDown=${press}></div>`;
}
