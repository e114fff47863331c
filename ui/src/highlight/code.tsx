import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useEffect, useState } from "react";
import { nounWithin } from "@/format/text";
import { IconButton } from "@/kit/button";
import { cx } from "@/kit/cx";
import { Icon } from "@/kit/icon";
import { copyText } from "@/kit/states";
import { highlightText } from "./highlight";
import { segments, type Tokens } from "./segments";

/** Lines shown at first. */
const SHOWN = 40;

/** Code in fixed width, coloured when the highlighter knows the language; a long one is cut until asked for. */
export function CodeBlock({ language, text, label = t`Code` }: { language: string; text: string; label?: string }) {
  const [tokens, setTokens] = useState<readonly Tokens[]>([]);
  const [all, setAll] = useState(false);
  useEffect(() => {
    let gone = false;
    setTokens([]);
    if (language) void highlightText(language, text).then((t) => !gone && setTokens(t));
    return () => {
      gone = true;
    };
  }, [language, text]);
  const lines = text.split("\n");
  const shown = all ? lines : lines.slice(0, SHOWN);
  return (
    <div className="group/code relative">
      <pre
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
        role="region"
        aria-label={label}
        className="max-h-[32rem] overflow-auto rounded-sm bg-bg2 px-2.5 py-2 font-mono text-code leading-[18px] whitespace-pre text-fg"
      >
        {shown.map((line, i) => (
          <span key={i}>
            {segments(line, tokens[i], [], []).map((s, k) =>
              s.cls ? (
                <span key={k} className={s.cls}>
                  {s.text}
                </span>
              ) : (
                s.text
              ),
            )}
            {i + 1 < shown.length && "\n"}
          </span>
        ))}
      </pre>
      <IconButton
        label={t`Copy the ${nounWithin(label)}`}
        onClick={() => void copyText(text, t`the ${nounWithin(label)}`)}
        className="absolute! top-1 right-1 bg-bg2! opacity-0 group-focus-within/code:opacity-100 group-hover/code:opacity-100 pointer-coarse:opacity-100"
      >
        <Icon name="copy" size={14} />
      </IconButton>
      {lines.length > SHOWN && (
        <button
          type="button"
          onClick={() => setAll((v) => !v)}
          className="min-h-6 text-meta text-accent hover:underline"
        >
          {all ? t`Show less` : t`Show ${plural(lines.length - SHOWN, { one: "# more line", other: "# more lines" })}`}
        </button>
      )}
    </div>
  );
}

/** The lines of a small diff. */
export function DiffBlock({ diff, cut }: { diff: string; cut: boolean }) {
  const [all, setAll] = useState(false);
  const lines = diff.replace(/\n$/, "").split("\n");
  const shown = all ? lines : lines.slice(0, 2 * SHOWN);
  return (
    <div>
      <div
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
        role="region"
        aria-label={t`Lines changed`}
        className="max-h-[32rem] overflow-auto rounded-sm border border-hairline py-1 font-mono text-code leading-[18px]"
      >
        {shown.map((line, i) => {
          const sign = line[0];
          const add = sign === "+";
          const del = sign === "-";
          if (line.startsWith("@@"))
            return (
              <div key={i} className="bg-bg1 px-2 text-fg3">
                {line}
              </div>
            );
          return (
            <div key={i} className={cx("flex", add && "bg-add-bg", del && "bg-del-bg")}>
              <span className={cx("w-5 shrink-0 text-center select-none", add && "text-add", del && "text-del")}>
                <span aria-hidden>{add ? "+" : del ? "−" : ""}</span>
                <span className="sr-only">{add ? t`added ` : del ? t`removed ` : ""}</span>
              </span>
              <span className="diff-line min-w-0 flex-1 pr-2">{add || del || sign === " " ? line.slice(1) : line}</span>
            </div>
          );
        })}
      </div>
      {lines.length > 2 * SHOWN && (
        <button
          type="button"
          onClick={() => setAll((v) => !v)}
          className="min-h-6 text-meta text-accent hover:underline"
        >
          {all
            ? t`Show less`
            : t`Show ${plural(lines.length - 2 * SHOWN, { one: "# more line", other: "# more lines" })}`}
        </button>
      )}
      {cut && (
        <p className="text-meta text-fg3">
          <Trans>Truncated: only the beginning was saved.</Trans>
        </p>
      )}
    </div>
  );
}
