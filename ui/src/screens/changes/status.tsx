import type { Change } from "@/api/client";
import { cx } from "@/kit/cx";

const STATUS: Record<Change["status"], { letter: string; word: string; color: string }> = {
  added: { letter: "A", word: "added", color: "text-add" },
  untracked: { letter: "U", word: "untracked", color: "text-add" },
  modified: { letter: "M", word: "modified", color: "text-fg2" },
  deleted: { letter: "D", word: "deleted", color: "text-del" },
  renamed: { letter: "R", word: "renamed", color: "text-accent" },
  type_changed: { letter: "T", word: "type changed", color: "text-accent" },
  conflicted: { letter: "C", word: "in conflict", color: "text-needs" },
};

export const statusWord = (c: Change): string => STATUS[c.status].word;

/** The letter of a change, with its word for those who ask. */
export function Status({ change, className }: { change: Change; className?: string }) {
  const s = STATUS[change.status];
  return (
    <span
      title={s.word}
      className={cx("inline-block w-3 shrink-0 text-center font-mono text-[12px]", s.color, className)}
    >
      <span aria-hidden>{s.letter}</span>
      <span className="sr-only">{s.word}</span>
    </span>
  );
}
