// @ts-check
/**
 * The address of the page, and the way back.
 *
 * Back leads to what a person looked at, not to what was typed on the way there. The first change of a
 * search that was kept makes a new entry, and further typing replaces that one. A search is kept when it
 * was submitted, when it ended and was left standing for a moment, or when one of its results was used.
 */

/**
 * @typedef {object} Place
 * @property {string} q
 * @property {number | null} timeoutMs Null if the address has none that can be used.
 */

/** What the page hands on to the server as it is. */
const HANDED_ON = ["top_k", "arms"];

export class Trail {
  #kept = true;
  #search = location.search;

  /** @param {(place: Place) => void} moved Called when the person went back or forward to another search. */
  constructor(moved) {
    window.addEventListener("popstate", () => {
      if (location.search === this.#search) return; // a place on the page, such as the results
      this.#search = location.search;
      this.#kept = true;
      moved(this.place);
    });
  }

  /**
   * What the address says.
   * @returns {Place}
   */
  get place() {
    const given = new URLSearchParams(location.search);
    const timeoutMs = Number(given.get("timeout_ms"));
    return {
      q: given.get("q") ?? "",
      timeoutMs: Number.isInteger(timeoutMs) && timeoutMs > 0 ? timeoutMs : null,
    };
  }

  /**
   * Write a search into the address.
   * @param {string} q
   * @param {number} timeoutMs
   */
  go(q, timeoutMs) {
    const address = addressOf(q, timeoutMs);
    if (address === location.pathname + location.search) return;
    if (this.#kept) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
    this.#kept = false;
    this.#search = location.search;
  }

  /**
   * Write out what the present address means, such as a time that it leaves to the server.
   * @param {string} q
   * @param {number} timeoutMs
   */
  correct(q, timeoutMs) {
    history.replaceState(null, "", addressOf(q, timeoutMs));
    this.#search = location.search;
  }

  /** Keep the present search: Back will lead to it. */
  keep() {
    this.#kept = true;
  }
}

/**
 * @param {string} q
 * @param {number} timeoutMs
 */
function addressOf(q, timeoutMs) {
  return location.pathname + (q ? `?${parameters(q, timeoutMs)}` : "");
}

/**
 * Return what to ask the server for, as the query of an address.
 * @param {string} q
 * @param {number} timeoutMs
 */
export function parameters(q, timeoutMs) {
  const given = new URLSearchParams(location.search);
  const all = new URLSearchParams({ q, timeout_ms: String(timeoutMs) });
  for (const name of HANDED_ON) {
    const value = given.get(name);
    if (value !== null) all.set(name, value);
  }
  return all.toString();
}
