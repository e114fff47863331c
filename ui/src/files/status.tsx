import { t } from "@lingui/core/macro";
import type { Schemas } from "@/api/client";
import { cx } from "@/kit/cx";

interface Look {
  letter: string;
  word: string;
  color: string;
}

const STATUS: Record<Schemas["ComparedFile"]["status"], Look> & Record<string, Look> = {
  added: { letter: "A", word: t`added`, color: "text-add" },
  modified: { letter: "M", word: t`modified`, color: "text-fg2" },
  deleted: { letter: "D", word: t`deleted`, color: "text-del" },
  renamed: { letter: "R", word: t`renamed`, color: "text-accent" },
  type_changed: { letter: "T", word: t`type changed`, color: "text-accent" },
};

const UNKNOWN = { letter: "?", word: t`changed`, color: "text-fg2" };

const of = (f: { status: string }) => STATUS[f.status] ?? UNKNOWN;

export const statusWord = (f: Schemas["ComparedFile"]): string => of(f).word;

/** The letter of a change, with its word for those who ask. */
export function Status({ file, className }: { file: { status: string }; className?: string }) {
  const s = of(file);
  return (
    <span
      title={s.word}
      className={cx("inline-block w-3 shrink-0 text-center font-mono text-code", s.color, className)}
    >
      <span aria-hidden>{s.letter}</span>
      <span className="sr-only">{s.word}</span>
    </span>
  );
}
