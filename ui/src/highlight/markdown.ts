/**
 * Reads the Markdown agents write into a tree that is drawn as elements: there is no way for text to become HTML. What is not
 * known stays as it was written. It takes time in proportion to the length of the text, which is why it is our own: micromark needs
 * minutes for a message made to be slow ("_a*" 20,000 times), and ends with an overflow of the stack where quotes are nested deeply.
 */
export type Inline =
  | { kind: "text"; text: string }
  | { kind: "code"; text: string }
  | { kind: "strong" | "em" | "del"; parts: Inline[] }
  | { kind: "link"; href: string; text: string }
  | { kind: "break" };

export type Block =
  | { kind: "heading"; level: number; parts: Inline[] }
  | { kind: "paragraph"; parts: Inline[] }
  | { kind: "code"; language: string; text: string }
  | { kind: "quote"; blocks: Block[] }
  | { kind: "list"; ordered: boolean; start: number; items: ListItem[] }
  | { kind: "table"; head: Inline[][]; rows: Inline[][][] }
  | { kind: "rule" };

export interface ListItem {
  /** Of a task: whether it is done. */
  done: boolean | undefined;
  blocks: Block[];
}

const FENCE = /^( {0,3})(`{3,}|~{3,})\s*([^`\s]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}(?:-[ \t]*){3,}$|^ {0,3}(?:\*[ \t]*){3,}$|^ {0,3}(?:_[ \t]*){3,}$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:\s+|$)(.*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const DIVIDER = /^ {0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
const DEEPEST = 6;

export function parseMarkdown(text: string, depth = 0): Block[] {
  const lines = text.replace(/\t/g, "    ").split("\n");
  const blocks: Block[] = [];
  let paragraph: string[] = [];
  const flush = () => {
    if (paragraph.length > 0) blocks.push({ kind: "paragraph", parts: parseInline(paragraph.join("\n")) });
    paragraph = [];
  };
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i]!;
    if (line.trim() === "") {
      flush();
      continue;
    }
    const fence = FENCE.exec(line);
    if (fence) {
      flush();
      const [, indent, mark, language] = fence;
      const body: string[] = [];
      const end = new RegExp(`^ {0,3}${mark![0] === "`" ? "`" : "~"}{${mark!.length},}\\s*$`);
      for (i++; i < lines.length && !end.test(lines[i]!); i++)
        body.push(lines[i]!.slice(leading(lines[i]!, indent!.length)));
      blocks.push({ kind: "code", language: language!.toLowerCase(), text: body.join("\n") });
      continue;
    }
    const heading = HEADING.exec(line);
    if (heading) {
      flush();
      blocks.push({ kind: "heading", level: heading[1]!.length, parts: parseInline(heading[2]!) });
      continue;
    }
    if (RULE.test(line) && paragraph.length === 0) {
      blocks.push({ kind: "rule" });
      continue;
    }
    if (QUOTE.test(line) && depth < DEEPEST) {
      flush();
      const body: string[] = [];
      for (; i < lines.length; i++) {
        const m = QUOTE.exec(lines[i]!);
        if (!m) break;
        body.push(m[1]!);
      }
      i--;
      blocks.push({ kind: "quote", blocks: parseMarkdown(body.join("\n"), depth + 1) });
      continue;
    }
    const item = ITEM.exec(line);
    if (item && depth < DEEPEST && (paragraph.length === 0 || !/\d/.test(item[2]!) || item[2]!.startsWith("1"))) {
      flush();
      const [list, next] = readList(lines, i, depth);
      blocks.push(list);
      i = next - 1;
      continue;
    }
    if (line.includes("|") && paragraph.length === 0 && i + 1 < lines.length && DIVIDER.test(lines[i + 1]!)) {
      const head = cells(line);
      if (head.length > 1 && cells(lines[i + 1]!).length === head.length) {
        const rows: Inline[][][] = [];
        for (i += 2; i < lines.length && lines[i]!.includes("|") && lines[i]!.trim() !== ""; i++) {
          const row = cells(lines[i]!).slice(0, head.length);
          while (row.length < head.length) row.push("");
          rows.push(row.map(parseInline));
        }
        i--;
        blocks.push({ kind: "table", head: head.map(parseInline), rows });
        continue;
      }
    }
    paragraph.push(line);
  }
  flush();
  return blocks;
}

