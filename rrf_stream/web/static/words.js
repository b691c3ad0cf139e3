// @ts-check
/** What the page says of a search: data in, words out, and nothing else. */

/**
 * @typedef {object} ArmReport
 * @property {string} name
 * @property {string} status
 * @property {number} received
 * @property {number | null} elapsed
 * @property {string | null} [error]
 * @property {number | null} [retry_after]
 */

/**
 * @typedef {object} Hit
 * @property {unknown} id
 * @property {number} rank
 * @property {unknown} item
 * @property {Record<string, number>} ranks
 */

/**
 * @typedef {object} Snapshot
 * @property {Hit[]} hits
 * @property {number | null} elapsed
 * @property {boolean} final
 * @property {string | null} outcome
 * @property {{degraded: boolean, arms: ArmReport[]}} coverage
 * @property {number | null} settled
 * @property {number | null} exact
 * @property {string[] | null} blocking_arms
 */

/**
 * @typedef {object} Line
 * @property {"idle" | "live" | "final" | "short" | "problem"} kind
 * @property {string} words What matters.
 * @property {string} detail What may be read, too.
 */

const OPEN = new Set(["waiting", "streaming"]);
const NOT_NEEDED = new Set(["stopped", "cancelled"]);

/** @type {Record<string, string>} */
const STATES = {
  waiting: "waiting",
  streaming: "streaming",
  exhausted: "done",
  window_full: "done",
  timed_out: "late",
  idle: "late",
  deadline: "late",
  failed: "failed",
  rejected: "not asked",
  skipped: "left out",
  stopped: "stopped",
  cancelled: "stopped",
};

/**
 * Return the state of an arm in one or two words.
 * @param {string} status
 */
export function stateOf(status) {
  return STATES[status] ?? status;
}

/**
 * Return whether more may come from an arm.
 * @param {string} status
 */
export function isOpen(status) {
  return OPEN.has(status);
}

/**
 * Return a time in the unit, and as exact, as people would say it.
 * @param {number} seconds
 */
export function duration(seconds) {
  const exact = Math.round(seconds * 1000);
  const ms = exact < 100 ? exact : Math.round(exact / 10) * 10;
  if (ms < 1) return "under 1 ms";
  if (ms < 1000) return `${ms} ms`;
  return `${Number(seconds.toFixed(seconds < 10 ? 1 : 0))} s`;
}

/**
 * Return names as a person lists them.
 * @param {string[]} names
 */
