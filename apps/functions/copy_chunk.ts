// Copies one chunk of a file: from the source to the target, and straight home (RPC Chains, section 5.3.2: one chain for each).
import { call } from "catena";

interface Chunk {
  from: string;
  file: Uint8Array; // handle at `from`
  to: string;
  made: Uint8Array; // handle at `to`
  offset: number;
  count: number;
}

export default async function chunk({ from, file, to, made, offset, count }: Chunk) {
  let { data } = await call(`${from}/read`, { handle: file, offset, count });
  if (data.length !== count) throw Object.assign(new Error(`${from}: the file grew shorter while it was copied`), { name: "Changed" });
  const write = call(`${to}/write`, { handle: made, offset, data });
  data = null; // it goes along as a parameter, and in no other way
  const written = await write;
  if (written.count !== count) throw Object.assign(new Error(`${to} wrote ${written.count} of ${count} bytes; copy again`), { name: "Changed" });
  return written.verifier;
}