const leading = (line: string, most: number): number => Math.min(line.length - line.trimStart().length, most);

function readList(lines: readonly string[], from: number, depth: number): [Block, number] {
  const first = ITEM.exec(lines[from]!)!;
  const ordered = /\d/.test(first[2]!);
  const base = first[1]!.length;
  const items: ListItem[] = [];
  let i = from;
  while (i < lines.length) {
    const m = ITEM.exec(lines[i]!);
    if (!m || /\d/.test(m[2]!) !== ordered || m[1]!.length > base + 1 || m[1]!.length < base) break;
    const inner = m[1]!.length + m[2]!.length + 1;
    const body = [m[3]!];
    let blank = false;
    for (i++; i < lines.length; i++) {
      const line = lines[i]!;
      if (line.trim() === "") {
        blank = true;
        body.push("");
        continue;
      }
      const indent = line.length - line.trimStart().length;
      if (indent <= base + 1 && (blank || ITEM.test(line) || FENCE.test(line) || HEADING.test(line))) break;
      blank = false;
      body.push(line.slice(Math.min(indent, inner)));
    }
    const task = /^\[([ xX])\]\s+/.exec(body[0]!);
    if (task) body[0] = body[0]!.slice(task[0].length);
    items.push({ done: task ? task[1] !== " " : undefined, blocks: parseMarkdown(body.join("\n"), depth + 1) });
  }
  return [{ kind: "list", ordered, start: ordered ? Number.parseInt(first[2]!, 10) : 1, items }, i];
}

function cells(line: string): string[] {
  const out: string[] = [];
  let cell = "";
  const body = line.trim().replace(/^\|/, "");
  let code = false;
  for (let i = 0; i < body.length; i++) {
    const c = body[i]!;
    if (c === "\\" && body[i + 1] === "|") {
      cell += "|";
      i++;
    } else if (c === "|" && !code) {
      out.push(cell.trim());
      cell = "";
    } else {
      if (c === "`") code = !code;
      cell += c;
    }
  }
  if (cell.trim() !== "") out.push(cell.trim());
  return out;
}

