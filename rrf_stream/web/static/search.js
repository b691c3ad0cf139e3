// @ts-check
/** One search at a time: the next one ends the one before. */

import { readEvents } from "./sse.js";

/**
 * @typedef {import("./words.js").Snapshot} Snapshot
 * @typedef {import("./problems.js").Problem} Problem
 */

/**
 * @typedef {object} Listener What is told of the search that runs, and of no other.
 * @property {(snapshot: Snapshot) => void} snapshot The newest state.
 * @property {() => void} done The server said that this was all.
 * @property {(problem: Problem) => void} problem The search ended otherwise.
 */

/** @type {Problem} */
const LOST = { type: "lost", title: "", status: 0 };

/** @type {Problem} */
const UNREADABLE = { type: "unreadable", title: "the answer could not be read", status: 0 };

export class Search {
  /** @type {AbortController | null} */
  #control = null;
  #listener;

  /** @param {Listener} listener */
  constructor(listener) {
    this.#listener = listener;
  }

  /** Whether a search runs. */
  get running() {
    return this.#control !== null;
  }

  /**
   * Start a search, and end the one that runs.
   * @param {string} address
   */
  start(address) {
    this.stop();
    this.#control = new AbortController();
    void this.#run(address, this.#control.signal);
  }

  /**
   * End the search that runs: the server notices, and nothing is told any more.
   * @returns {boolean} Whether there was one.
   */
  stop() {
    const was = this.#control;
    this.#control = null;
    was?.abort();
    return was !== null;
  }

  /**
   * @param {string} address
   * @param {AbortSignal} signal
   */
  async #run(address, signal) {
    const problem = await this.#read(address, signal);
    if (signal.aborted) return;
    this.#control = null;
    if (problem) this.#listener.problem(problem);
    else this.#listener.done();
  }

  /**
   * @param {string} address
   * @param {AbortSignal} signal
   * @returns {Promise<Problem | null>} Null if the stream was read to its end.
   */
  async #read(address, signal) {
    /** @type {Response} */
    let response;
    try {
      response = await fetch(address, {
        signal,
        headers: { Accept: "text/event-stream" },
        cache: "no-store",
      });
    } catch {
      return LOST; // or aborted, which the caller sees
    }
    if (response.status !== 200 || !response.body) return refusal(response);
    return this.#follow(readEvents(response.body), signal);
  }

  /**
   * @param {AsyncGenerator<import("./sse.js").ServerEvent[], void, void>} chunks
   * @param {AbortSignal} signal
   * @returns {Promise<Problem | null>}
   */
  async #follow(chunks, signal) {
    for (;;) {
      let step;
      try {
        step = await chunks.next();
      } catch {
        return LOST;
      }
      if (signal.aborted || step.done) return LOST;
      const snapshot = step.value.findLast((one) => one.event === "snapshot"); // older ones are out of date
      const end = step.value.find((one) => one.event === "done" || one.event === "error");
      let state;
      let problem;
      try {
        state = snapshot && JSON.parse(snapshot.data);
        problem = end?.event === "error" ? { title: "", ...JSON.parse(end.data) } : null;
      } catch {
        return UNREADABLE;
      }
      if (state) this.#listener.snapshot(state);
      if (end) {
        void chunks.return();
        return problem;
      }
    }
  }
}

/**
 * Return what a response says that is no stream.
 * @param {Response} response
 * @returns {Promise<Problem>}
 */
async function refusal(response) {
  const wait = Number(response.headers.get("Retry-After") ?? NaN);
  const told = {
    type: "about:blank",
    title: "",
    status: response.status,
    retry_after: wait >= 0 ? wait : null,
  };
  if (!response.headers.get("Content-Type")?.includes("json")) return told;
  try {
    return { ...told, ...(await response.json()), status: response.status };
  } catch {
    return told; // cut short: the status says enough
  }
}
