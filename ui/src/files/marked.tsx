import type { ReactNode } from "react";
import { visible } from "@/format/text";

function marked(text: string, from: number, at: ReadonlySet<number>): ReactNode[] {
  const out: ReactNode[] = [];
  for (let i = 0; i < text.length; ) {
    const on = at.has(from + i);
    let end = i + 1;
    while (end < text.length && at.has(from + end) === on) end++;
    const part = visible(text.slice(i, end));
    out.push(
      on ? (
        <b key={i} className="font-semibold text-accent">
          {part}
        </b>
      ) : (
        part
      ),
    );
    i = end;
  }
  return out;
}

/** A path, its name first, with the characters that fit what was typed. */
export function Marked({ path, at }: { path: string; at: readonly number[] }) {
  const name = path.lastIndexOf("/") + 1;
  const on = new Set(at);
  return (
    <>
      <span className="max-w-full shrink-0 truncate">{marked(path.slice(name), name, on)}</span>
      <span className="min-w-0 truncate text-meta text-fg3">{marked(path.slice(0, Math.max(0, name - 1)), 0, on)}</span>
    </>
  );
}
