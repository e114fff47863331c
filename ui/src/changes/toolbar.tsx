import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import type { ReactNode } from "react";
import type { Workspace } from "@/api/client";
import { useAction } from "@/keys/keyboard";
import { IconButton } from "@/kit/button";
import { Icon } from "@/kit/icon";
import { Kbd } from "@/kit/kbd";
import { Counts } from "@/kit/states";
import { CompareMenu } from "./compare-menu";
import type { Comparison } from "./diff/types";
import type { Sides } from "./sides";

interface Props {
  workspace: Workspace;
  comparison: Comparison;
  onCompare: (sides: Sides) => void;
  ignoreSpace: boolean;
  onIgnoreSpace: () => void;
  newer: number;
  onRefresh: () => void;
  split: boolean;
  onSplit: () => void;
  finding: ReactNode;
  onFind: () => void;
  /** Copies the link to the chosen lines; undefined while none are. */
  onLink: (() => void) | undefined;
  /** What others add. */
  added: ReactNode;
  back?: ReactNode;
  /** A phone: one column only. */
  narrow: boolean;
  /** Little room: the figures stand in the list of files. */
  tight: boolean;
  /** On a phone: above the list of the files, with no lines to be found or shown otherwise. */
  listing?: boolean;
}

/** Above the diff: what is being read, what is newer, and how it is shown. */
export function Toolbar(p: Props) {
  const { comparison: c, newer, onRefresh, split, onSplit, finding, onFind, added, back, narrow, tight, listing } = p;
  useAction("diff.split", onSplit, !narrow);
  useAction("diff.refresh", onRefresh, newer > 0);
  useAction("diff.find", onFind, !listing);
  useAction("diff.whitespace", p.onIgnoreSpace);
  return (
    <div className="flex min-h-10 flex-wrap items-center gap-x-3 gap-y-1 border-b border-hairline bg-bg1 px-3 py-1">
      {back}
      {!narrow && !tight && (
        <p className="flex flex-wrap items-baseline gap-x-2 text-meta text-fg3">
          <span className="text-fg2">{plural(c.files.length, { one: "# file", other: "# files" })}</span>
          <Counts additions={c.additions} deletions={c.deletions} />
        </p>
      )}
      <CompareMenu workspace={p.workspace} comparison={c} onChoose={p.onCompare} />
      {c.truncated && (
        <p className="text-meta text-needs">
          <Trans>Not all changed files are shown.</Trans>
        </p>
      )}
      <div role="status">
        {newer > 0 && (
          <button
            type="button"
            onClick={onRefresh}
            className="control-h flex items-center gap-1.5 rounded-md bg-bg3 px-2 text-fg hover:bg-bg2"
          >
            <Icon name="refresh" size={14} />
            <Trans>{plural(newer, { one: "# newer change", other: "# newer changes" })}, refresh</Trans>{" "}
            <Kbd keys="r" />
          </button>
        )}
      </div>
      <div className="ml-auto flex items-center gap-0.5">
        {added}
        {p.onLink && !listing && (
          <IconButton label={t`Copy link to the chosen lines (y l)`} onClick={p.onLink}>
            <Icon name="copy" />
          </IconButton>
        )}
        {!listing &&
          (finding ?? (
            <IconButton label={t`Find in the changes (/)`} onClick={onFind}>
              <Icon name="search" />
            </IconButton>
          ))}
        {!listing && (
          <IconButton label={t`Hide whitespace (w)`} aria-pressed={p.ignoreSpace} onClick={p.onIgnoreSpace}>
            <Icon name="space" />
          </IconButton>
        )}
        {!narrow && (
          <IconButton label={t`Side by side (s)`} aria-pressed={split} onClick={onSplit}>
            <Icon name="split" />
          </IconButton>
        )}
      </div>
    </div>
  );
}
