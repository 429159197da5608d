// Reads replies as they come, from a function that answers many times and has another site answer as well, until it has enough: what is still
// on its way is cancelled, and the chain goes on elsewhere.
//
//   catena run examples/enough.ts --site bei --arg 5
import { call, emit, replies } from "catena";

export default async function enough(wanted: number | null): Promise<string> {
  const seen = replies("probe.mtv/count", { upto: 1000, also: ["probe.cam/count"] });
  let count = 0;
  for await (const reply of seen) {
    emit(reply);
    if (++count === (wanted ?? 5)) break;
  }
  const { node } = await call("probe.red/where", {});
  return `${count} replies, then at ${node}`;
}
