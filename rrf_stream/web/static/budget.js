// @ts-check
/** The time budget: a slider whose steps grow with the time, so that each feels like the one before. */

import { duration } from "./words.js";

const LEAST = 50;
const ROUND = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8];

/**
 * Return the times that the slider offers, in milliseconds.
 * @param {number} most What the server allows.
 * @param {number[]} others Times that are to be among them.
 */
export function steps(most, others) {
  const all = new Set(others.map((ms) => Math.min(Math.max(Math.round(ms), 1), most)));
  for (let power = 10; power <= most; power *= 10) {
    for (const one of ROUND)
      if (one * power >= LEAST && one * power <= most) all.add(Math.round(one * power));
  }
  all.add(most);
  return [...all].sort((a, b) => a - b);
}

export class Budget {
  #slider;
  #shown;
  /** @type {number[]} */
  #steps = [];
  #most = 10_000;

  /**
   * @param {HTMLInputElement} slider
   * @param {HTMLElement} shown
   * @param {() => void} changed Called when the person chose another time.
   */
  constructor(slider, shown, changed) {
    this.#slider = slider;
    this.#shown = shown;
    slider.addEventListener("input", () => {
      this.#tell();
      changed();
    });
  }

  /** The time chosen, in milliseconds. */
  get ms() {
    return this.#steps[Number(this.#slider.value)];
  }

  /**
   * @param {number} ms Chosen by the address, not by the person: nothing is told.
   */
  set ms(ms) {
    this.offer(this.#most, ms);
  }

  /**
   * Offer times up to what the server allows, and choose one of them.
   * @param {number} most
   * @param {number} chosen
   */
  offer(most, chosen) {
    this.#most = most;
    this.#steps = steps(most, [chosen]);
    this.#slider.max = String(this.#steps.length - 1);
    const place = this.#steps.findIndex((ms) => ms >= Math.min(chosen, most));
    this.#slider.value = String(place);
    this.#tell();
  }

  #tell() {
    const words = duration(this.ms / 1000);
    this.#shown.textContent = words;
    this.#slider.setAttribute("aria-valuetext", words);
    this.#slider.style.setProperty(
      "--share",
      `${Number(this.#slider.value) / Math.max(Number(this.#slider.max), 1)}`,
    );
  }
}
