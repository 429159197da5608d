// Does one change at a primary and then at its backup, and answers as the primary did (RPC Chains, section 4.1, Figure 5). It ends at the backup: the
// chain that asked for the change goes on from there.
import { call } from "catena";

interface Change {
  primary: string; // service of the node where this begins
  backup: string; // service elsewhere
  function: string; // of both
  params: Record<string, unknown>; // with the primary's handles
  at_backup: Record<string, unknown>; // the backup's, in their place
  path: Uint8Array; // of the entry that is made, if one is
}

const SAFETY = ["unstable", "data_sync", "file_sync"];

export default async function replicate(change: Change | null) {
  const { primary, backup, function: name, path } = change!;
  const done = await call(`${primary}/${name}`, change!.params);
  const asked = call(`${backup}/${name}`, Object.assign(change!.params, change!.at_backup));
  change = null; // what is written goes along as a parameter, and in no other way
  let echoed;
  try {
    echoed = await asked;
  } catch (error) {
    const there = error.unknown ? "may or may not have done it" : "has not";
    error.message = `the backup ${backup}: ${error.message}; ${primary} has done this ${name}, ${backup} ${there}: they differ until it is done again`;
    throw error;
  }
  return together(done, echoed, path);
}

// What the primary says, as far as it is true of both.
function together(done, echoed, path: Uint8Array) {
  if (done.handle) return { ...done, handle: pair(done.handle, echoed.handle, path) };
  const both = { ...done };
  if (done.verifier) both.verifier = done.verifier.map((byte, at) => byte ^ echoed.verifier[at]); // changes when either does
  if (done.committed) both.committed = SAFETY[Math.min(SAFETY.indexOf(done.committed), SAFETY.indexOf(echoed.committed))];
  if (done.count !== undefined) both.count = Math.min(done.count, echoed.count);
  return both;
}

// As `Pair::pack` has it.
function pair(primary: Uint8Array, backup: Uint8Array, path: Uint8Array): Uint8Array {
  const packed = new Uint8Array(5 + primary.length + backup.length + path.length);
  packed.set([0x52, primary.length >> 8, primary.length & 255, backup.length >> 8, backup.length & 255]);
  packed.set(primary, 5);
  packed.set(backup, 5 + primary.length);
  packed.set(path, 5 + primary.length + backup.length);
  return packed;
}
