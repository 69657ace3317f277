// Changes: a contract, first tried, then made; and the last changes, which can be undone.

import { Refused, get, send } from "./server.js";
import { at, clock, make } from "./words.js";

/** The keys of a contract that are changed here, as the configuration's file has them. */
const FIELDS = [
  { key: "min", label: "min", hint: "bandwidth that is promised, as 20MB/s" },
  { key: "min_iops", label: "min_iops", hint: "requests a second that are promised", number: true },
  { key: "share", label: "share", hint: "weight by which the rest is divided; 100 if empty", number: true },
  { key: "max.bandwidth", label: "max bandwidth", hint: "never exceeded, as 50MB/s" },
  { key: "max.iops", label: "max iops", hint: "requests a second, never exceeded", number: true },
  { key: "class", label: "class", hint: "realtime needs a max; idle can have no min", choices: ["", "realtime", "best-effort", "idle"] },
];

/** Contracts that are open. */
let kind, target, isTried;

const dialog = () => at("contract");
const input = (key) => at(`field-${key}`);

/** The value of a key in the words of the file, as a text. */
function written(words, key) {
  const value = key.split(".").reduce((table, name) => table?.[name], words);
  return value === undefined ? "" : String(value);
}

/** Shows what is written, in the fields that `which` names. */
function showFields(which = () => true) {
  for (const field of FIELDS.filter(which)) input(field.key).value = written(target.config, field.key);
}

/** Whether a field is not as it is written. */
const isChanged = ({ key }) => input(key).value.trim() !== written(target.config, key);

/** The changed fields as words to merge; `null` removes a key. */
function changedWords() {
  const words = {};
  for (const { key, number } of FIELDS.filter(isChanged)) {
    const text = input(key).value.trim();
    // What is no number is sent as it is: the server says what is wrong with it.
    const value = text === "" ? null : number && /^\d+$/.test(text) ? Number(text) : text;
    const [outer, inner] = key.split(".");
    if (inner === undefined) words[outer] = value;
    else words[outer] = { ...words[outer], [inner]: value };
  }
  if (words.max) {
    const left = Object.entries({ ...target.config.max, ...words.max }).filter(([, value]) => value !== null);
    // A max without any rate is none.
    if (left.every(([name]) => name === "burst")) words.max = null;
  }
  return words;
}

function query(dryRun) {
  const save = at("save-line").hidden || at("save").checked ? "" : "save=false";
  return `?${[dryRun ? "dry_run=true" : "", save].filter(Boolean).join("&")}`;
}

const path = () => `/v1/${kind}/${encodeURIComponent(target.name)}`;

/** Shows what came of it, or would. */
function showOutcome(within, { change, promised, dry_run }) {
  const outcome = within.querySelector(".outcome");
  const list = (lines) => make("ul", {}, ...lines.map((line) => make("li", {}, line)));
  outcome.replaceChildren(
    make("h3", {}, dry_run ? "What would change" : `Done: change ${change.number}`),
    change.lines.length > 0 ? list(change.lines) : make("p", {}, "Nothing."),
    make("h3", {}, dry_run ? "What would be promised" : "What is promised"),
    list(promised));
}

function clear(within) {
  within.querySelector(".outcome").replaceChildren();
  within.querySelector(".elsewhere").replaceChildren();
  for (const field of within.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    at(`${field.id}-refusal`).textContent = "";
  }
}

/** How problems name a field of the table that is open: names that need quotes have them. */
const keysOf = ({ key }) => [target.name, JSON.stringify(target.name)].map((name) => `${kind.slice(0, -1)}.${name}.${key}`);

/** Shows a refusal: at the field that it is about where there is one, else below all of them. */
function showRefusal(within, error) {
  if (!(error instanceof Refused)) {
    const why = `The server does not answer (${error.message}). Changes that were made are in the list of changes.`;
    within.querySelector(".elsewhere").replaceChildren(why);
    return;
  }
  const { error: summary, problems = [] } = error.refusal;
  const changed = FIELDS.filter(isChanged);
  const elsewhere = problems.length > 0 ? [] : [summary];
  let first;
  for (const { key, message, help } of problems) {
    const own = within === dialog() && FIELDS.find((field) => keysOf(field).includes(key));
    const text = `${own || !key ? "" : `${key}: `}${message}${help ? `; ${help}` : ""}`;
    // What one change breaks elsewhere is said at that change, too.
    const field = own || (within === dialog() && changed.length === 1 && changed[0]);
    if (!field) {
      elsewhere.push(text);
      continue;
    }
    input(field.key).setAttribute("aria-invalid", "true");
    at(`field-${field.key}-refusal`).append(make("span", {}, text));
    first ??= input(field.key);
  }
  const lines = elsewhere.map((line) => make("span", {}, line));
  within.querySelector(".elsewhere").replaceChildren("Refused, nothing has changed. ", ...lines);
  first?.focus();
}

function setTried(tried) {
  isTried = tried;
  at("apply").disabled = !tried;
}

