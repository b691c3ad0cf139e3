// @ts-check
/** The strip of arms: what each is doing, how long it took and how much it brought. */

import { make, write } from "./dom.js";
import { duration, isOpen, stateOf } from "./words.js";

/**
 * @typedef {import("./facts.js").ArmFacts} ArmFacts
 * @typedef {import("./words.js").ArmReport} ArmReport
 */

/** Milliseconds between two looks at the clock while an arm is open. */
const TICK = 100;

/** How much of its budget an arm is shown to have used at least, so that it can be seen. */
const LEAST = 0.025;

export class ArmStrip {
  /** @type {Map<string, {cell: HTMLElement, state: HTMLElement, figures: HTMLElement, bar: HTMLElement}>} */
  #cells = new Map();
  /** @type {ArmReport[]} */
  #reports = [];
  #seen = 0;
  #budget = 1;
  #timer = 0;
  #list;

  /** @param {HTMLElement} list */
  constructor(list) {
    this.#list = list;
  }

  /** The names of the arms, in their order. */
  get names() {
    return [...this.#cells.keys()];
  }

  /**
   * Show arms that are asked nothing.
   * @param {ArmFacts[]} facts
   */
  rest(facts) {
    this.halt();
    this.#reports = [];
    const weighted = facts.some((arm) => arm.weight !== facts[0].weight);
    for (const { name, weight, required } of facts) {
      const figures = [weighted && `weight ${Number(weight.toPrecision(3))}`, required && "required"].filter(
        Boolean,
      );
      this.#write(name, "ready", "ready", figures.join(" · "), 0);
    }
  }

  /**
   * Show that the arms have just been asked.
   * @param {number} budget Seconds that the search may take.
   */
  begin(budget) {
    const asked = { status: "waiting", received: 0, elapsed: 0 };
    this.show(
      this.names.map((name) => ({ ...asked, name })),
      budget,
    );
  }

  /**
   * Show the state of the arms.
   * @param {ArmReport[]} reports
   * @param {number} budget Seconds that the search may take.
   */
  show(reports, budget) {
    this.halt();
    this.#reports = reports;
    this.#budget = budget;
    this.#seen = performance.now();
    this.#draw(0);
    const known = new Set(reports.map((arm) => arm.name));
    for (const name of this.names) if (!known.has(name)) this.#write(name, "ready", "not asked", "", 0);
    if (reports.some((arm) => isOpen(arm.status))) {
      this.#timer = setInterval(() => this.#draw((performance.now() - this.#seen) / 1000), TICK);
    }
  }

  /**
   * Stop the clock.
   * @param {string} [state] What to call the arms that are still open, as nothing more is heard of them.
   */
  halt(state) {
    clearInterval(this.#timer);
    if (state === undefined) return;
    for (const { name, status } of this.#reports) {
      const cell = this.#cells.get(name);
      if (!cell || !isOpen(status)) continue;
      cell.cell.dataset.state = "lost";
      write(cell.state, state);
    }
  }

  /** @param {number} since Seconds since the reports came. */
  #draw(since) {
    for (const { name, status, elapsed, received } of this.#reports) {
      const time =
        elapsed === null ? null : Math.min(elapsed + (isOpen(status) ? since : 0), this.#budget * 1.5);
      const hits = received === 1 ? "1 hit" : `${received} hits`;
      const figures = time === null ? hits : `${duration(time)} · ${hits}`;
      this.#write(
        name,
        stateOf(status).replace(" ", "-"),
        stateOf(status),
        figures,
        (time ?? 0) / this.#budget,
      );
    }
  }

  /**
   * @param {string} name
   * @param {string} state For the style sheet.
   * @param {string} words
   * @param {string} figures
   * @param {number} share Of the budget.
   */
  #write(name, state, words, figures, share) {
    const cell = this.#cells.get(name) ?? this.#make(name);
    cell.cell.dataset.state = state;
    write(cell.state, words);
    write(cell.figures, figures);
    cell.bar.style.transform = `scaleX(${share > 0 ? Math.min(Math.max(share, LEAST), 1) : 0})`;
  }

  /** @param {string} name */
  #make(name) {
    const cell = make("li", "arm");
    const title = make("span", "arm-name", name);
    title.dir = "auto";
    title.title = name;
    const parts = {
      cell,
      state: make("span", "arm-state"),
      figures: make("span", "arm-figures"),
      bar: make("span", "arm-bar"),
    };
    const track = make("span", "arm-track");
    track.setAttribute("aria-hidden", "true");
    track.append(parts.bar);
    cell.append(title, parts.state, parts.figures, track);
    this.#list.append(cell);
    this.#cells.set(name, parts);
    return parts;
  }
}
