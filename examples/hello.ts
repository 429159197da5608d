// Two sites, one function: it goes to Cambridge, goes on to Redmond, and answers from there.
//
//   catena dev                                        in one terminal
//   catena run examples/hello.ts --arg '"you"'        in another
import { call } from "catena";

export default async function hello(name: string | null): Promise<string> {
  const greeting = await call("probe.cam/echo", `hello, ${name ?? "world"}`);
  // This line runs in Cambridge, and so does the next, as far as its await.
  const louder = await call("probe.red/echo", greeting.toUpperCase());
  return `${louder}!`;
}
