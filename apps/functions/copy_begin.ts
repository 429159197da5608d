// Begins a copy chunk by chunk: finds the file, and makes the target without cutting anything off it.
import { call } from "catena";

export default async function begin({ from, source, to, target }) {
  const file = await call(`${from}/lookup`, { path: source });
  if (file.attributes.kind !== "file") {
    throw Object.assign(new Error(`${from}: ${source} is no file, but a ${file.attributes.kind}`), { name: "NotAFile" });
  }
  return { file, made: await call(`${to}/create`, { path: target }) };
}
