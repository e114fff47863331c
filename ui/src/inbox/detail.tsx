import { plural, t } from "@lingui/core/macro";
import { useState } from "react";
import { visible } from "@/format/text";
import { cx } from "@/kit/cx";
import { SHORT, type Words } from "./question";

/** The subject of a question: a command, a patch, a file. Long ones are folded. It is never rendered as markup. */
export function DetailView({ words: detail, code }: { words: Words; code: boolean }) {
  const [open, setOpen] = useState(false);
  if (detail.lines.length === 0) return null;
  const lines = detail.long && !open ? detail.lines.slice(0, SHORT) : detail.lines;
  const more = detail.lines.length - SHORT;
  return (
    <>
      <pre
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
        role="region"
        aria-label={t`What it is about`}
        className={cx(
          "mt-1 overflow-auto rounded-sm break-words whitespace-pre-wrap",
          code ? "bg-bg3 px-2 py-1 text-code leading-[18px]" : "font-sans text-fg2",
          open ? "max-h-[40vh]" : "max-h-24",
        )}
      >
        {lines.map((line, i) => (
          <span key={i} className={cx("block", detail.diff && tint(line))}>
            {visible(line.replaceAll("\t", "  ")) || " "}
          </span>
        ))}
      </pre>
      {detail.long && (
        <button
          type="button"
          aria-expanded={open}
          onClick={() => setOpen(!open)}
          className="mt-0.5 block min-h-6 rounded-sm text-meta text-accent hover:underline pointer-coarse:min-h-8"
        >
          {open
            ? t`Show less`
            : more > 0
              ? t`Show ${plural(more, { one: "# more line", other: "# more lines" })}`
              : t`Show all of it`}
        </button>
      )}
    </>
  );
}

function tint(line: string): string {
  if (line.startsWith("+")) return "bg-add-bg text-add";
  return line.startsWith("-") ? "bg-del-bg text-del" : "";
}
