// Keysyms of X for keys that write no character.
const NAMED: Record<string, number> = {
  Enter: 0xff0d,
  Backspace: 0xff08,
  Tab: 0xff09,
  Escape: 0xff1b,
  Delete: 0xffff,
  ArrowLeft: 0xff51,
  ArrowUp: 0xff52,
  ArrowRight: 0xff53,
  ArrowDown: 0xff54,
};

/** The keysym of a named key, if it is one of those that phones have. */
export const keysymOfKey = (key: string): number | undefined => NAMED[key];

/** The keysyms that type a text. */
export function keysymsOf(text: string): number[] {
  return Array.from(text, (c) => {
    const code = c.codePointAt(0) ?? 0;
    if (c === "\n") return 0xff0d;
    return code < 0x100 ? code : 0x01000000 | code;
  });
}

/** What somebody asks to open: a page, or a program with its arguments, in which quotes keep words together. */
export function program(text: string): { url: string } | { argv: string[] } | undefined {
  const t = text.trim();
  if (!t) return undefined;
  if (/^https?:\/\//i.test(t)) return { url: t };
  const argv = Array.from(t.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g), (m) => m[1] ?? m[2] ?? m[3] ?? "");
  return { argv };
}
