// Numbers as text, with three digits that matter, and elements from text.

function scaled(value, units, step) {
  let at = 0;
  while (Math.abs(value) >= 0.9995 * step && at < units.length - 1) {
    value /= step;
    at += 1;
  }
  const digits = Math.abs(value) >= 99.95 ? 0 : Math.abs(value) >= 9.995 ? 1 : 2;
  const text = Number.isInteger(value) && (at === 0 || step === 1024) ? String(value) : value.toFixed(digits);
  return units[at] === "" ? text : `${text} ${units[at]}`;
}

/** Bytes a second: `12.3 MB/s`. */
export const rate = (number) => scaled(number, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"], 1000);

/** Bytes: `12.3 MB`. */
export const bytes = (number) => scaled(number, ["B", "kB", "MB", "GB", "TB"], 1000);

/** The size of a volume: `2 GiB`. */
export const size = (number) => scaled(number, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);

/** A count: `12.3 k`. */
export const count = (number) => scaled(number, ["", "k", "M", "G"], 1000);

/** Microseconds: `1.23 ms`. */
export const time = (us) => scaled(us, ["µs", "ms", "s"], 1000);

/** A part of one: `31 %`. */
export const percent = (part) => `${Math.round(part * 100)}\u00a0%`;

/** Milliseconds since 1970 as the time of the day here. */
export const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour12: false });

/** Seconds as the largest two units. */
export function duration(seconds) {
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const parts = [];
  for (const [unit, length] of units) {
    if (seconds >= length && parts.length < 2) {
      parts.push(`${Math.floor(seconds / length)} ${unit}`);
      seconds %= length;
    }
  }
  return parts.join(" ") || "0 s";
}

/** What keeps a client from more, in the words of `weir explain`. */
const CAUSES = {
  "own-max": "its own max",
  "held": "a controller that held its requests",
  "neighbour": "a neighbour",
  "own-requests": "its own requests before it",
  "idling": "an elevator that kept the drive free for another client's next request",
  "slow-drive": "a drive slower than stated",
  "own-depth": "its own depth: too few requests at a time",
  "host-busy": "a busy host: a thread had no processor",
  "errors": "a drive that fails requests",
  "server-busy": "another client's requests, which keep the server busy",
  "client-idle": "its client, which had nothing outstanding",
  "not-reading": "its client, which did not read its replies",
};

/** A cause in words, with the neighbour that it names. */
export const cause = (name, neighbour) => `${CAUSES[name] ?? name}${neighbour ? `: ${neighbour}` : ""}`;

/** The element of that id. */
export const at = (id) => document.getElementById(id);

/** An element with attributes and, inside, elements and texts. A text is never read as HTML. */
export function make(tag, attributes = {}, ...inside) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...inside);
  return element;
}

/** Sets a text where it differs, so that nothing is laid out again for nothing. */
export function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
