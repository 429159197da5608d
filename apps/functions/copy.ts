// Copies one file between two file services, wherever the caller is (RPC Chains, section 4.1). The chain goes to the source for the file's size, then to
// the target, and stays there: the reads go out side by side from the target, so every byte takes the one way from source to target.
import { call, emit } from "catena";

interface Copy {
  from: string; // service that has the file
  source: string; // its path there
  to: string; // service that gets it
  target: string; // its path there
  chunk_bytes: number; // more for a file of very many
  window: number; // chunks under way at once
}

const CHUNKS_MAX = 900; // each is two of the 2,000 calls that a chain may make
const CHUNK_BYTES_MAX = 1 << 20; // that a file service reads or writes at once

export default async function copy({ from, source, to, target, chunk_bytes, window }: Copy) {
  const file = await call(`${from}/lookup`, { path: source });
  if (file.attributes.kind !== "file") {
    throw Object.assign(new Error(`${from}: ${source} is no file, but a ${file.attributes.kind}`), { name: "NotAFile" });
  }
  const size: number = file.attributes.size;
  const chunk = Math.max(chunk_bytes, Math.ceil(size / CHUNKS_MAX));
  if (chunk > Math.max(chunk_bytes, CHUNK_BYTES_MAX)) {
    const most = CHUNKS_MAX * CHUNK_BYTES_MAX;
    throw Object.assign(new Error(`${from}: ${source} has ${size} bytes, one chain copies ${most}; copy it by plain calls`), { name: "TooLarge" });
  }
  // Nothing is cut off yet: what is there stays as it is until the first bytes to put in its place have come.
  const made = await call(`${to}/create`, { path: target });
  emit({ written: 0, size });
  // A target that replicates has taken the chain along to its backup; the bytes go to the target itself. For any other this is where the chain is.
  await call(`${to}/getattr`, { handle: made.handle });

  let next = 0;
  let written = 0;
  let touched = made.attributes.size === 0;
  async function carry() {
    while (next < size) {
      const offset = next;
      const count = Math.min(chunk, size - offset);
      next += count;
      const { data } = await call(`${from}/read`, { handle: file.handle, offset, count });
      if (data.length !== count) throw Object.assign(new Error(`${from}: ${source} grew shorter while it was copied`), { name: "Changed" });
      touched = true;
      await call(`${to}/write`, { handle: made.handle, offset, data });
      written += count;
      emit({ written, size });
    }
  }

  try {
    await Promise.all(Array.from({ length: window }, carry));
    touched = true;
    if (made.attributes.size > size) await call(`${to}/create`, { path: target, size });
    await call(`${to}/commit`, { handle: made.handle });
  } catch (error) {
    next = size; // the others stop, too
    error.message += touched ? `; the half-written ${target} at ${to} ${await remove()}` : `; ${target} at ${to} is as it was`;
    throw error;
  }
  return { bytes: size };

  async function remove() {
    try {
      await call(`${to}/remove`, { path: target });
      return "has been removed";
    } catch (error) {
      return `could not be removed (${error.message}): remove it there`;
    }
  }
}
