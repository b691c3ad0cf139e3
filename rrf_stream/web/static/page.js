// @ts-check
/** The page: what is typed becomes a search, and what comes of it is shown. */

import { ArmStrip } from "./arms.js";
import { Budget } from "./budget.js";
import { element, write } from "./dom.js";
import { learn, UNKNOWN } from "./facts.js";
import { Hold } from "./hold.js";
import { listenToKeys } from "./keys.js";
import { ResultList } from "./list.js";
import { Live } from "./live.js";
import { lineOfProblem } from "./problems.js";
import { Search } from "./search.js";
import { parameters, Trail } from "./trail.js";
import { viewOf } from "./view.js";
import { lineAtTheStart, lineOf, lineWhenStopped, nameOf, spoken } from "./words.js";

/**
 * @typedef {import("./words.js").Snapshot} Snapshot
 * @typedef {import("./words.js").Line} Line
 * @typedef {import("./view.js").View} View
 */

/** Milliseconds without typing after which a search starts, and after which one that ended is kept. */
const PAUSE = 130;
const STANDING = 1000;

const field = element("q", HTMLInputElement);
const stopButton = element("stop", HTMLButtonElement);
const updateButton = element("update", HTMLButtonElement);
const againButton = element("again", HTMLButtonElement);
const line = element("line", HTMLElement);
const wordsShown = element("words", HTMLElement);
const detailShown = element("detail", HTMLElement);
const rows = element("results", HTMLElement);

const live = new Live(element("live", HTMLElement));
const arms = new ArmStrip(element("arms", HTMLElement));
const list = new ResultList(rows);
const budget = new Budget(element("budget", HTMLInputElement), element("budget-shown", HTMLElement), later);
const trail = new Trail(visit);
const hold = new Hold(rows, updateButton, apply);
const search = new Search({
  snapshot(snapshot) {
    newest = snapshot;
    frame ||= requestAnimationFrame(paint);
  },
  done() {
    paint();
    finish(newest ? lineOf(newest) : told);
    standing = setTimeout(() => trail.keep(), Math.max(typed + STANDING - performance.now(), 0));
  },
  problem(problem) {
    paint();
    if (newest) arms.halt("unknown");
    else arms.rest(server.arms);
    finish(newest?.outcome === "failed" ? lineOf(newest) : lineOfProblem(problem, list.size));
    offer(againButton, true);
  },
});

let server = UNKNOWN;
/** What was asked last, and when the person typed last. */
let asked = { q: "", ms: 0 };
let typed = 0;
/** The newest state of the search that runs or ran, and the frame that is to show it. */
let newest = /** @type {Snapshot | null} */ (null);
let frame = 0;
/** What waits behind the button. */
let waiting = /** @type {View | null} */ (null);
/** What the rows of the search before are called. */
let former = "";
/** What the line says, apart from whose the rows are. */
let told = /** @type {Line} */ ({ kind: "idle", words: "", detail: "" });
let pause = 0;
let standing = 0;

// --- the search ----------------------------------------------------------------------------------

/** Search for what the field says, unless that is being searched for. */
function begin() {
  clearTimeout(pause);
  if (!budget.ms) return; // the page is not ready, and will begin when it is
  const q = field.value.trim();
  if (!q) return empty();
  if (search.running && q === asked.q && budget.ms === asked.ms) return;
  forget();
  if (list.size && !list.former) former = nameOf(asked, { q, ms: budget.ms });
  asked = { q, ms: budget.ms };
  list.age(former);
  arms.begin(asked.ms / 1000);
  trail.go(q, asked.ms);
  entitle();
  tell(lineAtTheStart(arms.names));
  search.start(`search/stream?${parameters(q, asked.ms)}`);
  buttons();
}

/** Start after a moment, so that not every letter is a search of its own. */
function later() {
  clearTimeout(pause);
  pause = setTimeout(begin, PAUSE);
}

/** Show no search at all. */
function empty() {
  forget();
  search.stop();
  asked = { q: "", ms: 0 };
  list.clear();
  arms.rest(server.arms);
  trail.go("", 0);
  entitle();
  tell({ kind: "idle", words: "type to search", detail: "results come as they are found, and settle" });
  buttons();
}

/** Let go of what is known of the search so far; what is on the screen stays. */
function forget() {
  clearTimeout(pause);
  clearTimeout(standing);
  cancelAnimationFrame(frame);
  frame = 0;
  newest = null;
  waiting = null;
  hold.reset();
  live.hush();
  offer(againButton, false);
  offer(updateButton, false);
}

/** Stop the search that runs, and keep what has arrived. */
function stop() {
  search.stop();
  paint();
  arms.halt("stopped");
  finish(lineWhenStopped(newest));
  offer(againButton, true);
}

/** @param {Line} words */
function finish(words) {
  tell(words);
  live.say(spoken(words, asked.q) + (waiting ? " The list waits for you to update it." : ""));
  buttons();
}

