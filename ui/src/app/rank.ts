import { match, wordsOf } from "@/files/fuzzy";

/** A thing the palette finds. */
export interface Findable {
  id: string;
  title: string;
  /** Further words by which it is found. */
  words?: string;
}

/** How well a thing fits typed words: each must be in its title, by its characters, or begin one of its further words. */
function score(typed: readonly string[], it: Findable): number | undefined {
  const more = it.words?.toLowerCase().split(/[\s/,()]+/) ?? [];
  let sum = -it.title.length * 0.05;
  for (const word of typed) {
    const title = match([word], it.title);
    const further = more.some((w) => w === word) ? 12 : more.some((w) => w.startsWith(word)) ? 8 : undefined;
    // Characters far apart in a title are worth less than the beginning of any word.
    const best = Math.max(title && title.score > word.length * 2 ? title.score : -1, further ?? -1);
    if (best < 0) return undefined;
    sum += best;
  }
  return sum;
}

/** What was chosen a moment ago is worth so much more than what never was. */
const RECENT = 10;

/** The things that fit what was typed, the best first; of equal ones those that were chosen last. */
export function ranked<T extends Findable>(
  typed: string,
  all: readonly T[],
  recent: readonly string[],
  most: number,
): T[] {
  const words = wordsOf(typed);
  return all
    .flatMap((it) => {
      const fits = score(words, it);
      if (fits === undefined) return [];
      const at = recent.indexOf(it.id);
      return [{ it, score: fits + (at < 0 ? 0 : RECENT * (1 - at / Math.max(1, recent.length))) }];
    })
    .sort((a, b) => b.score - a.score || (a.it.title < b.it.title ? -1 : 1))
    .slice(0, most)
    .map((r) => r.it);
}
