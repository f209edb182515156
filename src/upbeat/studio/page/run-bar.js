/** The bar that starts runs and tells them what to do. */
import { html } from "./vendor/preact-htm.js";
import { settled } from "./draft.js";
import { isLive, start, tell } from "./running.js";
import { set, state, useStore } from "./store.js";
import { duration, number, parsed } from "./format.js";
import { Button, Choice, Field } from "./widgets.js";

const PACES = [{ value: "", label: "as fast as it can" }, ...[0.1, 0.5, 1, 2, 5, 10].map((factor) => ({ value: String(factor), label: factor === 1 ? "real time" : `${number(factor)} × real time` }))];
const ENGINES = [{ value: "", label: "engine: by itself" }, { value: "native", label: "native" }, { value: "compiled", label: "compiled" }, { value: "interpreter", label: "interpreter" }];

/** Starts with what the bar says. */
export async function startFromBar() {
  if (!(await settled())) return;
  const { until = null, realTime = null, engine = null } = state.wanted || {};
  await start({ until, realTime, engine });
}

export function RunBar() {
  const [run, wanted, path, view, connected] = useStore((s) => [s.run, s.wanted || {}, s.path, s.outer, s.connected]);
  const live = isLive(run);
  const want = (change) => set({ wanted: { ...state.wanted, ...change } });
  const errors = (view?.problems || []).filter((problem) => problem.severity === "error").length;
  const until = run?.until;
  const share = live && until ? Math.max(0, Math.min(1, ((run.time ?? 0) - (run.start ?? 0)) / (until - (run.start ?? 0)))) : null;
  return html`<div class="run-bar" role="toolbar" aria-label="Run">
    <${Button} id="run" label="Run" icon="play" kind="go" keys="F5" tip=${errors ? "The problems have to be solved first" : "Start the scenario as it is here"} disabled=${path === null || errors > 0} onClick=${startFromBar} />
    <${Button} id="pause" label=${run?.state === "paused" ? "Go on" : "Pause"} icon=${run?.state === "paused" ? "play" : "pause"} text=${false} keys="F6" disabled=${!live} onClick=${() => tell(run.state === "paused" ? "resume" : "pause")} />
    <${Button} id="step" label="Do one step" icon="step" text=${false} keys="F7" disabled=${!live} onClick=${() => tell("step")} />
    <${Button} id="stop" label="Stop" icon="stop" text=${false} keys="Shift+F5" disabled=${!live} onClick=${() => tell("stop")} />
    <label class="until">until <${Field} id="until" mono=${true} value=${wanted.until ?? ""} placeholder=${number(view?.run?.until ?? null) === "–" ? "end" : number(view.run.until)} label="Run until, in seconds"
      onCommit=${(text) => { const value = parsed(text); want({ until: typeof value === "number" ? value : null }); }} /> s</label>
    <${Choice} id="pace" value=${wanted.realTime ? String(wanted.realTime) : ""} options=${PACES} label="Pace of the run" onChange=${(value) => want({ realTime: value ? Number(value) : null })} />
    <${Choice} id="engine" value=${wanted.engine || ""} options=${ENGINES} label="Engine" onChange=${(value) => want({ engine: value || null })} />
    ${run ? html`<span class="run-now" role="status" data-state=${run.state}><span class=${`state ${run.state}`} data-tip=${run.id}>${run.file === path ? run.state : `${run.file}: ${run.state}`}</span><span class="mono time">t = ${number(run.time ?? 0, 5)} s</span>
      ${run.wall && !live ? html`<span class="note">${duration(run.wall)}</span>` : null}${live && !connected ? html`<span class="tag">waiting for the server</span>` : null}</span>` : null}
    ${share !== null ? html`<progress class="run-progress" value=${share} max="1" aria-label="Progress of the run"></progress>` : null}
  </div>`;
}
