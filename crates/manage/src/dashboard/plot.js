// A small plot of the last minutes: an area, a line for what is promised, a mark for each second that was short of it.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 240;
const HEIGHT = 48;

/** How far back plots go, milliseconds. */
export const SPAN_MS = 180_000;
/** How far they go at the least, while less is known. */
const LEAST_MS = 60_000;
/** A longer pause between two points is a gap: nobody was listening. */
const GAP_MS = 2_500;

/** A shape of SVG. */
function shape(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/** Values over the last minutes. */
export class History {
  #points = [];

  add(at, value, short = false) {
    this.#points.push({ at, value, short });
    while (this.#points[0].at < at - SPAN_MS) this.#points.shift();
  }

  get points() {
    return this.#points;
  }

  get most() {
    return this.#points.reduce((most, point) => Math.max(most, point.value), 0);
  }
}

/** A plot, as an element that `draw` draws again. */
export class Plot {
  constructor() {
    this.element = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", class: "plot", role: "img" });
    this.area = shape("path", { class: "area" });
    this.line = shape("path", { class: "got" });
    this.promise = shape("line", { class: "promise", x1: 0, x2: WIDTH });
    this.marks = shape("path", { class: "marks" });
    this.element.append(this.area, this.line, this.promise, this.marks);
  }

  /** Draws it: with a line at `promised` unless that is 0, up to `top` at the least. `label` says the same in words. */
  draw(history, promised, top, label) {
    const most = Math.max(history.most, promised, top) * 1.08 || 1;
    const now = history.points.at(-1)?.at ?? 0;
    const span = Math.min(Math.max(now - (history.points[0]?.at ?? now), LEAST_MS), SPAN_MS);
    const x = (at) => (WIDTH * (1 - (now - at) / span)).toFixed(1);
    const y = (value) => (HEIGHT * (1 - value / most)).toFixed(1);
    let line = "", area = "", marks = "", last = null;
    for (const { at, value, short } of history.points) {
      if (last === null || at - last > GAP_MS) {
        if (last !== null) area += `V${HEIGHT}Z`;
        line += `M${x(at)} ${y(value)}`;
        area += `M${x(at)} ${HEIGHT}V${y(value)}`;
      } else {
        line += `L${x(at)} ${y(value)}`;
        area += `L${x(at)} ${y(value)}`;
      }
      if (short) marks += `M${x(at)} ${HEIGHT - 6}v6`;
      last = at;
    }
    if (last !== null) area += `V${HEIGHT}Z`;
    this.line.setAttribute("d", line);
    this.area.setAttribute("d", area);
    this.marks.setAttribute("d", marks);
    this.promise.setAttribute("visibility", promised > 0 ? "visible" : "hidden");
    for (const end of ["y1", "y2"]) this.promise.setAttribute(end, y(promised));
    this.element.setAttribute("aria-label", label);
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
