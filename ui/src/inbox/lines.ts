const FRAME = /[\u2500-\u257f\u2580-\u259f]/g;

/** The last lines of a screen as text to read on a narrow page: without frames, trailing space and runs of empty lines. */
export function readable(lines: readonly string[], most = 30): string[] {
  const out: string[] = [];
  for (const raw of lines) {
    // A frame drawn for 120 columns is noise at 40; what stands inside it is not.
    const line = raw.replace(FRAME, " ").replace(/\s+$/, "");
    const drawn = raw.trim() !== "" && line.trim() === "";
    if (drawn) continue;
    if (line === "" && (out.length === 0 || out.at(-1) === "")) continue;
    out.push(line);
  }
  while (out.at(-1) === "") out.pop();
  return dedent(out.slice(-most));
}

/** Takes away the indent all lines share: it costs width and says nothing. */
function dedent(lines: string[]): string[] {
  const full = lines.filter((l) => l !== "");
  const indent = Math.min(...full.map((l) => l.length - l.trimStart().length), 40);
  return full.length > 0 && indent > 0 ? lines.map((l) => l.slice(indent)) : lines;
}
