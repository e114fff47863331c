/** Splits a command line like a shell: handles quotes and backslashes, expands nothing. */
export function splitCommand(line: string): string[] {
  const out: string[] = [];
  let word = "";
  let open = false;
  let quote = "";
  for (let i = 0; i < line.length; i++) {
    const c = line[i]!;
    if (quote) {
      if (c === quote) quote = "";
      else if (c === "\\" && quote === '"' && '"\\$`'.includes(line[i + 1] ?? " ")) word += line[++i];
      else word += c;
    } else if (c === '"' || c === "'") {
      quote = c;
      open = true;
    } else if (c === "\\" && i + 1 < line.length) {
      word += line[++i];
      open = true;
    } else if (/\s/.test(c)) {
      if (open) out.push(word);
      word = "";
      open = false;
    } else {
      word += c;
      open = true;
    }
  }
  if (open) out.push(word);
  return out;
}
