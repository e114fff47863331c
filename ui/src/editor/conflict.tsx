import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMemo, useState } from "react";
import { Button } from "@/kit/button";
import { isConflict, merge3, mergedText, type Pick } from "./merge";

/** Resolves a file that changed on disk while it was edited. */
export function Conflict({
  base,
  mine,
  theirs,
  gone,
  onTake,
}: {
  base: string;
  mine: string;
  theirs: string;
  /** It was removed meanwhile. */
  gone: boolean;
  /** The text to go on with. */
  onTake: (text: string) => void;
}) {
  const chunks = useMemo(() => merge3(base, mine, theirs), [base, mine, theirs]);
  const conflicts = useMemo(() => chunks.filter(isConflict), [chunks]);
  const [picks, setPicks] = useState<Pick[]>(() => conflicts.map(() => "both"));
  return (
    <section
      aria-label={t`Changed on disk`}
      className="max-h-[60vh] overflow-y-auto border-b border-hairline bg-bg1 p-3"
    >
      <p role="alert">
        <span aria-hidden className="text-needs">
          ◆{" "}
        </span>
        {gone
          ? t`The file was deleted since you opened it. Your text was not saved.`
          : conflicts.length === 0
            ? t`The file changed since you opened it, but not in the lines you edited. Nothing was overwritten.`
            : plural(conflicts.length, {
                one: "The file changed since you opened it: # place differs in both. Nothing was overwritten.",
                other: "The file changed since you opened it: # places differ in both. Nothing was overwritten.",
              })}
      </p>
      {!gone &&
        conflicts.map((c, i) => (
          <fieldset key={i} className="mt-3 rounded-md border border-hairline p-2">
            <legend className="px-1 text-meta">
              <Trans>
                Place {i + 1} of {conflicts.length}
              </Trans>
            </legend>
            <div className="grid gap-2 md:grid-cols-2">
              <Side title={t`Yours`} lines={c.mine} />
              <Side title={t`In the file now`} lines={c.theirs} />
            </div>
            <div className="mt-2 flex flex-wrap gap-3">
              {(["mine", "theirs", "both"] as const).map((p) => (
                <label key={p} className="flex min-h-6 items-center gap-1.5">
                  <input
                    type="radio"
                    name={`place-${i}`}
                    checked={picks[i] === p}
                    onChange={() => setPicks((old) => old.map((was, k) => (k === i ? p : was)))}
                  />
                  {p === "mine" ? t`Yours` : p === "theirs" ? t`The file's` : t`Both`}
                </label>
              ))}
            </div>
          </fieldset>
        ))}
      <div className="mt-3 flex flex-wrap gap-2">
        <Button look="primary" onClick={() => onTake(gone ? mine : mergedText(chunks, picks))}>
          {gone ? t`Create it again with your text` : t`Merge both`}
        </Button>
        {!gone && (
          <Button onClick={() => onTake(theirs)}>
            <Trans>Use the file's text</Trans>
          </Button>
        )}
      </div>
    </section>
  );
}

function Side({ title, lines }: { title: string; lines: string[] }) {
  return (
    <div className="min-w-0">
      <p className="text-meta text-fg3">{title}</p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <pre tabIndex={0} className="max-h-40 overflow-auto rounded-sm bg-bg2 p-2 font-mono text-code">
        {lines.join("\n") || " "}
      </pre>
    </div>
  );
}
