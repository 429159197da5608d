// Goes through a plan (src/plan.rs), and returns how many effects it had.
import { call, split } from "catena";

const sum = (counts) => counts.reduce((all, one) => all + one, 0);

const ways = {
  effect: async ({ service, function: name, effect }) => {
    await call(`${service}/${name}`, effect);
    return 1;
  },
  sub: ({ service, steps }) => call(`${service}/sub`, steps),
  beside: async (steps) => sum(await Promise.all(steps.map(one))),
  split: async ({ branches, at }) => sum(await split(branches.map((steps) => () => take(steps)), at ? { at } : {})),
  throw: (words) => { throw new Error(words); },
};

const one = (step) => {
  const [way, what] = Object.entries(step)[0];
  return ways[way](what);
};

export default async function take(steps) {
  let count = 0;
  for (const step of steps) count += await one(step);
  return count;
}
