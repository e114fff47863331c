import { t } from "@lingui/core/macro";
import { i18n } from "@/language/i18n";
import { locale } from "@/language/locale";
/** A size: "0 B", "214 KB", "1.5 MB". Thousands, as disks are sold and browsers speak. */
export function bytes(n: number): string {
  if (n < 1000) return `${n} B`;
  const units = ["KB", "MB", "GB", "TB"];
  let v = n;
  let unit = -1;
  do {
    v /= 1000;
    unit++;
  } while (v >= 999.5 && unit < units.length - 1);
  return `${v < 10 && unit > 0 ? tenths(v) : Math.round(v)} ${units[unit]}`;
}

const whole = new Intl.NumberFormat(locale());

export const count = (n: number): string => whole.format(n);

const tenth = new Intl.NumberFormat(locale(), {
  minimumFractionDigits: 1,
  maximumFractionDigits: 1,
  useGrouping: false,
});

/** A number with one digit after the point. */
export const tenths = (n: number): string => tenth.format(n);

/**
 * Makes an untrusted name safe to display: control characters, line breaks and characters that change the direction
 * of writing are shown as escapes, so that a file name cannot pretend to be another.
 */
export function visible(name: string): string {
  return name.replace(/[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g, (c) => {
    const named: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e" };
    return named[c] ?? `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/** The folder part (with its slash) and the name of a path. */
export function splitPath(path: string): { dir: string; name: string } {
  const at = path.lastIndexOf("/");
  return { dir: path.slice(0, at + 1), name: path.slice(at + 1) };
}

/** One or two letters for a face. */
export function initials(name: string): string {
  const words = name.trim().split(/\s+/).filter(Boolean);
  const first = [...(words[0] ?? "?")][0] ?? "?";
  const last = words.length > 1 ? ([...words.at(-1)!][0] ?? "") : "";
  return (first + last).toUpperCase();
}

/** A shortened commit id. */
export const short = (commit: string): string => commit.slice(0, 8);

/** git's octal mode in words: "executable", "symbolic link". */
export function mode(m: string): string {
  switch (m) {
    case "100755":
      return t`executable`;
    case "120000":
      return t`symbolic link`;
    case "160000":
      return t`submodule`;
    case "100644":
      return t`regular file`;
    default:
      return m;
  }
}

/** "a", "a and b", "a, b and c". */
export function listed(words: readonly string[]): string {
  const last = words.at(-1) ?? "";
  if (words.length < 2) return last;
  const before = words.slice(0, -1).join(", ");
  return t`${before} and ${last}`;
}

/** A label in the middle of a sentence: only English writes its nouns small. */
export const nounWithin = (label: string): string => (i18n.locale === "en" ? label.toLowerCase() : label);

/** Words that begin a label, where they go on with a sentence. */
export const within = (words: string): string => words.charAt(0).toLowerCase() + words.slice(1);

/** Words as a sentence of their own. */
export function sentence(s: string): string {
  const text = s.trim();
  if (!text) return "";
  return text[0]!.toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

/** Words that name commands between backquotes, without those. */
export const plain = (s: string): string => s.replaceAll("`", "");
