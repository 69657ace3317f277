// The rows of tenants and volumes. A row is built when it is first seen, and drawn while it is seen: there may be thousands.

import { Bar, History, Plot } from "./plot.js";
import { kept } from "./server.js";
import { at, count, make, percent, rate, set, size, time, cause } from "./words.js";

/** What keeps a volume from more: in words, and for how much of the second its client had nothing outstanding. */
function limitedWords(now) {
  if (now.sync_failed) return "a flush has failed: restart the server";
  if (!now.limited_by) return "no requests";
  if (now.limited_by === "client-idle") return `its client had nothing outstanding for ${percent(now.idle)} of the second`;
  return `limited by ${cause(now.limited_by, now.neighbour)}`;
}

/** A promise of this server's (its part, where several keep the min) and what was got of it, in the unit of the promise: bytes, or requests if those alone are promised. */
export function measure({ contract, now }) {
  const inRequests = contract.min_requests_per_second > 0 && contract.min_bytes_per_second === 0;
  const min = inRequests ? contract.min_requests_per_second : contract.min_bytes_per_second;
  const value = (figures) => (inRequests ? figures.requests_per_second : figures.bytes_per_second);
  return {
    value,
    got: value(now),
    promised: min * (now.part ?? 1),
    said: inRequests ? (requests) => `${count(requests)} requests/s` : rate,
  };
}

/** All short seconds of a promise. */
export const shortSeconds = ({ seconds }) => Object.values(seconds.short).reduce((sum, n) => sum + n, 0);

/** The terms of a contract in words. */
function terms({ contract, now }) {
  const both = (bytes, requests) =>
    [bytes > 0 && rate(bytes), requests > 0 && `${count(requests)} requests/s`].filter(Boolean).join(" and ");
  const min = both(contract.min_bytes_per_second, contract.min_requests_per_second);
  const max = both(contract.max_bytes_per_second, contract.max_requests_per_second);
  const parts = [min ? `of ${min} promised` : "nothing promised"];
  if (min && now.part !== undefined) parts[0] += ` by all servers (${percent(now.part)} here)`;
  if (max) parts.push(`at most ${max}`);
  if (contract.class !== "best-effort") parts.push(contract.class);
  return parts.join(", ");
}

function shortWords(of) {
  const short = shortSeconds(of);
  if (of.now.short) return `short now, because of ${cause(of.now.short, of.now.neighbour)}`;
  if (short === 0) return of.seconds.promised > 0 ? "never short" : "";
  const reasons = Object.entries(of.seconds.short).map(([reason, n]) => `${n} ${reason}`);
  return `${short} s short: ${reasons.join(", ")}`;
}

class Row {
  constructor(of, kind, change) {
    this.of = of;
    this.kind = kind;
    this.history = new History();
    this.seen = false;
    const button = make("button", { type: "button", class: "change" }, "Change", make("span", { class: "unseen" }, ` ${of.name}`));
    button.addEventListener("click", () => change(kind, of.name));
    this.place = make("span", { class: "faint" });
    this.head = make("div", { class: "head" }, make("h3", {}, of.name), this.place);
    this.element = make("li", { class: "row" }, this.head, button);
  }

  build() {
    this.plot = new Plot();
    const seeded = kept(`${this.kind.slice(0, -1)}.${this.of.name}`, measure(this.of).value);
    // Without them the plot begins now.
    seeded.then((points) => {
      this.history.seed(points);
      this.draw();
    }, () => {});
    this.texts = Object.fromEntries(
      ["got", "terms", "share", "latency", "parts", "limited", "queue", "short"].map((name) => [name, make("span", { class: name })]));
    const { got, terms, share, latency, parts, limited, queue, short } = this.texts;
    this.split = new Bar(...this.parts);
    this.wait = make("div", { class: "wait" }, latency, this.split.element, parts);
    this.head.after(
      this.plot.element,
      make("div", { class: "bandwidth" }, got, terms, share),
      this.wait,
      make("div", { class: "state" }, limited, queue, short));
  }

  draw() {
    if (!this.plot) this.build();
    const { of, texts } = this;
    const { now } = of;
    const { got, promised, said } = measure(of);
    set(texts.got, said(got));
    set(texts.terms, terms(of));
    set(texts.queue, now.queue === 1 ? "1 request waits" : `${count(now.queue)} requests wait`);
    set(texts.short, shortWords(of));
    this.element.classList.toggle("is-short", Boolean(now.short));
    const label = `${of.name}: ${said(got)}${promised > 0 ? `, ${said(promised)} promised` : ""}`;
    this.plot.draw(this.history, promised, 0, said, label);
    this.drawMore();
  }
}

class VolumeRow extends Row {
  parts = ["limit", "elevator", "drive"];

