import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import type { Schemas } from "@/api/client";
import { visible } from "@/format/text";

type Conflict = Schemas["Conflict"];

interface Props {
  conflicts: readonly Conflict[];
  /** The names of the sides. */
  ours: string;
  theirs: string;
}

/** Conflicting files, each with the places where both sides differ. */
export function Conflicts({ conflicts, ours, theirs }: Props) {
  return (
    <ul aria-label={t`Conflicting files`} className="divide-y divide-hairline rounded-md border border-hairline">
      {conflicts.map((c) => (
        <li key={c.path}>
          {c.hunks?.length ? (
            <details className="group">
              <summary className="flex cursor-pointer flex-wrap items-baseline gap-x-3 px-3 py-1.5 hover:bg-bg2">
                <span className="min-w-0 flex-1 font-mono text-code break-all">{visible(c.path)}</span>
                <span className="text-meta text-fg3">
                  {plural(c.hunks.length + (c.more_hunks ?? 0), { one: "# place", other: "# places" })}
                </span>
              </summary>
              {c.hunks.map((h) => (
                <div key={h.line} className="grid gap-px border-t border-hairline bg-hairline sm:grid-cols-2">
                  <Side name={ours} text={h.ours} />
                  <Side name={theirs} text={h.theirs} />
                </div>
              ))}
              {(c.more_hunks ?? 0) > 0 && (
                <p className="border-t border-hairline px-3 py-1.5 text-fg3">
                  <Trans>And {c.more_hunks} more.</Trans>
                </p>
              )}
            </details>
          ) : (
            <p className="flex flex-wrap items-baseline gap-x-3 px-3 py-1.5">
              <span className="min-w-0 flex-1 font-mono text-code break-all">{visible(c.path)}</span>
              <span className="text-meta text-fg3">{words(c, ours, theirs)}</span>
            </p>
          )}
        </li>
      ))}
    </ul>
  );
}

function words(c: Conflict, ours: string, theirs: string): string {
  if (c.ours && c.theirs && c.ours !== c.theirs) return t`${c.ours} in ${ours}, ${c.theirs} in ${theirs}`;
  return c.kind;
}

function Side({ name, text }: { name: string; text: string }) {
  return (
    <figure className="min-w-0 bg-bg1">
      <figcaption className="px-3 pt-1.5 font-mono text-micro text-fg3">{name}</figcaption>
      <pre
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
        className="max-h-60 overflow-auto px-3 pt-0.5 pb-2 font-mono text-code leading-[18px]"
      >
        {text || (
          <span className="text-fg3">
            <Trans>(nothing)</Trans>
          </span>
        )}
      </pre>
    </figure>
  );
}
