// @ts-check
/** One row of the list: made once for a document, then told what changed. */

import { make, write } from "./dom.js";
import { shownOf } from "./items.js";

/**
 * @typedef {import("./words.js").Hit} Hit
 * @typedef {import("./view.js").Mark} Mark
 */

export class Row {
  /** @param {string} key */
  constructor(key) {
    this.key = key;
    this.element = make("li", "row");
    this.element.tabIndex = -1;
    this.rank = make("span", "rank");
    this.rank.setAttribute("aria-hidden", "true"); // the list counts by itself
    const body = make("div", "body");
    this.title = make("h3", "title");
    this.text = make("p", "text");
    const meta = make("div", "meta");
    this.mark = make("span", "mark");
    this.ranks = make("ul", "ranks");
    this.ranks.setAttribute("aria-label", "ranked by");
    this.ranks.setAttribute("role", "list"); // which some browsers take from a list without bullets
    this.place = make("span", "place");
    for (const one of [this.title, this.text, this.place]) one.dir = "auto";
    meta.append(this.ranks, this.place, this.mark);
    body.append(this.title, this.text, meta);
    this.element.append(this.rank, body);
    this.item = "";
  }

  /** What takes the focus: the link, or the row where there is none. */
  get target() {
    return this.title.querySelector("a") ?? this.element;
  }

  /**
   * Show a hit.
   * @param {Hit} hit
   * @param {Mark} mark
   * @param {string} without The arms of which a final row lacks something; empty for none.
   */
  show(hit, mark, without) {
    const item = JSON.stringify(hit.item);
    if (item !== this.item) {
      this.item = item;
      this.#fill(hit);
    }
    write(this.rank, String(hit.rank));
    const ranks = Object.entries(hit.ranks).map(([arm, rank]) => `${arm} #${rank}`);
    if (ranks.join("\n") !== this.ranks.dataset.shown) {
      this.ranks.dataset.shown = ranks.join("\n");
      this.ranks.replaceChildren(...ranks.map((text) => make("li", "", text)));
    }
    this.sign(mark, without);
  }

  /**
   * Say whether the row is final; this moves nothing.
   * @param {Mark} mark
   * @param {string} [without]
   */
  sign(mark, without = "") {
    this.element.dataset.mark = mark;
    this.element.toggleAttribute("data-without", without !== "");
    const words = {
      open: "may move",
      final: without ? `might differ with all of ${without}` : "final",
      none: "",
    };
    write(this.mark, words[mark]);
  }

  /** @param {Hit} hit */
  #fill(hit) {
    const { title, text, url, place } = shownOf(hit);
    if (url) {
      const link = make("a", "", title);
      link.href = url;
      link.rel = "noopener noreferrer nofollow";
      this.title.replaceChildren(link);
    } else {
      this.title.textContent = title;
    }
    this.text.textContent = text;
    this.text.hidden = text === "";
    this.place.textContent = place;
    this.place.hidden = place === "";
  }
}