const URL_IN_TEXT = /^https?:\/\/[^\s<>"'`]+/;
const LINK = /^\[([^\][\n]{1,500})\]\(\s*<?([^\s()<>]{1,2000}(?:\([^\s()<>]*\)[^\s()<>]*)*)>?(?:\s+"[^"\n]*")?\s*\)/;
const ANGLE = /^<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/;

export function parseInline(text: string, depth = 0): Inline[] {
  const out: Inline[] = [];
  let plain = "";
  const flush = () => {
    if (plain) out.push({ kind: "text", text: plain });
    plain = "";
  };
  const push = (part: Inline) => {
    flush();
    out.push(part);
  };
  const dead = new Set<string>(); // marks that have no end in what follows
  for (let i = 0; i < text.length; ) {
    const c = text[i]!;
    const rest = () => text.slice(i, i + 4000);
    if (c === "\\" && i + 1 < text.length && /[!-/:-@[-`{-~]/.test(text[i + 1]!)) {
      plain += text[i + 1]!;
      i += 2;
      continue;
    }
    if (c === "\n") {
      const hard = plain.endsWith("  ");
      plain = plain.trimEnd();
      if (hard) push({ kind: "break" });
      else plain += " ";
      i++;
      continue;
    }
    if (c === "`") {
      const mark = /^`+/.exec(text.slice(i, i + 40))![0];
      const end = closing(text, mark, i + mark.length);
      if (end >= 0) {
        const code = text.slice(i + mark.length, end).replace(/\n/g, " ");
        push({ kind: "code", text: /^ .*[^ ].* $/.test(code) ? code.slice(1, -1) : code });
        i = end + mark.length;
      } else {
        plain += mark;
        i += mark.length;
      }
      continue;
    }
    if (c === "[" || (c === "!" && text[i + 1] === "[")) {
      const skip = c === "!" ? 1 : 0;
      const m = LINK.exec(rest().slice(skip));
      if (m) {
        push({ kind: "link", href: m[2]!, text: m[1]!.replace(/[`*]/g, "") });
        i += skip + m[0].length;
        continue;
      }
    }
    if (c === "<") {
      const m = ANGLE.exec(rest());
      if (m) {
        push({ kind: "link", href: m[1]!, text: m[1]! });
        i += m[0].length;
        continue;
      }
    }
    if (c === "h" && !/\w/.test(text[i - 1] ?? "")) {
      const m = URL_IN_TEXT.exec(rest());
      if (m) {
        const url = m[0].replace(/[.,;:!?)\]}*_]+$/, "");
        push({ kind: "link", href: url, text: url });
        i += url.length;
        continue;
      }
    }
    if ((c === "*" || c === "_" || c === "~") && depth < DEEPEST) {
      const two = text.startsWith(c + c, i);
      const mark = two ? c + c : c;
      const kind = c === "~" ? (two ? "del" : undefined) : two ? "strong" : "em";
      const inWord = c === "_" && /\w/.test(text[i - 1] ?? "");
      const after = text[i + mark.length] ?? " ";
      if (kind && !inWord && !/\s/.test(after) && !dead.has(mark)) {
        const end = emphasisEnd(text, mark, i + mark.length);
        if (end > 0) {
          push({ kind, parts: parseInline(text.slice(i + mark.length, end), depth + 1) });
          i = end + mark.length;
          continue;
        }
        dead.add(mark);
      }
      plain += mark;
      i += mark.length;
      continue;
    }
    plain += c;
    i++;
  }
  flush();
  return out;
}

/** Where a run of exactly these backticks is, or -1. */
function closing(text: string, mark: string, from: number): number {
  for (let at = text.indexOf(mark, from); at >= 0; at = text.indexOf(mark, at + 1)) {
    let end = at + mark.length;
    if (text[end] !== "`" && text[at - 1] !== "`") return at;
    while (text[end] === "`") end++;
    at = end - 1;
  }
  return -1;
}

function emphasisEnd(text: string, mark: string, from: number): number {
  for (let at = text.indexOf(mark, from); at > 0; at = text.indexOf(mark, at + 1)) {
    const single = mark.length === 1;
    if (single && (text[at + 1] === mark || text[at - 1] === mark)) {
      at++;
      continue;
    }
    if (/\s/.test(text[at - 1]!) || at === from) continue;
    if (mark.includes("_") && /\w/.test(text[at + mark.length] ?? "")) continue;
    return at;
  }
  return -1;
}

const ALIASES: Record<string, string> = {
  sh: "bash",
  shell: "bash",
  zsh: "bash",
  console: "bash",
  js: "javascript",
  jsx: "javascript",
  ts: "typescript",
  tsx: "typescript",
  py: "python",
  rb: "ruby",
  rs: "rust",
  c: "cpp",
  "c++": "cpp",
  cs: "csharp",
  "c#": "csharp",
  golang: "go",
  yml: "yaml",
  toml: "ini",
  html: "xml",
  svg: "xml",
  md: "markdown",
  docker: "dockerfile",
  make: "makefile",
  kt: "kotlin",
  scss: "css",
  jsonc: "json",
};

/** The language of the highlighter for what stands behind a fence. */
export const languageNamed = (name: string): string => ALIASES[name] ?? name;