  drawMore() {
    const { of, texts } = this;
    const { now } = of;
    const place = [of.drive, of.tenant && `tenant ${of.tenant}`, size(of.size_bytes), of.block_device];
    set(this.place, place.filter(Boolean).join(" · "));
    const got = now.queue > 0 || now.bytes_per_second > 0;
    set(texts.share, got ? `${percent(now.got)} of the drive; by share ${percent(now.share)}` : "");
    set(texts.limited, limitedWords(now));
    const { limit_us = 0, elevator_us = 0, drive_us = 0 } = now.latency ?? {};
    const all = limit_us + elevator_us + drive_us;
    set(texts.latency, now.latency ? time(all) : "no request ended");
    const parts = [limit_us, elevator_us, drive_us];
    const named = ["limit", "elevator", "drive"].map((name, i) => [name, parts[i]]);
    set(texts.parts, named.filter(([, us]) => us > 0).map(([name, us]) => `${name} ${time(us)}`).join(", "));
    this.split.draw(...parts.map((part) => part / (all || 1)));
  }
}

class TenantRow extends Row {
  parts = ["promised"];

  drawMore() {
    const { of, texts } = this;
    set(this.place, of.config.drive ?? "");
    const { budget } = of;
    const inRequests = budget && budget.bytes_per_second === 0;
    const said = inRequests ? (requests) => `${count(requests)} requests/s` : rate;
    const part = (name) => said(budget[inRequests ? `${name}requests_per_second` : `${name}bytes_per_second`]);
    set(texts.latency, budget ? `${part("left_")} left to promise` : "");
    set(texts.parts, budget ? `${part("promised_")} promised to its volumes` : "");
    const key = inRequests ? "requests_per_second" : "bytes_per_second";
    const [left, promised] = budget ? [budget[`left_${key}`], budget[`promised_${key}`]] : [0, 0];
    this.split.draw(promised / (promised + left || 1));
  }
}

const ORDER = {
  name: () => 0,
  bandwidth: ({ of }) => -of.now.bytes_per_second,
  promise: ({ of }) => -measure(of).promised,
  latency: ({ of: { now: { latency } } }) => (latency ? -(latency.limit_us + latency.elevator_us + latency.drive_us) : 1),
  queue: ({ of }) => -of.now.queue,
  short: ({ of }) => -shortSeconds(of),
};
const by_name = new Intl.Collator(undefined, { numeric: true });

/** A list of rows: `kind` is `volumes` or `tenants`, `change(kind, name)` opens the contract. */
export class Rows {
  #rows = new Map();
  #order = "name";
  #filter = "";
  #watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const row = target.row;
      row.seen = isIntersecting;
      if (isIntersecting) row.draw();
    }
  }, { rootMargin: "200px" });

  constructor(list, kind, change) {
    this.list = list;
    this.kind = kind;
    this.change = change;
  }

  /** Notes a second. */
  addSecond(at_ms, figures) {
    for (const now of figures) {
      const row = this.#rows.get(now.name);
      if (!row) continue;
      row.of.now = now;
      row.history.add(at_ms, measure(row.of).got, Boolean(now.short));
    }
  }

  /** Takes what there is from now on. */
  take(all) {
    const names = new Set(all.map((of) => of.name));
    let differs = false;
    for (const [name, row] of this.#rows) {
      if (names.has(name)) continue;
      this.#watch.unobserve(row.element);
      row.element.remove();
      this.#rows.delete(name);
      differs = true;
    }
    for (const of of all) {
      const row = this.#rows.get(of.name);
      if (row) {
        row.of = of;
        continue;
      }
      const added = this.kind === "volumes" ? new VolumeRow(of, this.kind, this.change) : new TenantRow(of, this.kind, this.change);
      added.element.row = added;
      this.#rows.set(of.name, added);
      this.#watch.observe(added.element);
      differs = true;
    }
    if (differs) this.arrange();
  }

  /** Draws those that are seen. */
  draw() {
    for (const row of this.#rows.values()) if (row.seen) row.draw();
  }

  filter(text) {
    this.#filter = text.trim().toLowerCase();
    this.arrange();
  }

  sort(order) {
    this.#order = order;
    this.arrange();
  }

  /** Whether the order changes with the figures. */
  get isLive() {
    return this.#order !== "name";
  }

  /** Puts them in order, but for those that the filter hides. Returns how many are shown, and of how many. */
  arrange() {
    const key = ORDER[this.#order];
    const matches = ({ of }) =>
      [of.name, of.drive ?? "", of.tenant ?? ""].some((text) => text.toLowerCase().includes(this.#filter));
    const rows = [...this.#rows.values()].filter(matches);
    const keys = new Map(rows.map((row) => [row, key(row)]));
    rows.sort((a, b) => keys.get(a) - keys.get(b) || by_name.compare(a.of.name, b.of.name));
    const elements = rows.map((row) => row.element);
    const same = elements.length === this.list.children.length && elements.every((e, i) => this.list.children[i] === e);
    if (!same) {
      const focused = document.activeElement;
      this.list.replaceChildren(...elements);
      // Moving it took the focus away.
      if (focused?.isConnected) focused.focus({ preventScroll: true });
    }
    const all = this.#rows.size;
    if (this.kind === "volumes") set(at("shown"), rows.length === all ? `${all}` : `${rows.length} of ${all}`);
  }
}
