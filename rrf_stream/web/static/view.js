// @ts-check
/** What the list is to show of a snapshot: the hits, and of each whether it is final. */

import { listed } from "./words.js";

/**
 * @typedef {import("./words.js").Hit} Hit
 * @typedef {import("./words.js").Snapshot} Snapshot
 */

/** @typedef {"open" | "final" | "none"} Mark Whether a row may move; "none" if that is not known. */

/**
 * @typedef {object} View
 * @property {Hit[]} hits
 * @property {Mark[]} marks One a hit.
 * @property {string[]} without One a hit: the arms of which a final row lacks something; empty for none.
 */

/**
 * Return what the list is to show.
 * @param {Snapshot} snapshot
 * @returns {View}
 */
export function viewOf({ hits, final, settled, exact, coverage }) {
  const missing = coverage.arms.filter((arm) => !["exhausted", "window_full"].includes(arm.status));
  const names = final && coverage.degraded ? listed(missing.map((arm) => arm.name)) : "";
  const sure = final ? hits.length : (settled ?? 0);
  return {
    hits,
    marks: hits.map((_, place) => (place < sure ? "final" : settled === null ? "none" : "open")),
    without: hits.map((_, place) => (exact !== null && place >= exact ? names : "")),
  };
}
