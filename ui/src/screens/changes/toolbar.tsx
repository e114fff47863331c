import { type ReactNode, type RefObject, useEffect, useRef, useState } from "react";
import type { ChangeSet } from "@/api/client";
import type { ReviewView } from "@/diff/review";
import { useNow } from "@/format/now";
import { count, plural, short } from "@/format/text";
import { ago } from "@/format/time";
import { useAction } from "@/keys/keyboard";
import { IconButton } from "@/kit/button";
import { Icon } from "@/kit/icon";
import { Kbd } from "@/kit/kbd";
import { Counts } from "@/kit/states";
import { remember } from "@/state/remember";
import type { DiffViewHandle } from "./diff-view";
import type { useReview } from "./use-review";

interface Props {
  reading: ReturnType<typeof useReview>;
  live: ChangeSet;
  view: ReviewView;
  diff: RefObject<DiffViewHandle | null>;
  back?: ReactNode;
  /** A phone: one column only. */
  narrow: boolean;
}

/** Above the diff: what is being read, what is newer, and how it is shown. */
export function Toolbar({ reading, live, view, diff, back, narrow }: Props) {
  const now = useNow();
  const { review, newer, refresh } = reading;
  const { split, whitespace } = view.options;
  const [finding, setFinding] = useState(false);
  const additions = live.items.reduce((n, c) => n + c.additions, 0);
  const deletions = live.items.reduce((n, c) => n + c.deletions, 0);

  const toggleSplit = () => {
    remember("diff.split", !split);
    review.setOptions({ split: !split, whitespace });
  };
  const toggleWhitespace = () => review.setOptions({ split, whitespace: !whitespace });
  useAction("diff.split", toggleSplit, !narrow);
  useAction("diff.whitespace", toggleWhitespace);
  useAction("diff.refresh", refresh, newer.size > 0);
  useAction("diff.find", () => setFinding(true));

  return (
    <div className="flex min-h-10 flex-wrap items-center gap-x-3 gap-y-1 border-b border-hairline bg-bg1 px-3 py-1">
      {back}
      {!narrow && (
        <p className="flex flex-wrap items-baseline gap-x-2 text-meta text-fg3">
          <span className="text-fg2">{plural(live.items.length, "file")}</span>
          <Counts additions={additions} deletions={deletions} />
          <span>
            against <span className="font-mono text-[11px]">{short(live.base_commit)}</span>
          </span>
          {live.synced_at && <span>looked {ago(live.synced_at, now)}</span>}
        </p>
      )}
      <div role="status">
        {newer.size > 0 && (
          <button
            type="button"
            onClick={refresh}
            className="control-h flex items-center gap-1.5 rounded-md bg-bg3 px-2 text-fg hover:bg-bg2"
          >
            <Icon name="refresh" size={14} />
            {plural(newer.size, "newer change")}, refresh <Kbd keys="r" />
          </button>
        )}
      </div>
      <div className="ml-auto flex items-center gap-0.5">
        {finding ? (
          <FindField view={view} diff={diff} onClose={() => setFinding(false)} />
        ) : (
          <IconButton label="Find in the changes (/)" onClick={() => setFinding(true)}>
            <Icon name="search" />
          </IconButton>
        )}
        <IconButton label="Hide changes of white space (w)" aria-pressed={!whitespace} onClick={toggleWhitespace}>
          <Icon name="space" />
        </IconButton>
        {!narrow && (
          <IconButton label="Side by side (s)" aria-pressed={split} onClick={toggleSplit}>
            <Icon name="split" />
          </IconButton>
        )}
      </div>
    </div>
  );
}

function FindField({
  view,
  diff,
  onClose,
}: {
  view: ReviewView;
  diff: RefObject<DiffViewHandle | null>;
  onClose: () => void;
}) {
  const [text, setText] = useState("");
  const [found, setFound] = useState({ at: 0, of: 0 });
  const unloaded = view.files.filter((f) => f.loaded.state === "none" && !f.change.binary).length;
  const handle = useRef(diff);
  useEffect(() => {
    const target = handle.current;
    setFound(target.current?.find(text) ?? { at: 0, of: 0 });
    return () => {
      target.current?.find("");
    };
  }, [text]);
  const step = (by: 1 | -1) => setFound(diff.current?.findNext(by) ?? { at: 0, of: 0 });
  return (
    <search className="flex items-center gap-0.5">
      <input
        // biome-ignore lint/a11y/noAutofocus: opened by a key to type into
        autoFocus
        aria-label="Find in the changes"
        placeholder="Find"
        spellCheck={false}
        value={text}
        onChange={(e) => setText(e.target.value)}
        onKeyDown={(e) => {
          if (e.key === "Enter") step(e.shiftKey ? -1 : 1);
          else if (e.key === "Escape") {
            onClose();
            diff.current?.focus();
          } else return;
          e.preventDefault();
        }}
        className="control-h w-40 min-w-0 rounded-md border border-control bg-bg1 px-2 max-sm:w-28"
      />
      <span role="status" className="px-1 text-meta whitespace-nowrap text-fg3">
        {text && (found.of > 0 ? `${count(found.at)} of ${count(found.of)}` : "None")}
        {text && unloaded > 0 && <span title="Files that were not opened yet are not searched."> in opened files</span>}
      </span>
      <IconButton label="Previous" onClick={() => step(-1)}>
        <Icon name="up" size={14} />
      </IconButton>
      <IconButton label="Next" onClick={() => step(1)}>
        <Icon name="down" size={14} />
      </IconButton>
      <IconButton label="Close" onClick={onClose}>
        <Icon name="close" size={14} />
      </IconButton>
    </search>
  );
}
