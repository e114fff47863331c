const LONGEST = 60; // characters of a name that is made from a prompt

/** A name for a workspace from its prompt: the beginning of its first line, without Markdown. "" when there is nothing to name it after. */
export function nameFrom(prompt: string): string {
  const line = prompt
    .split("\n")
    .map((l) => l.replace(/^[\s#>*-]+/, "").trim())
    .find((l) => l !== "");
  const words = (line ?? "")
    .replace(/[`*_]/g, "")
    .replace(/\s+/g, " ")
    .replace(/[\s.,:;]+$/, "");
  const all = [...words];
  if (all.length <= LONGEST) return words;
  const cut = all.slice(0, LONGEST + 1).join("");
  const space = cut.lastIndexOf(" ");
  return (space > LONGEST / 2 ? cut.slice(0, space) : all.slice(0, LONGEST).join("")).replace(/[\s.,:;]+$/, "");
}

/** The file that is being mentioned before the cursor: where its @ is, and what is written of its path. */
export function mentionAt(text: string, cursor: number): { start: number; path: string } | undefined {
  const found = /(?:^|\s)@([^\s@]*)$/.exec(text.slice(0, cursor));
  return found ? { start: cursor - found[1]!.length - 1, path: found[1]! } : undefined;
}
