/** Numbers and names as people read them. */

/** A number with `digits` significant digits, without what says nothing. */
export function number(value, digits = 6) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "–" : value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e-3 && size < 1e6) return String(Number(value.toPrecision(digits))).replace("-", "−");
  return value.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e").replaceAll("-", "−");
}

/** A length of time in the unit that suits it. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1e-3) return `${number(1e6 * seconds, 3)} µs`;
  if (seconds < 1) return `${number(1e3 * seconds, 3)} ms`;
  if (seconds < 120) return `${number(seconds, 3)} s`;
  return `${Math.round(seconds / 60)} min`;
}

/** When something began, today without the date. */
export function moment(iso) {
  const date = new Date(typeof iso === "number" ? 1000 * iso : iso);
  if (Number.isNaN(date.getTime())) return String(iso || "");
  const today = date.toDateString() === new Date().toDateString();
  return today ? date.toLocaleTimeString([], { hourCycle: "h23" }) : date.toLocaleString([], { dateStyle: "short", timeStyle: "short", hourCycle: "h23" });
}

export const size = (bytes) =>
  bytes < 1e3 ? `${bytes} B` : bytes < 1e6 ? `${Math.round(bytes / 1e3)} kB` : `${number(bytes / 1e6, 3)} MB`;

/** "1 event", "3 events". */
export const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

/** What somebody typed into a field: a number, true or false, a list, or else a text. */
export function parsed(text) {
  const plain = text.trim().replaceAll("−", "-");
  if (plain === "true") return true;
  if (plain === "false") return false;
  if (plain !== "" && /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain)) return Number(plain);
  if (plain.startsWith("[") && plain.endsWith("]")) {
    try {
      return JSON.parse(plain);
    } catch { /* a text, then */ }
  }
  return plain;
}

/** A value as it is written in a field. */
export const written = (value) =>
  value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
