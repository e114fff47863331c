/** What the head of a file's diff says about its names, in wire form. */
export interface PatchName {
  from?: string;
  to?: string;
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Takes names from one line of a file's head. What git says most clearly wins: renames and ---/+++ over the first line. */
export function header(name: PatchName, bytes: Uint8Array, at: number, end: number): void {
  const line = bytes.subarray(at, end);
  const after = (start: string): Uint8Array | undefined => {
    for (let i = 0; i < start.length; i++) if (line[i] !== start.charCodeAt(i)) return undefined;
    return line.subarray(start.length);
  };
  let rest = after("diff --git ");
  if (rest) {
    const both = sameTwice(rest);
    if (both !== undefined) name.from = name.to = both;
    return;
  }
  rest = after("rename from ") ?? after("copy from ");
  if (rest) {
    name.from = wire(unquoted(rest));
    return;
  }
  rest = after("rename to ") ?? after("copy to ");
  if (rest) {
    name.to = wire(unquoted(rest));
    return;
  }
  rest = after("--- ");
  if (rest) {
    const n = sided(rest);
    if (n !== undefined) name.from = n;
    return;
  }
  rest = after("+++ ");
  if (rest) {
    const n = sided(rest);
    // A file that was deleted goes by the name it had.
    if (n !== undefined) name.to = n;
    else if (name.from !== undefined) name.to = name.from;
  }
}

/** The name behind a/ or b/; undefined for /dev/null. git puts a tab behind names with spaces. */
function sided(rest: Uint8Array): string | undefined {
  let raw = rest;
  if (raw[0] !== 34 && raw.at(-1) === 9) raw = raw.subarray(0, -1);
  raw = unquoted(raw);
  return raw[0] === 47 /* /dev/null */ ? undefined : wire(raw.subarray(2));
}

/** The name in "a/NAME b/NAME", where both are the same. */
function sameTwice(rest: Uint8Array): string | undefined {
  if (rest[0] === 34) {
    const close = closing(rest);
    return close < 0 ? undefined : wire(unquoted(rest.subarray(0, close + 1)).subarray(2));
  }
  const half = (rest.length - 1) / 2;
  if (!Number.isInteger(half) || rest[half] !== 32) return undefined;
  const a = rest.subarray(2, half);
  const b = rest.subarray(half + 3);
  return a.length === b.length && a.every((c, i) => c === b[i]) ? wire(a) : undefined;
}

/** Where the quote that opens a text ends. */
function closing(text: Uint8Array): number {
  for (let i = 1; i < text.length; i++) {
    if (text[i] === 92) i++;
    else if (text[i] === 34) return i;
  }
  return -1;
}

const ESCAPES: Record<number, number> = { 97: 7, 98: 8, 116: 9, 110: 10, 118: 11, 102: 12, 114: 13, 34: 34, 92: 92 };

/** The bytes of a name that git may have put in quotes, as in C. */
export function unquoted(raw: Uint8Array): Uint8Array {
  if (raw[0] !== 34) return raw;
  const out: number[] = [];
  for (let i = 1; i < raw.length && raw[i] !== 34; i++) {
    if (raw[i] !== 92) {
      out.push(raw[i]!);
      continue;
    }
    const c = raw[++i] ?? 92;
    if (c >= 48 && c <= 51) {
      out.push(((c - 48) << 6) | ((raw[i + 1]! - 48) << 3) | (raw[i + 2]! - 48));
      i += 2;
    } else out.push(ESCAPES[c] ?? c);
  }
  return Uint8Array.from(out);
}

/** The wire form of a path: text as it is, and every byte that is no UTF-8 as a letter of its own (see guest/path.go). */
export function wire(raw: Uint8Array): string {
  try {
    const text = decoder.decode(raw);
    if (!/[\uf780-\uf7ff]/.test(text)) return text;
  } catch {
    // byte by byte below
  }
  let out = "";
  for (let i = 0; i < raw.length; ) {
    const n = letter(raw, i);
    let text = "";
    try {
      if (n > 0) text = decoder.decode(raw.subarray(i, i + n));
    } catch {
      text = "";
    }
    if (text !== "" && !/[\uf780-\uf7ff]/.test(text)) {
      out += text;
      i += n;
      continue;
    }
    const until = i + (text === "" ? 1 : n);
    for (; i < until; i++) out += String.fromCharCode(0xf700 + raw[i]!);
  }
  return out;
}

/** How many bytes the letter that begins here has; 0 when none begins here. */
function letter(raw: Uint8Array, i: number): number {
  const b = raw[i]!;
  const n = b < 0x80 ? 1 : b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : b >= 0xc2 ? 2 : 0;
  return i + n <= raw.length ? n : 0;
}
