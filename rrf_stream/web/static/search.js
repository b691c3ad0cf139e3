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

  /** End the search that runs: the server notices, and nothing is told any more. */
  stop() {
    this.#control?.abort();
    this.#control = null;
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
    const chunks = readEvents(response.body);
    try {
      return await this.#follow(chunks, signal);
    } finally {
      void chunks.return(); // the server searches for as long as somebody reads
    }
  }

  /**
   * @param {AsyncGenerator<import("./sse.js").ServerEvent[], void, void>} chunks
   * @param {AbortSignal} signal
   * @returns {Promise<Problem | null>}
   */
  async #follow(chunks, signal) {
    let hasFinal = false;
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
        state = snapshot && snapshotIn(snapshot.data);
        problem = end?.event === "error" ? { title: "", ...JSON.parse(end.data) } : null;
      } catch {
        return UNREADABLE;
      }
      if (state) this.#listener.snapshot(state);
      hasFinal = state?.final ?? hasFinal;
      if (end) return problem ?? (hasFinal ? null : UNREADABLE);
    }
  }
}

/**
 * Return the snapshot that an event tells of, of which all is there that the page shows.
 * @param {string} data
 * @returns {Snapshot}
 * @throws {Error} It is none.
 */
function snapshotIn(data) {
  /** @type {Snapshot} */
  const told = JSON.parse(data);
  const isSnapshot =
    isTime(told.elapsed) &&
    told.hits.every(({ id, ranks }) => id !== undefined && typeof ranks === "object" && ranks !== null) &&
    told.coverage.arms.every((arm) => isText(arm.name) && isText(arm.status) && isTime(arm.elapsed)) &&
    (told.blocking_arms ?? []).every(isText);
  if (!isSnapshot) throw new TypeError("no snapshot");
  return told;
}

/** @param {unknown} value */
function isText(value) {
  return typeof value === "string";
}

/** @param {unknown} value */
function isTime(value) {
  return value === null || typeof value === "number";
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
