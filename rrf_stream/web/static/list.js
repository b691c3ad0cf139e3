// @ts-check
/** The list of results: rows that keep their identity, and glide to where they belong. */

import { keyOf } from "./items.js";
import { Row } from "./row.js";

/** @typedef {import("./view.js").View} View */

const GLIDE = { duration: 320, easing: "cubic-bezier(.2, .8, .2, 1)" };
const APPEAR = { duration: 240, easing: "ease-out" };
const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class ResultList {
  /** @type {Map<string, Row>} */
  #rows = new Map();
  #list;

  /** @param {HTMLElement} list */
  constructor(list) {
    this.#list = list;
  }

  /** How many rows there are. */
  get size() {
    return this.#rows.size;
  }

  /** Whether the rows are those of an earlier search. */
  get former() {
    return this.#list.hasAttribute("data-former");
  }

  /**
   * Say that the rows are those of an earlier search.
   * @param {string} words How to call them.
   */
  age(words) {
    if (!this.size) return;
    this.#list.setAttribute("data-former", "");
    this.#list.setAttribute("aria-label", words);
  }

  /**
   * Return how many rows would come, go or change their place.
   * @param {View} view
   */
  changes({ hits }) {
    const before = [...this.#rows.keys()];
    const after = hits.map((hit) => keyOf(hit.id));
    const gone = before.filter((key) => !after.includes(key)).length;
    return gone + after.filter((key, place) => before[place] !== key).length;
  }

  /**
   * Say which rows are final, where all are in their place already.
   * @param {View} view
   */
  sign({ hits, marks }) {
    hits.forEach((hit, place) => this.#rows.get(keyOf(hit.id))?.sign(marks[place]));
  }

  /**
   * Show other hits. Rows that stay glide to their new place, and keep the focus.
   * @param {View} view
   */
  show({ hits, marks, without }) {
    const focused = [...this.#rows.values()].find((row) => row.element.contains(document.activeElement));
    const before = new Map(
      [...this.#rows].map(([key, row]) => [key, row.element.getBoundingClientRect().top]),
    );
    /** @type {Map<string, Row>} */
    const rows = new Map();
    hits.forEach((hit, place) => {
      const key = keyOf(hit.id);
      const row = this.#rows.get(key) ?? new Row(key);
      row.show(hit, marks[place], without[place]);
      rows.set(key, row);
    });
    for (const [key, row] of this.#rows) if (!rows.has(key)) row.element.remove();
    [...rows.values()].forEach(({ element }, place) => {
      const there = this.#list.children[place] ?? null;
      if (there !== element) this.#list.insertBefore(element, there);
    });
    this.#rows = rows;
    this.#list.removeAttribute("data-former");
    this.#list.removeAttribute("aria-label");
    if (!calm.matches) this.#glide(before);
    if (focused) (rows.get(focused.key) ?? this.#at(0))?.target.focus({ preventScroll: true });
  }

  /** Show nothing. */
  clear() {
    this.show({ hits: [], marks: [], without: [] });
  }

  /**
   * Move the focus between the rows.
   * @param {number} step How far; from outside of the list, 1 is the first row.
   * @returns {boolean} False if there is no row there.
   */
  step(step) {
    const rows = [...this.#rows.values()];
    const now = rows.findIndex((row) => row.element.contains(document.activeElement));
    const next = this.#at(now + step);
    next?.target.focus();
    return next !== undefined;
  }

  /**
   * Move the focus to the first or the last row.
   * @param {"first" | "last"} which
   */
  jump(which) {
    this.#at(which === "first" ? 0 : this.size - 1)?.target.focus();
  }

  /** @param {number} place */
  #at(place) {
    return [...this.#rows.values()][place];
  }

  /** @param {Map<string, number>} before Where rows were, by key, as they were seen. */
  #glide(before) {
    for (const { element } of this.#rows.values()) {
      for (const one of element.getAnimations()) if (!(one instanceof CSSTransition)) one.cancel();
    }
    // Measured together, so that the browser lays out once.
    const moves = [...this.#rows].map(([key, { element }]) => {
      const from = before.get(key);
      return { element, by: from === undefined ? null : from - element.getBoundingClientRect().top };
    });
    for (const { element, by } of moves) {
      if (by === null) element.animate([{ opacity: 0, transform: "translateY(6px)" }, {}], APPEAR);
      else if (Math.abs(by) >= 1) element.animate([{ transform: `translateY(${by}px)` }, {}], GLIDE);
    }
  }
}
