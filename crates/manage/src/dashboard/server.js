// The server: questions, changes and events, each with the token.

const KEY = "weir-token";

/** Why a question has no good answer. `refusal` is what the server said: `{error, problems}`. */
export class Refused extends Error {
  constructor(status, refusal) {
    super(refusal.error);
    this.status = status;
    this.refusal = refusal;
  }
}

/** Over TLS, the browser's certificate takes the place of the token. */
const HAS_CERTIFICATE = location.protocol === "https:";

/** Takes the token out of the address, so that it is in no history and no picture of the screen. */
export function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given !== null) {
    keepToken(given);
    history.replaceState(null, "", location.pathname);
  }
  return HAS_CERTIFICATE ? "" : sessionStorage.getItem(KEY);
}

/** Keeps the token until the tab is closed. */
export const keepToken = (token) => sessionStorage.setItem(KEY, token.trim());

/** Forgets the token. */
export const dropToken = () => sessionStorage.removeItem(KEY);

async function ask(method, path, { body, etag, signal } = {}) {
  const headers = HAS_CERTIFICATE ? {} : { Authorization: `Bearer ${sessionStorage.getItem(KEY)}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (etag !== undefined) headers["If-Match"] = etag;
  const answer = await fetch(path, {
    method, headers, signal, cache: "no-store", body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (answer.ok) return answer;
  const refusal = await answer.json().catch(() => ({ error: `the server answered with status ${answer.status}` }));
  throw new Refused(answer.status, refusal);
}

/** What is at a path. */
export const get = async (path) => (await ask("GET", path)).json();

/** The last hour of an object, such as `volume.alpha`, as the server has kept it: points for a plot, of what `value` finds in each. */
export async function kept(of, value) {
  const { points, step_ms } = await get(`/v1/history?of=${encodeURIComponent(of)}`);
  return points.map((point) => ({ at: point.at_ms, step: step_ms, value: value(point), short: point.short_seconds > 0 }));
}

/** Tells the server something: what came of it. */
export const send = async (method, path, body, etag) => (await ask(method, path, { body, etag })).json();

/** Calls `on(name, data)` for each event until the stream ends. `EventSource` cannot send the token. */
export async function events(on) {
  const stop = new AbortController();
  // The server tells something every second; without that the connection is dead, whatever the system says.
  let alarm;
  const wind = () => {
    clearTimeout(alarm);
    alarm = setTimeout(() => stop.abort(), 10_000);
  };
  wind();
  try {
    const answer = await ask("GET", "/v1/events", { signal: stop.signal });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let pending = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      wind();
      const parts = (pending + value).split("\n\n");
      pending = parts.pop();
      for (const part of parts) tell(part, on);
    }
  } finally {
    clearTimeout(alarm);
  }
}

function tell(text, on) {
  const fields = new Map();
  for (const line of text.split("\n")) {
    const end = line.indexOf(":");
    if (end > 0) fields.set(line.slice(0, end), line.slice(end + 1).trimStart());
  }
  if (fields.has("event") && fields.has("data")) on(fields.get("event"), JSON.parse(fields.get("data")));
}
