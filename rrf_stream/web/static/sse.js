// @ts-check
/**
 * Server-sent events out of the body of a fetch.
 *
 * `EventSource` would not do: it hides the status and the words of a refusal, and asks again by itself.
 */

/**
 * @typedef {object} ServerEvent
 * @property {string} event Its kind, "message" if the server named none.
 * @property {string} data Its lines of data, joined by line feeds.
 */

/** Takes text as it arrives, cut anywhere, and gives the events that are complete. */
export class EventParser {
  #rest = "";
  #event = "";
  /** @type {string[]} */
  #data = [];

  /**
   * Take more text.
   * @param {string} text
   * @returns {ServerEvent[]} What it completed, in order.
   */
  push(text) {
    const all = this.#rest + text;
    const lines = all.split(/\r\n|\n|\r(?!$)/); // a \r at the very end may be half of a \r\n
    this.#rest = lines.pop() ?? "";
    /** @type {ServerEvent[]} */
    const events = [];
    for (const line of lines) {
      if (line !== "") this.#field(line);
      else this.#dispatch(events);
    }
    return events;
  }

  /** @param {string} line */
  #field(line) {
    const colon = line.indexOf(":");
    if (colon === 0) return; // a comment, which keeps the connection alive
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#event = value;
  }

  /** @param {ServerEvent[]} events */
  #dispatch(events) {
    // A block without data, such as one of an id alone, is no event.
    if (this.#data.length) events.push({ event: this.#event || "message", data: this.#data.join("\n") });
    this.#event = "";
    this.#data = [];
  }
}

/**
 * Read a body as events. What is incomplete when it ends is dropped, as the standard says.
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<ServerEvent[], void, void>} The events of one chunk at a time, never none.
 */
export async function* readEvents(body) {
  const parser = new EventParser();
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const events = parser.push(decoder.decode(value, { stream: true }));
      if (events.length) yield events;
    }
  } finally {
    await reader.cancel().catch(() => {}); // of a stream that broke, this tells the same error again
  }
}
