import { describe, expect, it } from "vitest";
import { parseMarkdown } from "@/highlight/markdown";
import { Chunks } from "./chunks";

const TEXT = `# Title

A paragraph
of two lines.

- one

- two

  more of two

1. first

2. second

\`\`\`go
func main() {

}
\`\`\`

> said

> again

| a | b |
|---|---|
| 1 | 2 |

The end.
`;

describe("chunks of a text that grows", () => {
  it("drawn one by one, they are what the whole is", () => {
    const chunks = new Chunks().of(TEXT);
    expect(chunks.length).toBeGreaterThan(4);
    expect(chunks.join("")).toBe(TEXT);
    expect(chunks.flatMap((c) => parseMarkdown(c))).toEqual(parseMarkdown(TEXT));
  });

  it("do not depend on the pieces that the text came in, and stay the same strings", () => {
    const grown = new Chunks();
    let before: readonly string[] = [];
    for (let n = 1; n <= TEXT.length; n++) {
      const now = grown.of(TEXT.slice(0, n));
      for (const [i, c] of before.slice(0, -1).entries()) expect(now[i]).toBe(c);
      before = now;
    }
    expect(before).toEqual(new Chunks().of(TEXT));
  });

  it("begin anew when the text is another", () => {
    const c = new Chunks();
    c.of("One.\n\nTwo.\n\nThree.");
    expect(c.of("Other.")).toEqual(["Other."]);
  });
});
