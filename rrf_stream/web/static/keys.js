// @ts-check
/** The keys that work anywhere on the page, and those of the list. */

/**
 * @typedef {object} Reach What keys act on.
 * @property {HTMLInputElement} field
 * @property {HTMLElement} rows
 * @property {import("./list.js").ResultList} list
 * @property {() => boolean} isSearching
 * @property {() => void} stopOrClear
 * @property {() => void} update Show what waits behind the button.
 */

/** @param {Reach} reach */
export function listenToKeys(reach) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (act(event.key, reach)) event.preventDefault();
  });
}

/**
 * @param {string} key
 * @param {Reach} reach
 * @returns {boolean} Whether the key meant something.
 */
function act(key, { field, rows, list, isSearching, stopOrClear, update }) {
  const inField = document.activeElement === field;
  const inList = rows.contains(document.activeElement);
  if (key === "/" && !inField) {
    field.focus();
    field.select();
  } else if (key === "Escape") {
    if (inList && !isSearching()) field.focus();
    else stopOrClear();
  } else if (key === "ArrowDown" && (inField || inList)) list.step(1);
  else if (!inList) return false;
  else if (key === "ArrowUp") list.step(-1) || field.focus();
  else if (key === "Home") list.jump("first");
  else if (key === "End") list.jump("last");
  else if (key === "u") update();
  else return false;
  return true;
}
