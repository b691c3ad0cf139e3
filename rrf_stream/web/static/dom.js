// @ts-check
/** Elements of the page: found, made, and given text. Text becomes an element's text, and nothing else. */

/**
 * Return an element of the page that has to be there.
 * @template {HTMLElement} T
 * @param {string} id
 * @param {new () => T} kind
 * @returns {T}
 */
export function element(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new TypeError(`no ${kind.name} ${id}`);
  return found;
}

/**
 * Make an element.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {string} name Its class.
 * @param {string} [text]
 * @returns {HTMLElementTagNameMap[T]}
 */
export function make(tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

/**
 * Give an element other text, and leave it alone where it has that already.
 * @param {Element} element
 * @param {string} text
 */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
