import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import type { ReactNode } from "react";
import { Status } from "@/files/status";
import { bytes, mode, splitPath, visible } from "@/format/text";
import { cx } from "@/kit/cx";
import { Icon } from "@/kit/icon";
import { Counts, copyText } from "@/kit/states";
import { type FileView, isFolded } from "./diff/rows";

interface Props {
  file: FileView;
  onFold: () => void;
  onViewed: () => void;
  /** Shows every line; not offered where all are there. */
  onAll?: () => void;
  actions: ReactNode;
  /** The copy that stays at the top while its lines scroll below it. */
  floating?: boolean;
}

/** The head of a file in the diff: what it is called, what happened to it, how much. */
export function FileHead({ file: f, onFold, onViewed, onAll, actions, floating }: Props) {
  const c = f.file;
  const { dir, name } = splitPath(c.path);
  const folded = isFolded(f);
  const modes = c.status === "modified" && c.old_mode !== c.mode ? `${mode(c.old_mode)} → ${mode(c.mode)}` : "";
  const full = visible(c.path);
  const quiet =
    "grid size-6 shrink-0 place-items-center rounded-sm text-fg3 hover:bg-bg3 hover:text-fg pointer-coarse:size-11";
  return (
    <div
      className={cx(
        "flex min-h-9 items-center gap-2 px-2 font-sans text-body",
        floating ? "bg-bg2" : "border-y border-hairline bg-bg2",
      )}
    >
      <button
        type="button"
        onClick={onFold}
        aria-expanded={!folded}
        aria-label={`${folded ? t`Expand` : t`Collapse`} ${full}`}
        className="grid size-6 shrink-0 place-items-center rounded-sm text-fg2 hover:bg-bg3 pointer-coarse:size-11"
      >
        <Icon name={folded ? "chevronRight" : "chevronDown"} size={14} />
      </button>
      <Status file={c} />
      <p className="min-w-0 flex-1 truncate font-mono text-code" title={full}>
        {c.old_path && <span className="text-fg3">{visible(c.old_path)} → </span>}
        <span className="text-fg3">{visible(dir)}</span>
        <span className="text-fg">{visible(name)}</span>
      </p>
      {modes && <span className="hidden text-meta text-fg2 sm:inline">{modes}</span>}
      {c.binary ? (
        <span className="text-meta whitespace-nowrap text-fg3">
          <Trans>binary, {bytes(c.size)}</Trans>
        </span>
      ) : (
        <Counts additions={c.additions} deletions={c.deletions} className="text-meta" />
      )}
      {onAll && !folded && (
        <button
          type="button"
          aria-label={t`Show every line of ${full}`}
          title={t`Show every line`}
          onClick={onAll}
          className={cx(quiet, "max-sm:hidden")}
        >
          <Icon name="fold" size={13} />
        </button>
      )}
      <button
        type="button"
        aria-label={t`Copy the path ${full}`}
        title={t`Copy the path`}
        onClick={() => void copyText(c.path, t`the path`)}
        className={cx(quiet, "max-sm:hidden")}
      >
        <Icon name="copy" size={13} />
      </button>
      {actions}
      <button
        type="button"
        aria-pressed={f.viewed}
        aria-label={t`Viewed ${full}`}
        onClick={onViewed}
        className="flex min-h-6 shrink-0 items-center gap-1.5 rounded-sm px-1.5 text-meta text-fg2 hover:bg-bg3 pointer-coarse:min-h-11"
      >
        <Tick on={f.viewed} />
        <span className="max-sm:hidden">
          <Trans>Viewed</Trans>
        </span>
      </button>
    </div>
  );
}

/** A box that is ticked or not, as a picture. */
export function Tick({ on }: { on: boolean }) {
  return (
    <span
      aria-hidden
      className={cx(
        "grid size-3 place-items-center rounded-[3px] border",
        on ? "border-transparent bg-fill text-white" : "border-control",
      )}
    >
      {on && <Icon name="check" size={10} />}
    </span>
  );
}
