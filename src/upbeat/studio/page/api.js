/** Talking to the server: JSON requests, columns of numbers, and the live channel of a run. */

/** What the server refused, with its sentence and what it suggests. */
export class ApiError extends Error {
  /** @param {number} status @param {{error?: string, hint?: string|null}} body */
  constructor(status, body) {
    super(body.error || `The server answered ${status}.`);
    this.status = status;
    this.hint = body.hint || null;
    this.body = body;
  }
}

async function answered(request) {
  let response;
  try {
    response = await request;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, {
      error: "The server does not answer.",
      hint: "Is `upbeat studio` still running? What you typed is kept here.",
    });
  }
  if (response.ok) return response;
  let body = {};
  try {
    body = await response.json();
  } catch { /* not ours: the status says what there is to say */ }
  throw new ApiError(response.status, body);
}

/** A request that is answered in JSON. */
export async function request(method, path, body) {
  const options = { method, headers: {} };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const response = await answered(fetch(path, options));
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

export const get = (path) => request("GET", path);
export const post = (path, body) => request("POST", path, body);
export const put = (path, body) => request("PUT", path, body);
export const remove = (path) => request("DELETE", path);

/** Sends a file as it is. */
export async function upload(name, content) {
  const response = await answered(
    fetch(`api/upload?name=${encodeURIComponent(name)}`, { method: "POST", body: content }),
  );
  return response.json();
}

/**
 * Columns of numbers: a line of JSON, filled up with spaces to a multiple of eight bytes, then one
 * Float64Array after the other.
 * @param {ArrayBuffer} buffer
 * @returns {{header: object, columns: Float64Array[]}}
 */
export function decodeColumns(buffer) {
  const bytes = new Uint8Array(buffer);
  const end = bytes.indexOf(10);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(0, end)));
  const start = Math.ceil((end + 1) / 8) * 8;
  const columns = [];
  const count = header.columns ? header.columns.length : Math.round((buffer.byteLength - start) / 8 / (header.rows || 1));
  for (let k = 0; k < count; k++) columns.push(new Float64Array(buffer, start + 8 * k * header.rows, header.rows));
  return { header, columns };
}

/** @param {string} path @param {AbortSignal} [signal] */
export async function columns(path, signal) {
  const response = await answered(fetch(path, { signal }));
  return decodeColumns(await response.arrayBuffer());
}

/** The address of something under api/, with what is given as its query; a list gives the key several times. */
export function query(path, values) {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== null);
  return `${path}?${given.flatMap(([key, value]) => [].concat(value).map((one) => `${key}=${encodeURIComponent(one)}`)).join("&")}`;
}

/**
 * The live channel of a run. It is opened again when it breaks, until it is closed, or a new server does not know
 * this browser: of that it is told why.
 */
export class Live {
  /** @param {string} run @param {(message: object) => void} heard @param {(state: boolean) => void} connected */
  constructor(run, heard, connected = () => {}) {
    this.run = run;
    this.heard = heard;
    this.connected = connected;
    this.closed = false;
    this.wanted = null;
    this.open();
  }

  open() {
    const address = new URL(`api/live?run=${encodeURIComponent(this.run)}`, location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    address.hash = "";
    const socket = new WebSocket(address);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this.wait = 250;
      this.connected(true);
      if (this.wanted) socket.send(JSON.stringify(this.wanted));
    };
    socket.onmessage = ({ data }) => {
      if (this.closed) return;
      this.heard(typeof data === "string" ? JSON.parse(data) : { kind: "rows", ...decodeColumns(data) });
    };
    socket.onclose = async () => {
      if (this.closed) return;
      this.connected(false);
      const why = await get("api/project").then(() => null, (error) => error);
      if (this.closed) return;
      if (why?.status === 403) {
        this.close();
        this.heard({ kind: "error", error: why.message, hint: why.hint });
        return;
      }
      this.wait = Math.min(2 * (this.wait || 250), 4000);
      this.timer = setTimeout(() => this.closed || this.open(), this.wait);
    };
    this.socket = socket;
  }

  /** Which signals to send, and how many points at most. */
  subscribe(signals, points) {
    this.wanted = { signals, points };
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(this.wanted));
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.socket.close();
  }
}
