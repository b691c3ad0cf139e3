// @ts-check
/** What the server tells of itself before anything is searched. */

/**
 * @typedef {object} ArmFacts
 * @property {string} name
 * @property {number} weight
 * @property {boolean} required
 */

/**
 * @typedef {object} Facts
 * @property {string} title What the page is called.
 * @property {string} note A sentence for those who search; empty for none.
 * @property {ArmFacts[]} arms
 * @property {number} usual The time of a search that asks for none, in milliseconds.
 * @property {number} most The longest time that may be asked for.
 * @property {number} longest Characters of a query at most.
 */

/** @type {Facts} What is assumed of a server that tells nothing. */
export const UNKNOWN = { title: "Search", note: "", arms: [], usual: 1000, most: 10_000, longest: 1000 };

/**
 * Ask the server. The page works without an answer: if there is no server, the first search says so.
 * @returns {Promise<Facts>}
 */
export async function learn() {
  try {
    const answer = await fetch("page.json", { cache: "no-store" });
    if (!answer.ok) return UNKNOWN;
    const { title, note, arms, timeout_ms, query_length } = await answer.json();
    return { title, note, arms, usual: timeout_ms.default, most: timeout_ms.most, longest: query_length };
  } catch {
    return UNKNOWN;
  }
}
