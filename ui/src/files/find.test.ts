import { expect, it } from "vitest";
import { eventsOf } from "./find";

it("reads events however they are cut", () => {
  const stream = 'event: file\ndata: {"a":1}\n\n: still running\n\nevent: end\ndata: {"b":"x"}\n\nevent: fi';
  for (let cut = 1; cut < stream.length; cut++) {
    const got: string[] = [];
    const left = eventsOf(stream.slice(0, cut), (e, d) => got.push(`${e} ${d}`));
    const rest = eventsOf(left + stream.slice(cut), (e, d) => got.push(`${e} ${d}`));
    expect(got).toEqual(['file {"a":1}', 'end {"b":"x"}']);
    expect(rest).toBe("event: fi");
  }
});
