// The API of the RPC Chains paper (section 3.1, Figure 2) and a static list of servers, as thin layers over `call`.
export default (call) => ({
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
