/** Ranges of characters, [from, to). */
export type Range = readonly [number, number];

/** Highlighting of one line: lengths and classes in turn, covering the line from its start. "" is plain text. */
export type Tokens = readonly (readonly [length: number, cls: string])[];

export interface Segment {
  text: string;
  cls: string;
  marked: boolean;
  /** Index of the search hit this is part of, or -1. */
  hit: number;
}

/** Cuts a line into pieces that look the same all through: syntax, changed words and search hits laid over each other. */
export function segments(
  text: string,
  tokens: Tokens | undefined,
  marks: readonly Range[],
  hits: readonly Range[],
): Segment[] {
  if (!tokens && marks.length === 0 && hits.length === 0) return [{ text, cls: "", marked: false, hit: -1 }];
  const cuts = new Set([0, text.length]);
  const spans: [number, number, string][] = [];
  let at = 0;
  for (const [length, cls] of tokens ?? []) {
    const end = Math.min(text.length, at + length);
    if (end > at) spans.push([at, end, cls]);
    cuts.add(at).add(end);
    at = end;
  }
  for (const [from, to] of [...marks, ...hits]) cuts.add(Math.min(from, text.length)).add(Math.min(to, text.length));
  const points = [...cuts].sort((a, b) => a - b);
  const out: Segment[] = [];
  let span = 0;
  for (let i = 0; i + 1 < points.length; i++) {
    const from = points[i]!;
    const to = points[i + 1]!;
    while (span < spans.length && spans[span]![1] <= from) span++;
    const here = spans[span];
    out.push({
      text: text.slice(from, to),
      cls: here && here[0] <= from ? here[2] : "",
      marked: marks.some(([a, b]) => a <= from && to <= b),
      hit: hits.findIndex(([a, b]) => a <= from && to <= b),
    });
  }
  return out;
}

/** Turns highlight.js' HTML into tokens per line, so that nothing of a file is ever put into the page as HTML. */
export function tokensFromHtml(html: string): Tokens[] {
  const lines: [number, string][][] = [[]];
  const stack: string[] = [];
  const push = (text: string) => {
    const cls = stack.findLast((c) => c !== "") ?? "";
    text.split("\n").forEach((part, i) => {
      if (i > 0) lines.push([]);
      if (part === "") return;
      const line = lines.at(-1)!;
      const last = line.at(-1);
      if (last && last[1] === cls) last[0] += part.length;
      else line.push([part.length, cls]);
    });
  };
  const part = /<span class="([^"]*)">|<\/span>|([^<]+)/g;
  for (let m = part.exec(html); m; m = part.exec(html)) {
    if (m[1] !== undefined) stack.push(classOf(m[1]));
    else if (m[2] !== undefined) push(plain(m[2]));
    else stack.pop();
  }
  return lines;
}

const ENTITIES: Record<string, string> = { "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'", "&amp;": "&" };

function plain(text: string): string {
  return text.replace(/&(?:lt|gt|quot|#x27|amp);/g, (e) => ENTITIES[e]!);
}

/** highlight.js has some forty classes; the eye needs seven. */
function classOf(names: string): string {
  for (const name of names.split(" ")) {
    switch (name.replace("hljs-", "")) {
      case "keyword":
      case "built_in":
      case "literal":
      case "selector-tag":
      case "operator":
        return "hl-keyword";
      case "string":
      case "regexp":
      case "char":
      case "link":
      case "addition":
        return "hl-string";
      case "number":
      case "bullet":
        return "hl-number";
      case "comment":
      case "quote":
      case "deletion":
        return "hl-comment";
      case "title":
      case "section":
      case "name":
      case "selector-class":
      case "selector-id":
        return "hl-title";
      case "type":
      case "class":
        return "hl-type";
      case "attr":
      case "attribute":
      case "property":
      case "variable":
      case "template-variable":
      case "symbol":
      case "meta":
      case "params":
        return name === "hljs-params" ? "" : "hl-attr";
    }
  }
  return "";
}
