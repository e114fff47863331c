/** A text that fits what was typed: how well, and which of its characters. */
export interface Match {
  score: number;
  /** Positions in the text, in order. */
  at: number[];
}

const START = 8; // the character begins a word
const NEXT = 5; // it follows the one before
const NAME = 4; // it is in the last part of a path
const MOST_RANKED = 5000;
const GAP = 0.05; // for each character between two

const separator = (c: number) => c === 47 || c === 95 || c === 45 || c === 46 || c === 32 || c === 58;
const upper = (c: number) => c >= 65 && c <= 90;
const digit = (c: number) => c >= 48 && c <= 57;

/** Whether the character at i begins a word: after a separator, at a capital after a small letter, at the first digit. */
function begins(text: string, i: number): boolean {
  if (i === 0) return true;
  const before = text.charCodeAt(i - 1);
  const c = text.charCodeAt(i);
  return separator(before) || (upper(c) && !upper(before)) || (digit(c) && !digit(before));
}

/** Whether the characters of a word, in small letters, are in a text in small letters in their order. */
export function fits(word: string, lower: string): boolean {
  let at = -1;
  for (let i = 0; i < word.length; i++) {
    at = lower.indexOf(word[i]!, at + 1);
    if (at < 0) return false;
  }
  return true;
}

function place(word: string, text: string, lower: string, name: number): Match | undefined {
  // A whole word is better than its characters anywhere: in the name first, and where it begins one.
  for (let from = lower.lastIndexOf(word), best = -1; ; from = lower.lastIndexOf(word, from - 1)) {
    if (from < 0) {
      if (best < 0) break;
      return run(word, text, best, name);
    }
    if (best < 0 || (begins(text, from) && from >= name) || (begins(text, from) && best < name)) best = from;
    if (from === 0) return run(word, text, best, name);
  }
  // Its characters from the end backwards: the last parts of a path say most.
  const at = new Array<number>(word.length);
  let i = lower.length;
  for (let k = word.length - 1; k >= 0; k--) {
    const c = word[k]!;
    let found = i > 0 ? lower.lastIndexOf(c, i - 1) : -1;
    // Where the character begins a word a little earlier, and the rest still fits, that is what was meant.
    for (let j = found, tries = 0; j >= 0 && tries < 4 && !begins(text, j); tries++) {
      j = j > 0 ? lower.lastIndexOf(c, j - 1) : -1;
      if (j >= 0 && begins(text, j) && fits(word.slice(0, k), lower.slice(0, j))) {
        found = j;
        break;
      }
    }
    if (found < 0) return undefined;
    at[k] = found;
    i = found;
  }
  let score = 0;
  at.forEach((p, k) => {
    score += 1 + (begins(text, p) ? START : 0) + (p >= name ? NAME : 0);
    if (k > 0) score += p === at[k - 1]! + 1 ? NEXT : -Math.min(3, (p - at[k - 1]! - 1) * GAP);
  });
  return { score, at };
}

function run(word: string, text: string, from: number, name: number): Match {
  const at = Array.from(word, (_, k) => from + k);
  const whole = from >= name ? NAME * word.length : 0;
  const exact = from === name && /^(\.|$)/.test(text.slice(from + word.length)) ? 30 : 0;
  return {
    score: word.length * (1 + NEXT) + (begins(text, from) ? START * 2 : 0) + whole + exact,
    at,
  };
}

/** The words of what was typed, in small letters. */
export const wordsOf = (typed: string): string[] => typed.toLowerCase().split(/\s+/).filter(Boolean);

/** How well a text fits all words; undefined when one does not fit. Short texts are better than long ones. */
export function match(words: readonly string[], text: string, lower = text.toLowerCase()): Match | undefined {
  // Some letters have more than one character in small: then positions would not be those of the text.
  const shown = lower.length === text.length ? text : lower;
  const name = lower.lastIndexOf("/") + 1;
  const at = new Set<number>();
  let score = -lower.length * 0.02;
  for (const word of words) {
    const m = fits(word, lower) ? place(word, shown, lower, name) : undefined;
    if (!m) return undefined;
    score += m.score;
    for (const p of m.at) at.add(p);
  }
  return { score, at: [...at].sort((a, b) => a - b) };
}

/** Paths, with what is needed to search them many times. */
export class PathIndex {
  private readonly lower: string[];
  private before: { words: string[]; of: Int32Array } | undefined;

  constructor(readonly paths: readonly string[]) {
    this.lower = paths.map((p) => p.toLowerCase());
  }

  /** Of very many that fit, as for a single letter, those that are worth ranking: first the ones with the word in their name. */
  private hopeful(kept: readonly number[], word: string): readonly number[] {
    if (kept.length <= MOST_RANKED) return kept;
    const named: number[] = [];
    const others: number[] = [];
    for (const i of kept) {
      const text = this.lower[i]!;
      const into = text.lastIndexOf(word) > text.lastIndexOf("/") ? named : others;
      if (into.length < MOST_RANKED) into.push(i);
      if (named.length === MOST_RANKED) break;
    }
    return [...named, ...others].slice(0, MOST_RANKED);
  }

  /** The best paths for what was typed, and how many fit at all. With whole, each word must be in the path as it is. */
  find(typed: string, most: number, whole = false): { items: { path: string; at: number[] }[]; total: number } {
    const words = wordsOf(typed);
    if (words.length === 0) return { items: [], total: 0 };
    const has = (word: string, text: string) => (whole ? text.includes(word) : fits(word, text));
    // Who types on narrows what was found before.
    const old = this.before;
    const narrows =
      old && !whole && old.words.length <= words.length && old.words.every((w, i) => words[i]!.startsWith(w));
    const from = narrows ? old.of : undefined;
    const count = from?.length ?? this.lower.length;
    const kept: number[] = [];
    for (let k = 0; k < count; k++) {
      const i = from ? from[k]! : k;
      const text = this.lower[i]!;
      let all = true;
      for (const word of words)
        if (!has(word, text)) {
          all = false;
          break;
        }
      if (all) kept.push(i);
    }
    if (!whole) this.before = { words, of: Int32Array.from(kept) };
    const ranked: { path: string; at: number[]; score: number }[] = [];
    for (const i of this.hopeful(kept, words[0]!)) {
      const m = match(words, this.paths[i]!, this.lower[i]!);
      if (m || whole) ranked.push({ path: this.paths[i]!, at: m?.at ?? [], score: m?.score ?? 0 });
    }
    ranked.sort((a, b) => b.score - a.score || (a.path < b.path ? -1 : 1));
    return { items: ranked.slice(0, most).map(({ path, at }) => ({ path, at })), total: kept.length };
  }
}
