// @ts-check
/** What can be shown of a result, whatever the server's documents look like. Text only, never markup. */

const LONGEST_TITLE = 300;
const LONGEST_TEXT = 600;
const SHORT = 100;

/**
 * @typedef {object} Shown
 * @property {string} title Never empty.
 * @property {string} text
 * @property {string | null} url Only of a kind that is safe to follow.
 * @property {string} place Where it is: the address without its scheme, or the id.
 */

/**
 * Return what names a result: two ids are the same if this is.
 * @param {unknown} id
 */
export function keyOf(id) {
  return JSON.stringify(id);
}

/**
 * Return what to show of a hit.
 * @param {{id: unknown, item: unknown}} hit
 * @returns {Shown}
 */
export function shownOf({ id, item }) {
  const name = plain(id) || keyOf(id);
  if (typeof item !== "object" || item === null || Array.isArray(item)) {
    const text = plain(item);
    const isTitle = text !== "" && text.length <= SHORT;
    return finish(isTitle ? text : name, isTitle ? "" : text, null, name);
  }
  const of = /** @type {Record<string, unknown>} */ (item);
  const url = safe(of.url);
  const title = plain(of.title) || plain(of.name) || name;
  return finish(title, plain(of.text) || plain(of.snippet) || plain(of.body), url, url ? address(url) : name);
}

/**
 * @param {string} title
 * @param {string} text
 * @param {string | null} url
 * @param {string} place
 * @returns {Shown}
 */
function finish(title, text, url, place) {
  return {
    title: cut(title, LONGEST_TITLE),
    text: cut(text, LONGEST_TEXT),
    url,
    place: place === title ? "" : cut(place, SHORT),
  };
}

/** @param {unknown} value */
function plain(value) {
  if (typeof value === "string") return value.trim();
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? keyOf(value) : String(value);
}

/**
 * Cut a text that is too long, never inside a character.
 * @param {string} text
 * @param {number} most
 */
function cut(text, most) {
  return text.length <= most ? text : `${text.slice(0, most).replace(/[\ud800-\udbff]$/, "")}…`;
}

/**
 * Return an address if it leads to a web page; `javascript:` and the like do not.
 * @param {unknown} value
 * @returns {string | null}
 */
function safe(value) {
  if (typeof value !== "string" || !URL.canParse(value)) return null;
  const url = new URL(value);
  return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
}

/** @param {string} url */
function address(url) {
  const { host, pathname } = new URL(url);
  return pathname === "/" ? host : host + pathname;
}
