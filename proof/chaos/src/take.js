// Goes through a plan (src/plan.rs), and returns how many effects it had.
import { call, emit, split } from "catena";

const sum = (counts) => counts.reduce((all, one) => all + one, 0);

const ways = {
  effect: async ({ service, function: name, effect }, emits) => {
    await call(`${service}/${name}`, effect);
    if (emits) emit(effect.index);
    return 1;
  },
  sub: ({ service, steps }) => call(`${service}/sub`, steps),
  beside: async (steps, emits) => sum(await Promise.all(steps.map((step) => one(step, emits)))),
  split: async ({ branches, at }, emits) =>
    sum(await split(branches.map((steps) => () => take({ steps, emits })), at ? { at } : {})),
};

const one = (step, emits) => {
  if (step === "throw") throw new Error("on purpose");
  const [way, what] = Object.entries(step)[0];
  return ways[way](what, emits);
};

export default async function take({ steps, emits }) {
  let count = 0;
  for (const step of steps) count += await one(step, emits);
  return count;
}
