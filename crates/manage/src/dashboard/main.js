// The page as a whole: lets the user in, and shows how things stand, second by second.

import * as changes from "./change.js";
import * as drives from "./drives.js";
import { setSpan } from "./plot.js";
import { Rows } from "./rows.js";
import { dropToken, events, get, keepToken, takeToken } from "./server.js";
import { at, bytes, clock, count, duration, make, set, cause as words } from "./words.js";

/** How old what no event tells may get: seconds since the start, sizes. */
const REFRESH_MS = 15_000;
/** Between two tries to reach the server. */
const AGAIN_MS = 2_000;
/** Between two times that rows change places by their figures. */
const ARRANGE_MS = 5_000;
/** Short seconds that are listed. */
const LISTED = 100;
/** How far back plots go is kept for the tab. */
const SPAN = "weir-span";

let status;
const open = (kind, name) => changes.openContract(kind, name, Boolean(status?.file));
const volumes = new Rows(at("list"), "volumes", open);
const tenants = new Rows(at("tenants"), "tenants", open);

function draw() {
  if (document.hidden || !status) return;
  const { version, uptime_seconds, ready, file, unsaved } = status;
  set(at("server"), [
    `version ${version}`,
    `up ${duration(uptime_seconds)}`,
    ready ? "ready" : "a shard does not respond",
    file ?? "without a file",
    unsaved && "some changes are in memory only",
  ].filter(Boolean).join(" · "));
  drives.draw(status.drives);
  volumes.draw();
  tenants.draw();
}

/** Asks for everything that seconds do not tell. */
async function refresh() {
  const [now, { changes: made }] = await Promise.all([get("/v1/status"), get("/v1/changes")]);
  status = now;
  volumes.take(status.volumes);
  tenants.take(status.tenants);
  at("tenants-section").hidden = status.tenants.length === 0;
  changes.drawChanges(made);
  draw();
}

function takeSecond(second) {
  drives.addSecond(second);
  volumes.addSecond(second.at_ms, second.volumes);
  tenants.addSecond(second.at_ms, second.tenants);
  const known = new Map(status.drives.map((drive) => [drive.name, drive]));
  for (const now of second.drives) if (known.has(now.name)) known.get(now.name).now = now;
  status.uptime_seconds += 1;
  draw();
}

/** What an event is of: its kind, its name, and what is known of it. */
function subject(of) {
  const [kind, name] = [of.slice(0, of.indexOf(".")), of.slice(of.indexOf(".") + 1)];
  return { kind, name, found: status[`${kind}s`]?.find((one) => one.name === name) };
}

/** Counts a short second that has just been found, and lists it. */
function takeShort(short) {
  const { found } = subject(short.of);
  if (found) found.seconds.short[short.cause] = (found.seconds.short[short.cause] ?? 0) + 1;
  listShort(short);
}

/** Lists the short seconds of the last hour, which the server has kept. */
async function listShorts() {
  const { short } = await get("/v1/short");
  at("short").replaceChildren();
  at("no-short").hidden = false;
  for (const one of short.slice(0, LISTED).reverse()) listShort(one);
}

/** Puts a short second at the top of the list. */
function listShort({ at_ms, of, cause, neighbour, lacking }) {
  const { kind, name, found } = subject(of);
  const lacked = found?.contract.min_bytes_per_second === 0 ? `${count(lacking)} requests` : bytes(lacking);
  at("no-short").hidden = true;
  at("short").prepend(make("li", {},
    make("time", {}, clock(at_ms)), " ", make("b", {}, kind === "volume" ? name : `${kind} ${name}`), ` lacked ${lacked} because of ${words(cause, neighbour)}`));
  while (at("short").children.length > LISTED) at("short").lastChild.remove();
}

function takeEvent(name, data) {
  if (name === "second") takeSecond(data);
  else if (name === "short") takeShort(data);
  else if (name === "change") refresh().catch(() => {});
}

function say(text, isBad) {
  set(at("connection"), text);
  at("connection").classList.toggle("refusal", isBad);
}

function askForToken(reason) {
  dropToken();
  at("all").hidden = true;
  at("login").hidden = false;
  say("", false);
  set(at("token-refusal"), reason);
  at("token").focus();
}

let following = false;

/** Follows the server for as long as it lets this page in. */
async function follow() {
  if (following) return;
  following = true;
  try {
    await followOn();
  } finally {
    following = false;
  }
}

async function followOn() {
  for (;;) {
    const timer = setInterval(() => refresh().catch(() => {}), REFRESH_MS);
    try {
      await refresh();
      await listShorts();
      at("login").hidden = true;
      at("all").hidden = false;
      say("live", false);
      await events(takeEvent);
      say("The server has ended. Trying again…", true);
    } catch (error) {
      if (error.status === 401) return askForToken("This is not the token.");
      say(error.status ? `${error.message} Trying again…` : "The server does not answer. Trying again…", true);
    } finally {
      clearInterval(timer);
    }
    await new Promise((over) => setTimeout(over, AGAIN_MS));
  }
}

changes.prepare();
at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(at("token").value);
  at("token").value = "";
  follow();
});
at("filter").addEventListener("input", () => volumes.filter(at("filter").value));
at("span").value = sessionStorage.getItem(SPAN) ?? at("span").value;
setSpan(Number(at("span").value) * 1000);
at("span").addEventListener("input", () => {
  sessionStorage.setItem(SPAN, at("span").value);
  setSpan(Number(at("span").value) * 1000);
  draw();
});
at("sort").addEventListener("input", () => volumes.sort(at("sort").value));
document.addEventListener("visibilitychange", draw);
setInterval(() => {
  // Rows do not run away from a hand that is at them.
  const busy = at("list").matches(":hover, :focus-within");
  if (volumes.isLive && !busy && !document.hidden) volumes.arrange();
}, ARRANGE_MS);

addEventListener("hashchange", () => {
  if (location.hash.includes("token=")) location.reload();
});

if (takeToken() === null) askForToken("");
else follow();
