import { t } from "@lingui/core/macro";
import { useEffect, useRef, useState } from "react";
import { tell } from "@/api/problem";
import { count } from "@/format/text";
import { IconButton } from "@/kit/button";
import { Icon } from "@/kit/icon";
import type { ReadingView } from "./diff/reading";
import type { LineRange } from "./diff/types";
import { useHits } from "./use-hits";

interface Props {
  workspaceId: string;
  view: ReadingView;
  ignoreSpace: boolean;
  onText: (text: string) => void;
  onHit: (hit: LineRange | undefined) => void;
  onClose: () => void;
}

/** Finds text in the diff. */
export function FindField({ workspaceId, view, ignoreSpace, onText, onHit, onClose }: Props) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const { hits, more, busy, error } = useHits(workspaceId, view, ignoreSpace, text);
  const hit = hits[Math.min(at, hits.length - 1)];
  const latest = useRef(hit);
  useEffect(() => {
    latest.current = hit;
  });
  const name = hit && `${hit.path}\n${hit.side}${hit.line}`;
  useEffect(() => {
    onText(text);
    return () => onText("");
  }, [text, onText]);
  useEffect(() => {
    void name; // the same place is not gone to again because files came in
    onHit(latest.current);
  }, [name, onHit]);
  const step = (by: 1 | -1) =>
    hits.length > 0 && setAt((i) => (Math.min(i, hits.length - 1) + by + hits.length) % hits.length);
  return (
    <search className="flex items-center gap-0.5">
      <input
        // biome-ignore lint/a11y/noAutofocus: opened by a key to type into
        autoFocus
        aria-label={t`Find in the changes`}
        placeholder={t`Find`}
        spellCheck={false}
        value={text}
        onChange={(e) => {
          setText(e.target.value);
          setAt(0);
        }}
        onKeyDown={(e) => {
          if (e.key === "Enter") step(e.shiftKey ? -1 : 1);
          else if (e.key === "Escape") onClose();
          else return;
          e.preventDefault();
        }}
        className="control-h w-40 min-w-0 rounded-md border border-control bg-bg1 px-2 max-sm:w-28"
      />
      <span role="status" className="px-1 text-meta whitespace-nowrap text-fg3">
        {text &&
          (hits.length > 0
            ? t`${count(Math.min(at, hits.length - 1) + 1)} of ${count(hits.length)}${more ? "+" : ""}`
            : error
              ? tell(error).message
              : busy
                ? "…"
                : t`None`)}
      </span>
      <IconButton label={t`Previous`} onClick={() => step(-1)}>
        <Icon name="up" size={14} />
      </IconButton>
      <IconButton label={t`Next`} onClick={() => step(1)}>
        <Icon name="down" size={14} />
      </IconButton>
      <IconButton label={t`Close`} onClick={onClose}>
        <Icon name="close" size={14} />
      </IconButton>
    </search>
  );
}
