// Copies one file between two file services by reference: the source offers parts of it, the target takes them. No byte of the file passes this function:
// it carries references, and each part goes from source to target by itself. A part that a cut interrupts is offered and taken again.
import { call, emit } from "catena";

interface Copy {
  from: string; // service that has the file
  source: string; // its path there
  to: string; // service that gets it
  target: string; // its path there
  part_bytes: number; // more for a file of very many
}

const PARTS_MAX = 400; // a part is two calls, or more after a cut, of the 2,000 that a chain may make
const OFFER_BYTES_MAX = 64 << 20; // that a file service offers at once
const UNDER_WAY = 2; // parts: one is taken while the next is offered
const TRIES_MAX = 5; // for each part

export default async function copy({ from, source, to, target, part_bytes }: Copy) {
  const file = await call(`${from}/lookup`, { path: source });
  if (file.attributes.kind !== "file") {
    throw Object.assign(new Error(`${from}: ${source} is no file, but a ${file.attributes.kind}`), { name: "NotAFile" });
  }
  const size: number = file.attributes.size;
  const part = Math.max(part_bytes, Math.ceil(size / PARTS_MAX));
  if (part > Math.max(part_bytes, OFFER_BYTES_MAX)) {
    throw Object.assign(new Error(`${from}: ${source} has ${size} bytes, one chain copies ${PARTS_MAX * OFFER_BYTES_MAX}`), { name: "TooLarge" });
  }
  // The first part is offered while the function is at the source: the target can take it as soon as it is there.
  let first = size > 0 ? await offer(0) : null;
  // Nothing is cut off yet: what is there stays as it is until the first bytes to put in its place have come.
  const made = await call(`${to}/create`, { path: target });
  emit({ written: 0, size });

  let next = 0;
  let written = 0;
  let touched = made.attributes.size === 0;
  async function carry() {
    let done = null;
    while (next < size) {
      const offset = next;
      const count = Math.min(part, size - offset);
      next += count;
      done = await one(offset, count, done);
      written += count;
      emit({ written, size });
    }
    return done;
  }

  // One part; what is returned can be given up at the source.
  async function one(offset, count, done) {
    for (let tried = 1; ; tried++) {
      try {
        const offered = (offset === 0 && first) || (await offer(offset, done));
        first = null;
        if (offered.size !== count) throw Object.assign(new Error(`${from}: ${source} grew shorter while it was copied`), { name: "Changed" });
        touched = true;
        await call(`${to}/take`, { handle: made.handle, offset, part: offered });
        return offered;
      } catch (why) {
        if (why.name !== "BlobLost" || tried === TRIES_MAX) throw why;
        done = null;
      }
    }
  }

  function offer(offset, done = null) {
    return call(`${from}/offer`, { handle: file.handle, offset, count: Math.min(part, size - offset), done });
  }

  try {
    const left = await Promise.all(Array.from({ length: UNDER_WAY }, carry));
    touched = true;
    if (made.attributes.size > size) await call(`${to}/create`, { path: target, size });
    await call(`${to}/commit`, { handle: made.handle });
    call(`${from}/release`, left.filter((part) => part)); // nobody waits for it
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