export function listed(names) {
  const shown = names.length > 4 ? [...names.slice(0, 3), `${names.length - 3} more`] : names;
  return shown.length < 2 ? shown.join("") : `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}

/**
 * Return how many results there are.
 * @param {number} count
 */
export function results(count) {
  return count === 1 ? "1 result" : `${count} results`;
}

/**
 * Return what is to be said of a state of a search.
 * @param {Snapshot} snapshot
 * @returns {Line}
 */
export function lineOf(snapshot) {
  return snapshot.final ? lineAtTheEnd(snapshot) : lineOnTheWay(snapshot);
}

/**
 * Return what is to be said of a search that has just begun.
 * @param {string[]} arms Names; none if they are not known.
 * @returns {Line}
 */
export function lineAtTheStart(arms) {
  return { kind: "live", words: arms.length ? `waiting for ${listed(arms)}` : "searching", detail: "" };
}

/**
 * Return what is to be said of a search that the person stopped.
 * @param {Snapshot | null} last What had arrived.
 * @returns {Line}
 */
export function lineWhenStopped(last) {
  const count = last?.hits.length ?? 0;
  const words = count
    ? `stopped, ${progress(count, last?.settled ?? null)}`
    : "stopped before anything arrived";
  return { kind: "short", words, detail: count ? "the rest was still open" : "" };
}

/**
 * Return what to call the results of a search, once there is another.
 * @param {{q: string, ms: number}} before
 * @param {{q: string, ms: number}} now
 */
export function nameOf(before, now) {
  if (before.q !== now.q) return `the results for “${before.q}”`;
  return before.ms === now.ms ? "the results of before" : `the results within ${duration(before.ms / 1000)}`;
}

/**
 * @param {Snapshot} snapshot
 * @returns {Line}
 */
function lineOnTheWay({ hits, settled, blocking_arms, coverage }) {
  const open = coverage.arms.filter((arm) => OPEN.has(arm.status)).map((arm) => arm.name);
  const awaited = blocking_arms?.length ? blocking_arms : open;
  const wait = awaited.length ? `waiting for ${listed(awaited)}` : "about to end";
  const begun = hits.length ? `${progress(hits.length, settled)}, ${wait}` : wait;
  const words = [begun, ...missed(coverage.arms)].join("; ");
  return {
    kind: "live",
    words,
    detail: hits.length && settled !== null ? `${results(hits.length)} so far` : "",
  };
}

/**
 * @param {number} count
 * @param {number | null} settled
 */
function progress(count, settled) {
  if (settled === null) return `${count} so far`;
  if (settled === 0) return count === 1 ? "the only one is not final yet" : `none of ${count} is final yet`;
  if (settled >= count) return count === 1 ? "the only one is final" : `all ${count} are final`;
  return `${settled} of ${count} ${settled === 1 ? "is" : "are"} final`;
}

/**
 * @param {Snapshot} snapshot
 * @returns {Line}
 */
function lineAtTheEnd({ hits, exact, outcome, coverage, elapsed }) {
  const time = elapsed === null ? "" : ` in ${duration(elapsed)}`;
  const detail = `${results(hits.length)}${time}`;
  const short = missed(coverage.arms);
  const spared = coverage.arms.filter((arm) => NOT_NEEDED.has(arm.status)).map((arm) => arm.name);
  if (outcome === "failed") {
    const words = `${short.join("; ") || "a part failed"}, and there is no full answer without it`;
    return { kind: "problem", words, detail: hits.length ? `${results(hits.length)} had arrived` : "" };
  }
  if (outcome === "stopped") short.push("the search was stopped before its end");
  if (outcome === "quorum" && spared.length) short.push(`${listed(spared)} ${was(spared)} not waited for`);
  if (!hits.length) {
    const kind = short.length ? "short" : "final";
    return { kind, words: ["nothing found", ...short].join("; "), detail: time.trim() };
  }
  if (short.length)
    return { kind: "short", words: `${short.join("; ")}: ${certain(hits.length, exact)}`, detail };
  const free =
    outcome === "settled" && spared.length ? `, ${listed(spared)} ${was(spared)} not needed any more` : "";
  return { kind: "final", words: `final${free}`, detail };
}

/**
 * @param {number} count
 * @param {number | null} exact
 */
function certain(count, exact) {
  if (exact === null) return count === 1 ? "this one is final" : `these ${count} are final`;
  if (exact === 0) return count === 1 ? "this one might have been another" : "these might have been others";
  if (exact < count) return `${exact} of these would be the same anyway`;
  return count === 1 ? "this one would be the same anyway" : `all ${count} would be the same anyway`;
}

/**
 * Return what befell the arms that did not deliver all, those of one fate together.
 * @param {ArmReport[]} arms
 * @returns {string[]}
 */
function missed(arms) {
  /** @type {Map<string, ArmReport[]>} */
  const fates = new Map();
  for (const arm of arms) {
    const fate = fateOf(arm);
    if (fate) fates.set(fate, [...(fates.get(fate) ?? []), arm]);
  }
  return [...fates].map(([fate, those]) => {
    const names = those.map((arm) => arm.name);
    return `${listed(names)} ${names.length > 1 ? fate.replace(/^was /, "were ") : fate}`;
  });
}

/**
 * @param {ArmReport} arm
 * @returns {string} Empty if there is nothing to tell.
 */
function fateOf({ status, elapsed, error, retry_after }) {
  const after = elapsed === null ? "" : ` after ${duration(elapsed)}`;
  switch (status) {
    case "deadline":
    case "timed_out":
      return `was cut off${after}`;
    case "idle":
      return `went silent and was cut off${after}`;
    case "failed":
      return error ? `failed (${error})` : "failed";
    case "rejected":
      return "was not asked, as there was no room";
    case "skipped":
      return typeof retry_after === "number" && retry_after > 0
        ? `was left out, to be tried again in ${duration(retry_after)}`
        : "was left out";
    default:
      return "";
  }
}

/** @param {string[]} names */
function was(names) {
  return names.length > 1 ? "were" : "was";
}

/**
 * Return what is read out when a search has ended: the end, and nothing of the way there.
 * @param {Line} line
 * @param {string} query
 */
export function spoken({ words, detail }, query) {
  return `“${query}”: ${[words, detail].filter(Boolean).join(". ")}.`;
}