async function attempt() {
  clear(dialog());
  setTried(false);
  try {
    const words = changedWords();
    showOutcome(dialog(), await send("PATCH", path() + query(true), words, target.etag));
    if (Object.keys(words).length === 0) return;
    setTried(true);
    at("apply").focus();
  } catch (error) {
    await refused(error);
  }
}

async function apply() {
  if (!isTried) return;
  setTried(false);
  try {
    const outcome = await send("PATCH", path() + query(false), changedWords(), target.etag);
    clear(dialog());
    showOutcome(dialog(), outcome);
    target = await get(path());
    showFields();
    dialog().querySelector(".close").focus();
  } catch (error) {
    clear(dialog());
    await refused(error);
  }
}

async function refused(error) {
  showRefusal(dialog(), error);
  if (error.status === 412) {
    // Somebody else was faster. What was typed stays, all else is as it is now, and is tried again.
    const before = target.config;
    target = await get(path()).catch(() => target);
    showFields(({ key }) => input(key).value.trim() === written(before, key));
    at("try").focus();
  }
}

/** Why a volume is as it is, where the server can tell. */
async function explain() {
  at("explain").hidden = true;
  if (kind !== "volumes") return;
  const asked = target;
  const told = await get(`${path()}/explain`).catch(() => ({ said: [] }));
  if (target !== asked || !told.said?.length) return;
  at("said").replaceChildren(...told.said.map((sentence) => make("li", {}, sentence)));
  // On a small screen the contract comes first.
  at("explain").open = matchMedia("(min-width: 36rem)").matches;
  at("explain").hidden = false;
}

/** Opens the contract of a volume or tenant. `canSave`: the server has a file. */
export async function openContract(asked, name, canSave) {
  kind = asked;
  target = { name, config: {} };
  clear(dialog());
  setTried(false);
  at("contract-title").textContent = `${kind.slice(0, -1)} ${name}`;
  at("save-line").hidden = !canSave;
  dialog().showModal();
  try {
    target = await get(path());
  } catch (error) {
    showRefusal(dialog(), error);
    return;
  }
  showFields();
  input(FIELDS[0].key).focus();
  explain();
}

/** Makes the fields, once. */
export function prepare() {
  for (const { key, label, hint, choices, number } of FIELDS) {
    const id = `field-${key}`;
    const described = { id, "aria-describedby": `${id}-hint ${id}-refusal` };
    const field = choices
      ? make("select", described, ...choices.map((word) => make("option", { value: word }, word || "not stated: best-effort")))
      : make("input", { ...described, autocomplete: "off", spellcheck: "false", ...(number && { inputmode: "numeric" }) });
    field.addEventListener("input", () => setTried(false));
    at("fields").append(make("div", { class: "field" },
      make("label", { for: id }, label), field,
      make("span", { id: `${id}-hint`, class: "faint" }, hint),
      make("span", { id: `${id}-refusal`, class: "refusal", role: "alert" })));
  }
  at("contract-form").addEventListener("submit", (event) => {
    event.preventDefault();
    attempt();
  });
  at("save").addEventListener("input", () => setTried(false));
  at("apply").addEventListener("click", apply);
  at("undo-now").addEventListener("click", undo);
  for (const button of document.querySelectorAll("dialog .close")) {
    button.addEventListener("click", () => button.closest("dialog").close());
  }
}

/** The number of the change that is to be undone. */
let undone;

async function openUndo(number) {
  undone = number;
  clear(at("undo"));
  at("undo-title").textContent = `Undo change ${number}`;
  at("undo-now").disabled = true;
  at("undo").showModal();
  try {
    showOutcome(at("undo"), await send("POST", "/v1/undo?dry_run=true", { change: number }));
    at("undo-now").disabled = false;
    at("undo-now").focus();
  } catch (error) {
    showRefusal(at("undo"), error);
  }
}

async function undo() {
  at("undo-now").disabled = true;
  try {
    showOutcome(at("undo"), await send("POST", "/v1/undo", { change: undone }));
    at("undo").querySelector(".close").focus();
  } catch (error) {
    clear(at("undo"));
    showRefusal(at("undo"), error);
  }
}

/** Changes that are listed. */
const LISTED = 20;

/** Lists the last changes. */
export function drawChanges(changes) {
  at("no-changes").hidden = changes.length > 0;
  const undoneBy = new Map(changes.filter((c) => c.undoes).map((c) => [c.undoes, c.number]));
  const lines = changes.slice(0, LISTED).map((change) => {
    const notes = [`change ${change.number}`, clock(change.at_ms), `by ${change.by}`];
    if (!change.saved) notes.push("in memory only");
    if (change.undoes) notes.push(`undoes ${change.undoes}`);
    const by = undoneBy.get(change.number);
    if (by) notes.push(`undone by ${by}`);
    const item = make("li", {}, make("span", { class: "faint" }, notes.join(" · ")), ...change.lines.map((line) => make("p", {}, line)));
    if (!by) {
      const button = make("button", { type: "button" }, "Undo", make("span", { class: "unseen" }, ` change ${change.number}`));
      button.addEventListener("click", () => openUndo(change.number));
      item.append(button);
    }
    return item;
  });
  at("changes").replaceChildren(...lines);
}
