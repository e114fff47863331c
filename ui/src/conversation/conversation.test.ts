import { describe, expect, it } from "vitest";
import { parseInline, parseMarkdown } from "@/highlight/markdown";
import { ConversationFeed, type Item } from "./feed";
import { opensByItself, rowsOf, unfolds } from "./rows";
import { spent } from "./words";

const item = (id: string, place: number, more: Partial<Item> = {}): Item => ({
  id,
  place,
  version: place,
  at: place,
  kind: "tool",
  parent: "",
  text: "",
  tool: "Bash",
  title: "",
  input: "x",
  output: "",
  path: "",
  diff: "",
  added: 0,
  removed: 0,
  status: "ok",
  topic: "",
  duration_ms: 0,
  usage: null,
  truncated: false,
  offset: null,
  undone: false,
  ...more,
});

describe("markdown", () => {
  it("reads what agents write", () => {
    expect(
      parseMarkdown("# Done\n\nIt **works**:\n\n- one\n  - two\n- [x] three\n\n1. a\n2. b\n\n> said\n\n---"),
    ).toEqual([
      { kind: "heading", level: 1, parts: [{ kind: "text", text: "Done" }] },
      {
        kind: "paragraph",
        parts: [
          { kind: "text", text: "It " },
          { kind: "strong", parts: [{ kind: "text", text: "works" }] },
          { kind: "text", text: ":" },
        ],
      },
      {
        kind: "list",
        ordered: false,
        start: 1,
        items: [
          {
            done: undefined,
            blocks: [
              { kind: "paragraph", parts: [{ kind: "text", text: "one" }] },
              {
                kind: "list",
                ordered: false,
                start: 1,
                items: [{ done: undefined, blocks: [{ kind: "paragraph", parts: [{ kind: "text", text: "two" }] }] }],
              },
            ],
          },
          { done: true, blocks: [{ kind: "paragraph", parts: [{ kind: "text", text: "three" }] }] },
        ],
      },
      {
        kind: "list",
        ordered: true,
        start: 1,
        items: ["a", "b"].map((text) => ({
          done: undefined,
          blocks: [{ kind: "paragraph", parts: [{ kind: "text", text }] }],
        })),
      },
      { kind: "quote", blocks: [{ kind: "paragraph", parts: [{ kind: "text", text: "said" }] }] },
      { kind: "rule" },
    ]);
  });

  it("leaves code as it is", () => {
    expect(parseMarkdown("```Go\nfunc a() {\n\n**no**\n```\nafter")).toEqual([
      { kind: "code", language: "go", text: "func a() {\n\n**no**" },
      { kind: "paragraph", parts: [{ kind: "text", text: "after" }] },
    ]);
    expect(parseMarkdown("````\n```\n````")).toEqual([{ kind: "code", language: "", text: "```" }]);
    expect(parseMarkdown("```\nnever closed")).toEqual([{ kind: "code", language: "", text: "never closed" }]);
    expect(parseInline("a `b*c*` ``d`e``")).toEqual([
      { kind: "text", text: "a " },
      { kind: "code", text: "b*c*" },
      { kind: "text", text: " " },
      { kind: "code", text: "d`e" },
    ]);
  });

  it("makes links only of what it knows, and HTML of nothing", () => {
    expect(parseInline("[a](https://a.example/x_(1)) <b onclick=x> https://b.example/c.")).toEqual([
      { kind: "link", href: "https://a.example/x_(1)", text: "a" },
      { kind: "text", text: " <b onclick=x> " },
      { kind: "link", href: "https://b.example/c", text: "https://b.example/c" },
      { kind: "text", text: "." },
    ]);
    expect(parseInline("snake_case_name and 2 * 3 * 4")).toEqual([
      { kind: "text", text: "snake_case_name and 2 * 3 * 4" },
    ]);
  });

  it("reads a table", () => {
    expect(parseMarkdown("| a | b |\n|---|:-:|\n| `x|y` | 2 |\n| 3 |")).toEqual([
      {
        kind: "table",
        head: [[{ kind: "text", text: "a" }], [{ kind: "text", text: "b" }]],
        rows: [
          [[{ kind: "code", text: "x|y" }], [{ kind: "text", text: "2" }]],
          [[{ kind: "text", text: "3" }], []],
        ],
      },
    ]);
  });

  // What takes quadratic time takes minutes here, and the test's own time runs out.
  it("does not choke on what is made to be slow", () => {
    for (const bad of [
      "*".repeat(60_000),
      "[".repeat(60_000),
      "**a ".repeat(15_000),
      "> ".repeat(30_000),
      "`a``".repeat(15_000),
      "- ".repeat(30_000),
      "_a*".repeat(20_000),
      `${"|".repeat(30_000)}\n${"|-".repeat(15_000)}`,
    ])
      parseMarkdown(bad);
  });
});

