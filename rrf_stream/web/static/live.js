// @ts-check
/** The live region: says how a search ended, once, and only when the person does not type any more. */

/** Milliseconds without typing. */
const QUIET = 500;

export class Live {
  #region;
  #timer = 0;
  #typed = 0;

  /** @param {HTMLElement} region */
  constructor(region) {
    this.#region = region;
  }

  /** Take note that the person types: what was to be said is out of date. */
  typing() {
    this.#typed = performance.now();
    this.hush();
  }

  /** Say nothing, so that the same words can be said again later. */
  hush() {
    clearTimeout(this.#timer);
    this.#region.textContent = "";
  }

  /** @param {string} words */
  say(words) {
    clearTimeout(this.#timer);
    const wait = Math.max(this.#typed + QUIET - performance.now(), 0);
    this.#timer = setTimeout(() => (this.#region.textContent = words), wait);
  }
}
