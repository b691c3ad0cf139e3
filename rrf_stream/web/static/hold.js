// @ts-check
/**
 * Knows whether a person points at the list, so that nothing moves under the pointer or the focus.
 *
 * A pointer that merely rests where the list appears does not point: it has to be moved. Typing, and
 * whatever else starts a search, lets go until the pointer or the focus comes to the list again.
 */

/** Milliseconds from leaving the list until it may change: enough to get to the button. */
const LEAVING = 350;

export class Hold {
  #pointing = false;
  #focused = false;
  #at = "";
  #timer = 0;
  #released;

  /**
   * @param {HTMLElement} list
   * @param {HTMLElement} button On it, changes wait too: it is on the way.
   * @param {() => void} released Called when changes need not wait any more.
   */
  constructor(list, button, released) {
    this.#released = released;
    document.addEventListener("pointermove", (event) => this.#moved(event, list), { passive: true });
    for (const kind of ["wheel", "touchstart"])
      list.addEventListener(kind, () => this.#point(), { passive: true });
    for (const kind of ["touchend", "touchcancel"]) list.addEventListener(kind, () => this.#leave());
    for (const one of [list, button]) one.addEventListener("pointerleave", () => this.#leave());
    button.addEventListener("pointerenter", () => clearTimeout(this.#timer));
    list.addEventListener("focusin", () => (this.#focused = true));
    list.addEventListener("keydown", () => (this.#focused = list.contains(document.activeElement)));
    for (const one of [list, button]) {
      one.addEventListener("focusout", (event) => {
        const to = /** @type {Node | null} */ (event.relatedTarget);
        if (to !== null && (list.contains(to) || button.contains(to))) return;
        this.#focused = false;
        this.#tell();
      });
    }
  }

  /** Whether changes have to wait. */
  get held() {
    return this.#pointing || this.#focused;
  }

  /** Let go: the person asked for something new. Tells nobody. */
  reset() {
    clearTimeout(this.#timer);
    this.#pointing = false;
    this.#focused = false;
  }

  /**
   * @param {PointerEvent} event
   * @param {HTMLElement} list
   */
  #moved(event, list) {
    const at = `${event.screenX} ${event.screenY}`;
    const moved = this.#at !== "" && at !== this.#at; // browsers also send events when the page moves
    this.#at = at;
    if (moved && event.pointerType !== "touch" && list.contains(/** @type {Node} */ (event.target)))
      this.#point();
  }

  #point() {
    clearTimeout(this.#timer);
    this.#pointing = true;
  }

  #leave() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#pointing = false;
      this.#tell();
    }, LEAVING);
  }

  #tell() {
    if (!this.held) this.#released();
  }
}
