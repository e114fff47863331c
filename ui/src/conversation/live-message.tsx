import { useEffect, useLayoutEffect, useState } from "react";
import type { Item } from "./feed";
import { Prose } from "./prose";
import { follow, NOTHING } from "./writing";

interface Props {
  session: string;
  items: readonly Item[];
  /** It is higher than before. */
  onGrow: () => void;
}

/** What Parawork's own agent writes at this moment, until the timeline has it. */
export function LiveMessage({ session, items, onGrow }: Props) {
  const [writing, setWriting] = useState(NOTHING);
  useEffect(() => follow(session, setWriting), [session]);
  const kept = writing.id === "" || items.some((i) => i.id.startsWith(`${writing.id}/`));
  useLayoutEffect(() => {
    if (!kept && writing.parts.length > 0) onGrow();
  }, [kept, writing, onGrow]);
  if (kept) return null;
  return (
    <div className="px-4 py-1 md:px-6" aria-live="off">
      <div className="max-w-[52rem]">
        {writing.parts.map((p, i) => {
          const key = `${writing.id} ${i}`;
          if (p.kind === "text") return <Prose key={key} text={p.text} />;
          const last = i === writing.parts.length - 1;
          if (!last) return null;
          return (
            <p key={key} className="truncate text-fg3 italic">
              {p.kind === "reasoning"
                ? `Thinking: ${p.text.trimEnd().split("\n").at(-1)}`
                : `Writes a call of ${p.tool}…`}
            </p>
          );
        })}
      </div>
    </div>
  );
}
