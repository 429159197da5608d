// Ends a copy chunk by chunk: cuts off what was there before, if the file was longer, and puts all of it on stable storage.
import { call } from "catena";

export default async function end({ to, target, made, cut_to }) {
  if (cut_to !== null) await call(`${to}/create`, { path: target, size: cut_to });
  return (await call(`${to}/commit`, { handle: made })).verifier;
}
