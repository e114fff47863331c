import { CodeBlock } from "@/highlight/code";
import type { Conflict } from "./edit-words";

/** A place where later changes contradict an undo: what is there, what the edit had made of it, and what was there before. */
export function ConflictPlace({ conflict: c }: { conflict: Conflict }) {
  const states = [
    ["Present lines", c.present],
    ["Lines of the edit", c.edited],
    ["Lines before the edit", c.before],
  ] as const;
  return (
    <section aria-label={`Line ${c.line}`}>
      <h3 className="text-meta font-medium">Line {c.line}</h3>
      {states.map(([label, text]) => (
        <div key={label} className="mt-1">
          <p className="text-meta text-fg3">{label}</p>
          {text ? <CodeBlock language="" text={text.replace(/\n$/, "")} label={label} /> : <p>None</p>}
        </div>
      ))}
    </section>
  );
}
