// Exceptions where they happen: the catch runs at the service that failed, without a way home in between.
//
//   catena run examples/errors.ts                     caught
//   catena run examples/errors.ts --arg '"throw"'     not caught: see what it says, and its exit code (1)
import { call } from "catena";

export default async function errors(mode: string | null): Promise<object> {
  if (mode === "throw") {
    return await call("probe.cam/fail", { name: "OutOfTea", message: "the kettle is empty" });
  }
  try {
    return await call("probe.cam/fail", { name: "OutOfTea", message: "the kettle is empty" });
  } catch (why: any) {
    // Still in Cambridge.
    const here = await call("probe.cam/where", {});
    return { caught: why.name, said: why.message, at: here.node };
  }
}
