// The API of the RPC Chains paper (section 3.1, Figure 2) and a static list of servers, as thin layers over `call`; and what a blob can do.
export default (call, blob) => ({
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
