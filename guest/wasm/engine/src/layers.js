// The API of the RPC Chains paper (section 3.1, Figure 2) and a static list of servers, as thin layers over `call`; what a blob can do; and
// a reply set, as an iterator.
export default (call, blob, ask, read, leave) => ({
  replies: (target, params, options) => new ReplySet(read, leave, ask(target, params), options?.partial === true),
  // `parts`: where the bytes are, as the host has it; from which of them on; how many; their media type.
  blobMethods: {
    get size() { return this.parts[2]; },
    get type() { return this.parts[3]; },
    // As of a web Blob: from the end if negative, and within what there is. No byte moves.
    slice(from = 0, to = this.size) {
      const [where, first, size, type] = this.parts;
      const within = (at) => Math.trunc(at < 0 ? Math.max(size + at, 0) : Math.min(at, size)) || 0;
      const [a, b] = [within(from), within(to)];
      return blob([where, first + a, Math.max(b - a, 0), type]);
    },
    // The bytes come to where the function is.
    bytes() { return call("catena.blob/bytes", this); },
    text() { return call("catena.blob/text", this); },
    toJSON() { return { size: this.size, type: this.type }; },
  },
  // start_chain: `cf(state, result)` returns the next hop `{ server, sf, params, cf, state }`; without a server the chain
  // ends, and `state` is its result.
  async startChain(server, sf, params, cf, state) {
    let hop = { server, sf, params, cf, state };
    while (hop?.server != null) {
      const { server, sf, params, cf, state } = hop;
      hop = null;
      const result = await call(`${server}/${sf}`, params);
      hop = cf ? await cf(state, result) : { state: result };
    }
    return hop?.state;
  },
  // The same parameters to the first, each result to the next.
  async visit(targets, params) {
    for (const target of targets) params = await call(target, params);
    return params;
  },
});

class ReplySet {
  #read; #leave; #set; #partial;
  // The promise of what comes next from the host, if one is out.
  #coming;
  #batch = [];
  #at = 0;
  // How it ended, as the host said.
  #over;
  #raised = false;
  #left = false;
  // Ends the wait of a `next` when the set is left.
  #wake;
  // The last `next`: one begins when the one before has what it waited for.
  #last = Promise.resolve();

  constructor(read, leave, [set, first], partial) {
    [this.#read, this.#leave, this.#set, this.#coming, this.#partial] = [read, leave, set, first, partial];
    // Whoever iterates is told; nobody else need be.
    first.catch(() => {});
  }

  [Symbol.asyncIterator]() { return this; }

  // How it ended: "complete"; as an "exception", in time and with replies missing; or as a "failure": time ran out, the connection broke,
  // or it was left. Undefined before.
  get ended() {
    if (this.#left) return "failure";
    if (this.#over === undefined) return undefined;
    if (this.#over.why === undefined) return "complete";
    return this.#over.failed ? "failure" : "exception";
  }

  // Whether it has ended, or was left, and not all replies have been had.
  get isPartial() { return this.ended === "exception" || this.ended === "failure"; }

  // Whose replies are missing: `{ target, node, why }` each. Known when the set has ended.
  get missing() { return this.#over?.missing ?? []; }

  next() {
    const next = this.#last.then(() => this.#next());
    this.#last = next.catch(() => {});
    return next;
  }

  // Stops early: everything that still works on it is cancelled.
  async return(value) {
    if (this.#over === undefined && !this.#left) {
      this.#left = true;
      this.#leave(this.#set);
      this.#wake?.();
    }
    [this.#batch, this.#raised] = [[], true];
    return { value, done: true };
  }

  async #next() {
    for (;;) {
      if (this.#at < this.#batch.length) return { value: this.#batch[this.#at++], done: false };
      if (this.#over !== undefined || this.#left) break;
      const told = await this.#told();
      if (told === undefined) break;
      [this.#batch, this.#at, this.#over] = [told.replies, 0, told.over];
    }
    const why = this.#over?.why;
    if (why === undefined || this.#partial || this.#raised) return { value: undefined, done: true };
    this.#raised = true;
    throw why;
  }

  // What comes next from the host; nothing if the set is left meanwhile.
  async #told() {
    const coming = this.#coming ?? this.#read(this.#set);
    this.#coming = undefined;
    const left = new Promise((wake) => { this.#wake = wake; });
    try {
      return await Promise.race([coming, left]);
    } catch (why) {
      // The host does not have the set, or not any more: that is no partial set.
      this.#over = { missing: [], why, failed: true };
      this.#raised = true;
      throw why;
    }
  }
}
