import { plural } from "@lingui/core/macro";
import { diffArrays } from "diff";

/** Lines that stand around a change. */
const AROUND = 3;

/** The lines that differ between two texts, with some around them: each begins with +, - or a space, and a gap with @@. */
export function lineDiff(before: string, after: string): string {
  const out: string[] = [];
  const changes = diffArrays(before.split("\n"), after.split("\n"));
  for (const [i, c] of changes.entries()) {
    if (c.added || c.removed) {
      out.push(...c.value.map((line) => (c.added ? "+" : "-") + line));
      continue;
    }
    const head = i === 0 ? [] : c.value.slice(0, AROUND);
    const tail = i === changes.length - 1 ? [] : c.value.slice(Math.max(head.length, c.value.length - AROUND));
    const left = c.value.length - head.length - tail.length;
    out.push(...head.map((line) => ` ${line}`));
    if (left > 0 && changes.length > 1)
      out.push(`@@ ${plural(left, { one: "# line is the same", other: "# lines are the same" })}`);
    out.push(...tail.map((line) => ` ${line}`));
  }
  return out.join("\n");
}