describe("rows", () => {
  it("puts what happened inside a call below it, edits always, the rest when it is open", () => {
    const items = [
      item("a", 1),
      item("b", 2, { parent: "a" }),
      item("c", 3, { parent: "a", kind: "edit", diff: "+x\n".repeat(40) }),
      item("d", 4, { parent: "gone" }),
    ];
    expect(rowsOf(items, new Set()).map((r) => [r.item.id, r.depth, r.steps, r.open])).toEqual([
      ["a", 0, 1, false],
      ["c", 1, 0, false],
      ["d", 0, 0, false],
    ]);
    expect(rowsOf(items, new Set(["a"])).map((r) => r.item.id)).toEqual(["a", "b", "c", "d"]);
  });

  it("survives calls that are inside of each other", () => {
    expect(rowsOf([item("a", 1, { parent: "b" }), item("b", 2, { parent: "a" })], new Set())).toEqual([]);
    expect(rowsOf([item("a", 1, { parent: "a" })], new Set(["a"]))).toHaveLength(1);
  });

  it("folds what was undone into one line, unless something is looked for", () => {
    const items = [
      item("a", 1),
      item("b", 2, { kind: "prompt", undone: true }),
      item("c", 3, { kind: "text", undone: true }),
      item("u", 4, { kind: "usage" }),
      item("d", 5),
    ];
    const rows = rowsOf(items, new Set());
    expect(rows.map((r) => [r.item.id, r.item.text])).toEqual([
      ["a", ""],
      ["u/undone", "2 steps undone"],
      ["d", ""],
    ]);
    expect(unfolds(rows[1]!.item, rows[1]!.steps)).toBe(true);
    expect(rowsOf(items, new Set(["u/undone"])).map((r) => r.item.id)).toEqual(["a", "u/undone", "b", "c", "u", "d"]);
    expect(rowsOf(items, new Set(), true).map((r) => r.item.id)).toEqual(["a", "b", "c", "u", "d"]);
  });

  it("shows small diffs at once", () => {
    expect(opensByItself(item("a", 1, { kind: "edit", diff: "+a\n-b\n" }))).toBe(true);
    expect(opensByItself(item("a", 1, { kind: "edit", diff: "+a\n".repeat(17) }))).toBe(false);
  });
});

describe("feed", () => {
  const about = {
    total: 0,
    usage: { input: 0, output: 0, cache_read: 0, cache_write: 0, reasoning: 0, model: "" },
    record: "kept" as const,
    earlier_session_id: null,
    later_session_id: null,
  };

  it("loads the newest, the older, and what changed", async () => {
    const asked: object[] = [];
    const answers = [
      { ...about, items: [item("c", 3), item("d", 4)], next_cursor: "older", more: false, version: 4 },
      { ...about, items: [item("c", 3, { version: 5, status: "failed" })], next_cursor: null, more: true, version: 5 },
      { ...about, items: [item("e", 6)], next_cursor: null, more: false, version: 6 },
      {
        ...about,
        items: [item("a", 1), item("c", 3, { status: "running" })],
        next_cursor: null,
        more: false,
        version: 6,
      },
    ];
    const feed = new ConversationFeed("s", { q: "", kinds: [] }, async (_, __, page) => {
      asked.push(page);
      return answers.shift()!;
    });
    expect(await feed.sync()).toBe(4);
    expect(await feed.sync()).toBe(6);
    await Promise.all([feed.loadOlder(), feed.loadOlder()]);
    await feed.loadOlder();
    expect(asked).toEqual([{}, { since: 4 }, { since: 5 }, { cursor: "older" }]);
    expect(feed.shown.get().items.map((i) => `${i.id}${i.status === "failed" ? "!" : ""}`)).toEqual([
      "a",
      "c!",
      "d",
      "e",
    ]);
    expect(feed.shown.get().older).toBeUndefined();
  });

  it("begins anew when another timeline took its place", async () => {
    const answers = [
      { ...about, items: [item("a", 9)], next_cursor: null, more: false, version: 9 },
      { ...about, items: [], next_cursor: null, more: false, version: 2 },
      { ...about, items: [item("b", 2)], next_cursor: null, more: false, version: 2 },
    ];
    const feed = new ConversationFeed("s", { q: "", kinds: [] }, async () => answers.shift()!);
    await feed.sync();
    await feed.sync();
    expect(feed.shown.get().items.map((i) => i.id)).toEqual(["b"]);
  });
});

describe("costs", () => {
  const usage = (nano?: number, estimated?: boolean) => ({
    input: 1,
    output: 1,
    cache_read: 0,
    cache_write: 0,
    reasoning: 0,
    model: "m",
    ...(nano !== undefined && { cost_nano_usd: nano }),
    ...(estimated && { estimated }),
  });
  const spentAt = (id: string, place: number, nano?: number, estimated?: boolean) =>
    item(id, place, { kind: "usage", usage: usage(nano, estimated) });

  it("are summed by turn, from its second answer on", () => {
    const rows = rowsOf(
      [
        spentAt("before", 1, 7), // its turn began before what is shown
        item("p1", 2, { kind: "prompt" }),
        spentAt("a", 3, 10),
        spentAt("b", 4, 20, true),
        spentAt("unknown", 5),
        item("p2", 6, { kind: "prompt" }),
        spentAt("c", 7, 5),
      ],
      new Set(),
    );
    expect(rows.filter((r) => r.turn).map((r) => [r.item.id, r.turn])).toEqual([["b", { nano: 30, estimated: true }]]);
  });
  it("stand at the tokens, where they are known", () => {
    expect(spent(usage(20_000_000))).toMatch(/ · \$0\.02$/);
    expect(spent(usage(20_000_000, true))).toMatch(/ · about \$0\.02$/);
    expect(spent(usage())).not.toContain("$");
  });
});
