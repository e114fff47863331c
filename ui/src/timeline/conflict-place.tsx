import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { CodeBlock } from "@/highlight/code";
import type { Conflict } from "./edit-words";

/** A place where later changes contradict an undo: what is there, what the edit had made of it, and what was there before. */
export function ConflictPlace({ conflict: c }: { conflict: Conflict }) {
  const states = [
    [t`Present lines`, c.present],
    [t`Lines of the edit`, c.edited],
    [t`Lines before the edit`, c.before],
  ] as const;
  return (
    <section aria-label={t`Line ${c.line}`}>
      <h3 className="text-meta font-medium">
        <Trans>Line {c.line}</Trans>
      </h3>
      {states.map(([label, text]) => (
        <div key={label} className="mt-1">
          <p className="text-meta text-fg3">{label}</p>
          {text ? (
            <CodeBlock language="" text={text.replace(/\n$/, "")} label={label} />
          ) : (
            <p>
              <Trans>None</Trans>
            </p>
          )}
        </div>
      ))}
    </section>
  );
}
