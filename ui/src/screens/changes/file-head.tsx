import { type FileView, isFolded } from "@/diff/rows";
import { bytes, mode, splitPath, visible } from "@/format/text";
import { cx } from "@/kit/cx";
import { Icon } from "@/kit/icon";
import { Counts, copyText } from "@/kit/states";
import { Status } from "./status";

interface Props {
  file: FileView;
  onFold: () => void;
  onViewed: () => void;
  /** The copy that stays at the top while its lines scroll below it; hidden from screen readers. */
  floating?: boolean;
}

/** The head of a file in the diff: what it is called, what happened to it, how much. */
export function FileHead({ file: f, onFold, onViewed, floating }: Props) {
  const c = f.change;
  const { dir, name } = splitPath(c.path);
  const folded = isFolded(f);
  const modes = c.old_mode && c.mode && c.old_mode !== c.mode ? `${mode(c.old_mode)} → ${mode(c.mode)}` : "";
  const full = visible(c.path);
  return (
    <div
      aria-hidden={floating || undefined}
      className={cx(
        "flex min-h-9 items-center gap-2 px-2 font-sans text-[13px]",
        !floating && "border-y border-hairline bg-bg2",
      )}
    >
      <button
        type="button"
        tabIndex={floating ? -1 : undefined}
        onClick={onFold}
        aria-expanded={!folded}
        aria-label={`${folded ? "Unfold" : "Fold"} ${full}`}
        className="grid size-6 shrink-0 place-items-center rounded-sm text-fg2 hover:bg-bg3 pointer-coarse:size-11"
      >
        <Icon name={folded ? "chevronRight" : "chevronDown"} size={14} />
      </button>
      <Status change={c} />
      <p className="min-w-0 flex-1 truncate font-mono text-[12px]" title={full}>
        {c.old_path && <span className="text-fg3">{visible(c.old_path)} → </span>}
        <span className="text-fg3">{visible(dir)}</span>
        <span className="text-fg">{visible(name)}</span>
      </p>
      {modes && <span className="hidden text-meta text-fg2 sm:inline">{modes}</span>}
      {c.binary ? (
        <span className="text-meta text-fg3">binary, {bytes(c.size)}</span>
      ) : (
        <Counts additions={c.additions} deletions={c.deletions} className="text-meta" />
      )}
      <button
        type="button"
        tabIndex={floating ? -1 : undefined}
        aria-label={`Copy the path ${full}`}
        title="Copy the path"
        onClick={() => void copyText(c.path, "the path")}
        className="grid size-6 shrink-0 place-items-center rounded-sm text-fg3 hover:bg-bg3 hover:text-fg max-sm:hidden"
      >
        <Icon name="copy" size={13} />
      </button>
      <button
        type="button"
        tabIndex={floating ? -1 : undefined}
        aria-pressed={f.viewed}
        aria-label={`Viewed ${full}`}
        onClick={onViewed}
        className="flex min-h-6 shrink-0 items-center gap-1.5 rounded-sm px-1.5 text-meta text-fg2 hover:bg-bg3 pointer-coarse:min-h-11"
      >
        <span
          aria-hidden
          className={cx(
            "grid size-3 place-items-center rounded-[3px] border",
            f.viewed ? "border-transparent bg-fill text-white" : "border-control",
          )}
        >
          {f.viewed && <Icon name="check" size={10} />}
        </span>
        Viewed
      </button>
    </div>
  );
}
