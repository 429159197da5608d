// Catena in a browser: ask a gateway, and take replies as they come. A plain ES module, served by the gateway as /catena.js.
//
//   import { call, replies, run } from "/catena.js";
//
//   const place = await call("atlas/find", { name: "Lyon" });           // one answer
//   for await (const reply of replies("search/find", { q: "tower" })) { // each as it comes
//     show(reply);
//   }                                                                   // the exact end: all of them have come
//
//   const found = run("tour", input, { signal });                       // a chain; what it emits comes as it goes
//   for await (const part of found) show(part);
//   found.result                                                        // what the function returned
//
//   const picture = await call("photos/get", 7);                        // { $blob: { type, size, url } }
//   image.src = URL.createObjectURL(await blob(picture));               // its bytes, straight from their owner
//
// Leaving a loop early (break, return, throw), cancel() and an aborted signal cancel what is under way, on every server. When it ends without all of
// its replies the loop throws a CatenaError; what came before stays yours, and isPartial says so. Nothing is asked for twice: a stream that breaks off
// is not resumed, since a call may have effects; ask again if doing it twice is harmless.

const GATEWAY = new URL(".", import.meta.url);

/** Why an answer did not come, or not all of them. */
export class CatenaError extends Error {
  constructor(problem, kind = "exception") {
    super(problem.detail ?? problem.title ?? "something went wrong");
    this.name = problem.name ?? "CatenaError";
    /** "exception": it ended in time; "failure": time ran out, or a connection broke. */
    this.kind = kind;
    /** Who has to change something: "caller", "guest", "service", "node" or "network". */
    this.fault = problem.fault;
    /** What to do next. */
    this.help = problem.help;
    this.problem = problem;
  }
}

/** Calls "service/function" and gives its one answer. Options: signal, timeoutMs, gateway (a URL). */
export async function call(target, params = {}, options = {}) {
  return single(`call/${path(target)}`, params, options);
}

/** Calls "service/function" and gives its replies as they come. Options as for call. */
export function replies(target, params = {}, options = {}) {
  return new Replies(`call/${path(target)}`, params, options);
}

/** Runs an offered function as a chain: what it emits comes as it goes, then `result`. Options as for call. */
export function run(name, input = null, options = {}) {
  return new Replies(`run/${encodeURIComponent(name)}`, input, options);
}

/**
 * The bytes of a blob in a reply, as a Blob; `from` and `to` say which of them. Its address is good for each byte once, for this page, and for a while.
 * Options as for call.
 */
export async function blob({ $blob }, { signal, gateway = GATEWAY, from = 0, to = $blob.size } = {}) {
  try {
    if ($blob.url === undefined) throw new CatenaError({ name: "NoSuchBlob", title: "this blob has no address" });
    const part = from > 0 || to < $blob.size;
    if (part && from >= to) return new Blob([], { type: $blob.type });
    const headers = part ? { range: `bytes=${from}-${to - 1}` } : {};
    const response = await fetch(new URL($blob.url, gateway), { headers, signal, credentials: "omit" });
    if (response.ok) return await response.blob();
    throw new CatenaError(await response.json().catch(() => ({ title: `the gateway answered ${response.status}` })));
  } catch (why) {
    throw why instanceof CatenaError || why?.name === "AbortError" ? why : broken(why);
  }
}

/** The replies of one call or chain. It is asked when the first is waited for, and can be gone through once. */
export class Replies {
  #where;
  #params;
  #options;
  #leave = new AbortController();
  #state = "new";

  /** How many came. */
  count = 0;
  /** Which branches' replies do not come: of each, its target and node, and the problem. Known at the end. */
  missing = [];
  /** What a chain's function returned; undefined before the end. */
  result = undefined;

  constructor(where, params, options) {
    this.#where = where;
    this.#params = params;
    this.#options = options;
  }

  /** Whether a reply, or the end, is still to come. */
  get hasMore() {
    return this.#state === "new" || this.#state === "open";
  }

  /** Whether it ended without all of its replies. */
  get isPartial() {
    return this.#state === "partial";
  }

  /** Stops it, wherever it is by now. A loop over it ends. */
  cancel() {
    if (this.hasMore) this.#state = "partial";
    this.#leave.abort();
  }

  async *[Symbol.asyncIterator]() {
    if (this.#leave.signal.aborted) return;
    if (this.#state !== "new") throw new TypeError("these replies have been gone through; ask again");
    this.#state = "open";
    const signal = AbortSignal.any([this.#leave.signal, ...(this.#options.signal ? [this.#options.signal] : [])]);
    try {
      const response = await ask(this.#where, this.#params, { ...this.#options, signal }, "text/event-stream");
      for await (const { event, data } of events(response.body)) {
        if (event === "reply") {
          this.count += 1;
          yield data;
        } else if (event === "missing") {
          this.missing.push(data);
        } else if (event === "end") {
          this.#state = data.complete ? "complete" : "partial";
          this.result = data.result;
          if (!data.complete) throw new CatenaError(data.problem, data.kind);
          return;
        }
      }
      throw broken("the stream ended before its end was told");
    } catch (why) {
      const cancelled = this.#leave.signal.aborted;
      if (this.hasMore) this.#state = "partial";
      if (cancelled) return;
      throw why instanceof CatenaError || why?.name === "AbortError" ? why : broken(why);
    } finally {
      // Left early, by break, return or throw.
      if (this.hasMore) this.cancel();
    }
  }
}

/** A target with each of its parts as a URL wants it. */
function path(target) {
  return String(target).split("/").map(encodeURIComponent).join("/");
}

async function single(where, params, options) {
  try {
    const response = await ask(where, params, options, "application/json");
    return await response.json();
  } catch (why) {
    throw why instanceof CatenaError || why?.name === "AbortError" ? why : broken(why);
  }
}

async function ask(where, params, { signal, timeoutMs, gateway = GATEWAY }, accept) {
  const headers = { accept, "content-type": "application/json" };
  if (timeoutMs !== undefined) headers["catena-timeout-ms"] = String(timeoutMs);
  const body = JSON.stringify(params) ?? "null";
  const response = await fetch(new URL(where, gateway), { method: "POST", headers, body, signal, credentials: "omit" });
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({ title: `the gateway answered ${response.status}` }));
  throw new CatenaError(problem);
}

/** Server-Sent Events, as far as a gateway writes them: one line of each field, data in JSON, a blank line behind. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      text += value;
      let from = 0;
      for (let end; (end = text.indexOf("\n\n", from)) >= 0; from = end + 2) {
        const fields = Object.fromEntries(text.slice(from, end).split("\n").map(field));
        if (fields.event) yield { event: fields.event, data: JSON.parse(fields.data) };
      }
      text = text.slice(from);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function field(line) {
  const colon = line.indexOf(":");
  return [line.slice(0, colon), line.slice(colon + 1).trimStart()];
}

function broken(why) {
  const detail = `the connection to the gateway broke: ${why?.message ?? why}`;
  return new CatenaError({ name: "ConnectionLost", detail, fault: "network", help: "ask again, if doing it twice is harmless" }, "failure");
}
