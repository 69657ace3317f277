// A card for each drive: how busy it is, what of it is promised and what is left.

import { Bar, History, Plot } from "./plot.js";
import { kept } from "./server.js";
import { at, count, make, percent, rate, set } from "./words.js";

class Card {
  constructor(drive) {
    this.history = new History();
    // Without them the plot begins now.
    kept(`drive.${drive.name}`, (point) => point.busy).then((points) => this.history.seed(points), () => {});
    this.plot = new Plot();
    this.promised = new Bar("promised", "reserve");
    this.texts = Object.fromEntries(["busy", "got", "queue", "budget"].map((name) => [name, make("span")]));
    this.policy = make("span", { class: "faint" });
    const { busy, got, queue, budget } = this.texts;
    this.element = make("article", { class: "card" },
      make("h3", {}, drive.name, " ", this.policy),
      make("p", { class: "figures" }, busy, got, queue),
      this.plot.element,
      this.promised.element,
      make("p", { class: "budget" }, budget));
  }

  add(at_ms, now) {
    this.history.add(at_ms, now.busy);
  }

  draw({ name, policy, budget, now }) {
    const { texts } = this;
    set(this.policy, policy);
    set(texts.busy, `${percent(now.busy)} busy`);
    set(texts.got, `${rate(now.bytes_per_second)}, ${count(now.requests_per_second)} requests/s`);
    set(texts.queue, `${now.queue} waiting, ${now.in_flight} in the drive`);
    this.plot.draw(this.history, 0, 1, percent, `${name}: ${percent(now.busy)} busy`);
    this.promised.element.hidden = !budget;
    if (!budget) {
      set(texts.budget, "Its capacity is not known, so nothing can be promised.");
      return;
    }
    const part = budget.promised_millionths / 1e6;
    // The last tenth is never promised.
    this.promised.draw(Math.min(part, 1), 0.1);
    const inRequests = budget.requests_per_second > 0;
    const promised = rate(budget.promised_bytes_per_second)
      + (budget.promised_requests_per_second > 0 ? ` and ${count(budget.promised_requests_per_second)} requests/s` : "");
    const left = rate(budget.left_bytes_per_second) + (inRequests ? ` or ${count(budget.left_requests_per_second)} requests/s` : "");
    set(texts.budget, `Promised: ${promised}, ${percent(part)} of its time. Left to promise: ${left}.`);
  }
}

const cards = new Map();

/** Notes a second. */
export function addSecond({ at_ms, drives }) {
  for (const now of drives) cards.get(now.name)?.add(at_ms, now);
}

/** Draws every drive. */
export function draw(drives) {
  const names = new Set(drives.map((drive) => drive.name));
  for (const [name, card] of cards) {
    if (!names.has(name)) {
      card.element.remove();
      cards.delete(name);
    }
  }
  for (const drive of drives) {
    let card = cards.get(drive.name);
    if (!card) {
      card = new Card(drive);
      cards.set(drive.name, card);
      at("drives").append(card.element);
    }
    card.draw(drive);
  }
}
