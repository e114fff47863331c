import type { ITheme } from "@xterm/xterm";

/** A run of text that looks the same. Colours are CSS colours; undefined: the default one. */
export interface Run {
  text: string;
  color?: string;
  background?: string;
  bold?: boolean;
  dim?: boolean;
  italic?: boolean;
  underline?: boolean;
  strike?: boolean;
}

const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"] as const;
const BRIGHT = [
  "brightBlack",
  "brightRed",
  "brightGreen",
  "brightYellow",
  "brightBlue",
  "brightMagenta",
  "brightCyan",
  "brightWhite",
] as const;

/** A colour of the palette. */
function indexed(i: number, theme: ITheme): string | undefined {
  if (i < 8) return theme[NAMES[i] ?? "black"];
  if (i < 16) return theme[BRIGHT[i - 8] ?? "brightBlack"];
  if (i >= 232)
    return `rgb(${Array(3)
      .fill((i - 232) * 10 + 8)
      .join(",")})`;
  const level = (n: number) => (n === 0 ? 0 : n * 40 + 55);
  const n = i - 16;
  return `rgb(${level(Math.floor(n / 36))},${level(Math.floor(n / 6) % 6)},${level(n % 6)})`;
}

interface Look extends Omit<Run, "text"> {
  inverse?: boolean;
  hidden?: boolean;
}

/** Reads a line in which SGR sequences stand between the characters. */
export function readSgr(line: string, theme: ITheme): Run[] {
  const runs: Run[] = [];
  let look: Look = {};
  let at = 0;
  for (const m of line.matchAll(/\x1b\[([\d;:]*)m/g)) {
    push(line.slice(at, m.index));
    at = m.index + m[0].length;
    look = apply(look, m[1] ?? "", theme);
  }
  push(line.slice(at));
  return runs;

  function push(text: string): void {
    if (!text) return;
    const { inverse, hidden, ...run } = look;
    const color = inverse ? (run.background ?? theme.background) : run.color;
    const background = inverse ? (run.color ?? theme.foreground) : run.background;
    runs.push({ ...run, text: hidden ? " ".repeat(text.length) : text, color, background });
  }
}

function apply(before: Look, params: string, theme: ITheme): Look {
  let look = { ...before };
  const all = params.split(/;/).map((p) => p.split(":").map((n) => Number(n) || 0));
  for (let i = 0; i < all.length; i++) {
    const [code = 0, ...sub] = all[i] ?? [];
    if (code === 0) look = {};
    else if (code === 1) look.bold = true;
    else if (code === 2) look.dim = true;
    else if (code === 3) look.italic = true;
    else if (code === 4) look.underline = sub[0] !== 0 || sub.length === 0;
    else if (code === 21) look.underline = true;
    else if (code === 7) look.inverse = true;
    else if (code === 8) look.hidden = true;
    else if (code === 9) look.strike = true;
    else if (code === 22) look = { ...look, bold: false, dim: false };
    else if (code === 23) look.italic = false;
    else if (code === 24) look.underline = false;
    else if (code === 27) look.inverse = false;
    else if (code === 28) look.hidden = false;
    else if (code === 29) look.strike = false;
    else if (code >= 30 && code <= 37) look.color = indexed(code - 30, theme);
    else if (code >= 90 && code <= 97) look.color = indexed(code - 82, theme);
    else if (code >= 40 && code <= 47) look.background = indexed(code - 40, theme);
    else if (code >= 100 && code <= 107) look.background = indexed(code - 92, theme);
    else if (code === 39) look.color = undefined;
    else if (code === 49) look.background = undefined;
    else if (code === 38 || code === 48 || code === 58) {
      const rest = sub.length > 0 ? sub : all.slice(i + 1, i + 5).map((p) => p[0] ?? 0);
      const [kind] = rest;
      let color: string | undefined;
      if (kind === 5) color = indexed(rest[1] ?? 0, theme);
      else if (kind === 2) color = `rgb(${(sub.length > 4 ? rest.slice(2, 5) : rest.slice(1, 4)).join(",")})`;
      if (sub.length === 0) i += kind === 5 ? 2 : 4;
      if (code === 38) look.color = color;
      else if (code === 48) look.background = color;
    }
  }
  return look;
}
