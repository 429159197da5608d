// A chain through all four sites of `catena dev`. It logs where it is, and emits each place as soon as it is there: the answer goes
// straight to you, while the chain goes on.
//
//   catena run examples/tour.ts --site bei --explain
import { call, emit, log } from "catena";

interface Whereabouts {
  node: string;
  site: string | null;
}

export default async function tour(sites: string[] | null): Promise<string> {
  const seen: string[] = [];
  for (const site of sites ?? ["bei", "red", "mtv", "cam"]) {
    const here: Whereabouts = await call(`probe.${site}/where`, {});
    seen.push(here.node);
    log("standing at", here.node, "with", seen.length, "stops behind me");
    emit({ stop: seen.length, at: here.node });
  }
  return seen.join(" > ");
}