// --- what is shown -------------------------------------------------------------------------------

/** Show the newest state. */
function paint() {
  cancelAnimationFrame(frame);
  frame = 0;
  if (!newest) return;
  arms.show(newest.coverage.arms, asked.ms / 1000);
  const isAnswer = newest.final && newest.outcome !== "failed"; // even if it is that there is nothing
  if (newest.hits.length || isAnswer) arrange(viewOf(newest));
  tell(lineOf(newest));
}

/**
 * Give the list another view, or let that wait if a person points at it.
 * @param {View} view
 */
function arrange(view) {
  const changes = list.size ? list.changes(view) : 0;
  waiting = hold.held && (changes || !list.former) && list.size ? view : null;
  if (!waiting) list.show(view);
  else if (!changes) list.sign(view);
  offer(updateButton, waiting !== null && changes > 0);
  updateButton.title = changes === 1 ? "1 row would change" : `${changes} rows would change`;
}

/** Show what waited. */
function apply() {
  const view = waiting;
  waiting = null; // before the rows move, as that may take the focus from the list, and lead here again
  if (view) list.show(view);
  offer(updateButton, false);
  tell(told);
}

/**
 * Say a line, and whose the rows are if they are not of this search.
 * @param {Line} next
 */
function tell(next) {
  told = next;
  const top = rows.getBoundingClientRect().top;
  line.style.minHeight = hold.held ? `${line.offsetHeight}px` : "";
  line.dataset.kind = next.kind;
  write(wordsShown, next.words);
  write(detailShown, [next.detail, list.former ? `below: ${former}` : ""].filter(Boolean).join("; "));
  if (hold.held) window.scrollBy(0, rows.getBoundingClientRect().top - top); // the list stays where it is
}

/** Say what the button in the field does now. */
function buttons() {
  stopButton.textContent = search.running ? "Stop" : "Clear";
  offer(stopButton, search.running || field.value !== "");
}

/**
 * Show or hide a button; the focus does not get lost with it.
 * @param {HTMLButtonElement} button
 * @param {boolean} shown
 */
function offer(button, shown) {
  if (!shown && document.activeElement === button) {
    if (button !== updateButton || !list.step(1)) field.focus();
  }
  button.hidden = !shown;
}

const entitle = () => (document.title = asked.q ? `${asked.q} · ${server.title}` : server.title);

// --- what a person does --------------------------------------------------------------------------

field.addEventListener("input", (event) => {
  if (event instanceof InputEvent && event.isComposing) return;
  retyped();
});
field.addEventListener("compositionend", retyped);

function retyped() {
  if (!budget.ms) return;
  typed = performance.now();
  live.typing();
  const q = field.value.trim();
  if (q !== asked.q) search.stop(); // nobody waits for it any more
  buttons();
  if (!q) empty();
  else if (q === asked.q && (search.running || told.kind === "final"))
    clearTimeout(pause); // a blank, or undone
  else later();
}

element("form", HTMLFormElement).addEventListener("submit", (event) => {
  event.preventDefault();
  if (!field.value.trim()) return;
  const same = field.value.trim() === asked.q && budget.ms === asked.ms;
  if (!same || told.kind !== "final") begin();
  trail.keep();
  if (matchMedia("(pointer: coarse)").matches) field.blur(); // the keys of a phone lie over the results
});

stopButton.addEventListener("click", stopOrClear);
againButton.addEventListener("click", () => {
  begin();
  trail.keep();
});
updateButton.addEventListener("click", () => {
  hold.reset();
  apply();
});
for (const one of [updateButton, againButton]) {
  one.addEventListener("mousedown", (event) => event.preventDefault()); // leave the focus where it is
}
for (const kind of ["pointerdown", "focusin"]) rows.addEventListener(kind, () => trail.keep());

function stopOrClear() {
  if (search.running) return stop();
  field.value = "";
  empty();
  field.focus();
}

listenToKeys({ field, rows, list, stopOrClear, isSearching: () => search.running, update: apply });

/**
 * Go where the address leads, without writing it again.
 * @param {import("./trail.js").Place} place
 */
function visit({ q, timeoutMs }) {
  field.value = q;
  budget.ms = timeoutMs ?? server.usual;
  search.stop();
  trail.correct(q.trim(), budget.ms);
  begin();
}

// --- the beginning -------------------------------------------------------------------------------

server = await learn();
field.maxLength = server.longest;
const place = trail.place;
element("title", HTMLElement).textContent = server.title;
element("note", HTMLElement).textContent = server.note;
element("note", HTMLElement).hidden = !server.note;
arms.rest(server.arms);
budget.offer(server.most, place.timeoutMs ?? server.usual);
if (!field.value) field.value = place.q; // what was typed before the page was ready counts
trail.correct(place.q.trim(), budget.ms);
if (field.value) begin();
else {
  empty();
  field.focus();
}
