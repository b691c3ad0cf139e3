// @ts-check
/** What the page says where a search ended with a problem: data in, words out, and nothing else. */

import { duration } from "./words.js";

/** @typedef {import("./words.js").Line} Line */

/**
 * @typedef {object} Problem An RFC 9457 problem, or `type: "lost"` for a connection that broke.
 * @property {string} type
 * @property {string} title
 * @property {number} status
 * @property {string} [detail]
 * @property {string} [parameter]
 * @property {number | null} [retry_after] Seconds.
 */

/**
 * Return what is to be said when a search ended with a problem.
 * @param {Problem} problem
 * @param {number} shown How many results are on the screen, and stay.
 * @returns {Line}
 */
export function lineOfProblem(problem, shown) {
  const [words, more] = problemWords(problem);
  const stays = shown ? "what is shown stays as it was" : "";
  return { kind: "problem", words, detail: [more, stays].filter(Boolean).join("; ") };
}

/**
 * @param {Problem} problem
 * @returns {[string, string]}
 */
function problemWords({ type, title, status, detail = "", retry_after }) {
  const wait =
    typeof retry_after === "number" ? `try again in ${duration(Math.max(retry_after, 1))}` : "try again soon";
  if (type === "lost") return ["the connection was lost", "nothing is searched again by itself"];
  if (status === 204) return ["this search was answered before", "it is not repeated by itself"];
  if (status === 400 || status === 422) return ["the server did not understand this search", detail || title];
  if (status === 401 || status === 403) return ["the server does not let you search here", detail || title];
  if (status === 404) return ["there is no search at this address", detail || title];
  if (status === 429) return [`too many searches at once, ${wait}`, detail];
  if (status === 503) return [`the server is busy, ${wait}`, detail];
  return ["the search failed", detail || title || (status ? `status ${status}` : "")];
}
