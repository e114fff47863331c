import type { ReactNode } from "react";
import { tell } from "@/api/problem";
import { bytes, count, mode, plural } from "@/format/text";
import { Icon } from "@/kit/icon";
import { type FileView, type Note, type Special, STEP } from "./diff/rows";

interface GapProps {
  gap: Extract<Special, { kind: "gap" }>;
  onOpen: (how: "top" | "bottom" | "all") => void;
  actions: ReactNode;
}

/** Between two hunks: what is hidden there, and the head of the hunk that follows. */
export function GapRow({ gap, onOpen, actions }: GapProps) {
  const small = gap.count >= 0 && gap.count <= STEP;
  const button =
    "flex min-h-6 items-center gap-1 rounded-sm px-1.5 whitespace-nowrap text-fg2 hover:bg-bg3 hover:text-fg";
  const h = gap.hunk;
  return (
    <div className="flex min-h-7 items-center gap-1 bg-bg1 pl-2 font-sans text-meta text-fg3">
      {gap.count !== 0 && (
        <button type="button" onClick={() => onOpen("all")} className={button} title="Show all of it">
          <Icon name="fold" size={13} />
          {gap.count < 0 ? "The rest of the file" : plural(gap.count, "unchanged line")}
        </button>
      )}
      {gap.count !== 0 && !small && gap.edge !== "top" && (
        <button
          type="button"
          onClick={() => onOpen("top")}
          className={button}
          aria-label={`Show ${STEP} lines downwards`}
          title={`${STEP} lines downwards`}
        >
          <Icon name="down" size={13} />
          {STEP}
        </button>
      )}
      {gap.count !== 0 && !small && gap.edge !== "bottom" && (
        <button
          type="button"
          onClick={() => onOpen("bottom")}
          className={button}
          aria-label={`Show ${STEP} lines upwards`}
          title={`${STEP} lines upwards`}
        >
          <Icon name="up" size={13} />
          {STEP}
        </button>
      )}
      {h && (
        <span className="min-w-0 flex-1 truncate font-mono text-[11px]">
          {gap.count === 0 && (
            <span className="px-1.5">{`@@ −${h.oldStart},${h.oldLines} +${h.newStart},${h.newLines}`}</span>
          )}
          {h.section}
        </span>
      )}
      {h && actions && <span className="ml-auto flex shrink-0 items-center gap-1 pr-2">{actions}</span>}
    </div>
  );
}

interface NoteProps {
  note: Note;
  file: FileView;
  height: number;
  onOpen: () => void;
  onRetry: () => void;
}

/** Why there are no lines to show, and what to do about it. */
export function NoteRow({ note, file: f, height, onOpen, onRetry }: NoteProps) {
  const c = f.file;
  const button = "min-h-6 text-accent hover:underline";
  const show = (
    <button type="button" onClick={onOpen} className={button}>
      Show it
    </button>
  );
  const text = (() => {
    switch (note) {
      case "loading":
        return <span className="late">Loading…</span>;
      case "error":
        return (
          <>
            <span role="alert">
              {f.loaded.state === "error" ? tell(f.loaded.error).message : "The diff could not be loaded."}
            </span>{" "}
            <button type="button" onClick={onRetry} className={button}>
              Try again
            </button>
          </>
        );
      case "folded":
        switch (c.folded) {
          case "deleted":
            return (
              <>
                The file was deleted{c.deletions > 0 ? `, ${plural(c.deletions, "line")}` : ""}.{" "}
                {!c.binary && c.deletions > 0 && show}
              </>
            );
          case "lock":
            return <>A lock file, written by a tool. {show}</>;
          case "generated":
            return <>Made by a tool. {show}</>;
          case "binary":
            return binary(f);
          case "secret":
            return "A secret's file: sessions read it, and it is shown to nobody.";
          default:
            return (
              <>
                {count(c.additions + c.deletions)} changed lines. {show}
              </>
            );
        }
      case "binary":
        return binary(f);
      case "mode":
        return `Only its mode changed: ${mode(c.old_mode)} → ${mode(c.mode)}.`;
      case "empty":
        return "An empty file.";
      case "same":
        return c.status === "renamed" ? "Renamed, with the same content." : "No lines differ.";
      case "latin":
        return "Not UTF-8: shown as Latin-1.";
      case "cut":
        return "The rest is too large to be shown.";
    }
  })();
  return (
    <div
      className="px-4 py-2.5 font-sans text-fg2"
      style={note === "loading" ? { height } : undefined}
      aria-busy={note === "loading" || undefined}
    >
      {text}
    </div>
  );
}

function binary(f: FileView): string {
  return f.file.status === "deleted"
    ? "A binary file was deleted."
    : `A binary file of ${bytes(f.file.size)}: no lines to show.`;
}
