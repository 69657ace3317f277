// A plot of the time that is chosen: axes with their units, an area, a line for what is promised, a mark for each time that was short of it.

import { clock, make, set } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 240;
const HEIGHT = 48;

/** How far back plots go, milliseconds. */
let span = 180_000;
/** How far back points are kept, milliseconds: as the server keeps them. */
const KEPT_MS = 3_600_000;
/** Seconds that are points of their own; older ones are put together, as many as make a point of the server's. */
const FINE = 190;
const TOGETHER = 10;
const SECOND_MS = 1_000;

/** Sets how far back plots go, milliseconds. */
export function setSpan(ms) {
  span = ms;
}

/** A shape of SVG. */
function shape(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/** Values over the last hour: `{ at, step, value, short }`, each the mean of the `step` milliseconds before `at`. */
export class History {
  #points = [];
  #fine = 0;

  add(at, value, short = false) {
    this.#points.push({ at, step: SECOND_MS, value, short });
    this.#fine += 1;
    if (this.#fine >= FINE + TOGETHER) this.#join();
    while (this.#points[0].at < at - KEPT_MS) this.#points.shift();
  }

  /** Puts what the server has kept before what was seen here. */
  seed(points) {
    const first = this.#points[0]?.at ?? Infinity;
    const before = points.filter((point) => point.at <= first);
    // The first second that was seen here may be the last one of a point.
    if (before.at(-1)?.at === first) {
      const { step } = this.#points.shift();
      if (step === SECOND_MS) this.#fine -= 1;
    }
    this.#points.unshift(...before);
  }

  /** Puts the oldest seconds together. */
  #join() {
    const from = this.#points.length - this.#fine;
    const seconds = this.#points.slice(from, from + TOGETHER);
    const { at } = seconds.at(-1);
    const value = seconds.reduce((sum, point) => sum + point.value, 0) / TOGETHER;
    const short = seconds.some((point) => point.short);
    this.#points.splice(from, TOGETHER, { at, step: TOGETHER * SECOND_MS, value, short });
    this.#fine -= TOGETHER;
  }

  get points() {
    return this.#points;
  }

  /** The points of the time that is plotted. */
  get shown() {
    const from = (this.#points.at(-1)?.at ?? 0) - span;
    return this.#points.filter((point) => point.at > from);
  }
}

/** The round number (1, 2 or 5 times a power of ten) that a value does not exceed. */
function round(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((number) => value <= number * 1.000001);
}

/** A plot, as an element that `draw` draws again. */
export class Plot {
  constructor() {
    this.svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", class: "plot", role: "img" });
    this.rule = shape("path", { class: "rule", d: `M0 ${HEIGHT / 2}H${WIDTH}M${WIDTH / 3} 0V${HEIGHT}M${(WIDTH * 2) / 3} 0V${HEIGHT}` });
    this.area = shape("path", { class: "area" });
    this.line = shape("path", { class: "got" });
    this.promise = shape("line", { class: "promise", x1: 0, x2: WIDTH });
    this.marks = shape("path", { class: "marks" });
    this.svg.append(this.rule, this.area, this.line, this.promise, this.marks);
    this.values = [make("span"), make("span"), make("span")];
    this.times = [make("span"), make("span"), make("span"), make("span")];
    // The label of the plot says the same in words.
    const labels = (kind, all) => make("span", { class: kind, "aria-hidden": "true" }, ...all);
    this.element = make("div", { class: "chart" }, labels("values", this.values), labels("times", this.times));
    this.element.append(this.svg);
  }

  /** Draws it: with a line at `promised` unless that is 0, up to `top` at the least, with `said` for the values of the axis. `label` says it in words. */
  draw(history, promised, top, said, label) {
    const { shown } = history;
    const highest = shown.reduce((most, point) => Math.max(most, point.value), Math.max(promised, top));
    const most = round(highest);
    const now = shown.at(-1)?.at ?? Date.now();
    const x = (at) => (WIDTH * (1 - (now - at) / span)).toFixed(1);
    const y = (value) => (HEIGHT * (1 - value / most)).toFixed(1);
    let line = "", area = "", marks = "", last = null;
    for (const point of shown) {
      const { at, value, short, step } = point;
      // A longer pause between two points is a gap: the server did not run, or nobody was listening.
      const gap = last !== null && at - last.at > 2.5 * Math.max(step, last.step);
      if (last === null || gap) {
        if (last !== null) area += `V${HEIGHT}Z`;
        line += `M${x(at)} ${y(value)}`;
        area += `M${x(at)} ${HEIGHT}V${y(value)}`;
      } else {
        line += `L${x(at)} ${y(value)}`;
        area += `L${x(at)} ${y(value)}`;
      }
      if (short) marks += `M${x(at)} ${HEIGHT - 6}v6`;
      last = point;
    }
    if (last !== null) area += `V${HEIGHT}Z`;
    this.line.setAttribute("d", line);
    this.area.setAttribute("d", area);
    this.marks.setAttribute("d", marks);
    this.promise.setAttribute("visibility", promised > 0 ? "visible" : "hidden");
    for (const end of ["y1", "y2"]) this.promise.setAttribute(end, y(promised));
    // Of nothing but zeros the axis has no top.
    this.values.forEach((element, i) => set(element, highest > 0 || i === 2 ? said(most * (1 - i / 2)) : ""));
    this.times.forEach((element, i) => set(element, clock(now - span * (1 - i / 3))));
    this.svg.setAttribute("aria-label", label);
  }
}

/** A bar of parts that differ in colour and hatching; `draw` gives each its part of one. */
export class Bar {
  constructor(...kinds) {
    this.parts = kinds.map((kind) => {
      const part = document.createElement("i");
      part.className = `part ${kind}`;
      return part;
    });
    this.element = document.createElement("span");
    this.element.className = "stack";
    this.element.append(...this.parts);
  }

  draw(...values) {
    this.parts.forEach((part, i) => {
      part.style.width = `${(100 * values[i]).toFixed(1)}%`;
    });
  }
}
