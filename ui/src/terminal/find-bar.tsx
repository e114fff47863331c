import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { count } from "@/format/text";
import { IconButton } from "@/kit/button";
import { Icon } from "@/kit/icon";
import type { Finder } from "./finder";
import type { TerminalHandle } from "./handle";

/** Finds text in what the browser holds of a terminal. */
export function FindBar({ handle, onClose }: { handle: TerminalHandle; onClose: () => void }) {
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const [text, setText] = useState("");
  const [regex, setRegex] = useState(false);
  const [caseSensitive, setCase] = useState(false);
  const [found, setFound] = useState({ index: -1, count: 0 });

  const [finder, setFinder] = useState<Finder>();

  // The field is there at once, so that what is typed does not go to the program; what finds it may load.
  useEffect(() => {
    let gone = false;
    void handle.find().then((f) => !gone && setFinder(f));
    return () => {
      gone = true;
    };
  }, [handle]);
  useEffect(() => finder?.onFound((index, n) => setFound({ index, count: n })), [finder]);
  useEffect(() => {
    finder?.find(text, { regex, caseSensitive, incremental: true });
  }, [finder, text, regex, caseSensitive]);
  useEffect(() => () => finder?.end(), [finder]);
  useEffect(() => () => handle.focus(), [handle]);

  const step = (back: boolean) => finder?.find(text, { regex, caseSensitive, back });
  return (
    <search className="rise-in absolute top-2 right-4 z-10 flex items-center gap-0.5 rounded-md bg-bg1 p-1 shadow-float max-md:inset-x-2">
      <input
        // biome-ignore lint/a11y/noAutofocus: opened by a key to type into
        autoFocus
        aria-label={t`Find in the terminal`}
        placeholder={t`Find`}
        value={text}
        spellCheck={false}
        onChange={(e) => setText(e.target.value)}
        onKeyDown={(e) => {
          if (e.key === "Enter") step(e.shiftKey);
          else if (e.key === "Escape") onClose();
          else return;
          e.preventDefault();
        }}
        className="control-h min-w-0 flex-1 bg-transparent px-2 outline-none md:w-48"
      />
      <span role="status" className="px-1 text-meta whitespace-nowrap text-fg3 tabular-nums">
        {text &&
          (found.count > 0 ? t`${found.index >= 0 ? count(found.index + 1) : "?"} of ${count(found.count)}` : t`None`)}
      </span>
      <IconButton label={t`Match case`} aria-pressed={caseSensitive} onClick={() => setCase((v) => !v)}>
        <span aria-hidden className="text-micro">
          <Trans>Aa</Trans>
        </span>
      </IconButton>
      <IconButton label={t`Regular expression`} aria-pressed={regex} onClick={() => setRegex((v) => !v)}>
        <span aria-hidden className="font-mono text-micro">
          .*
        </span>
      </IconButton>
      <IconButton label={t`Previous`} onClick={() => step(true)}>
        <Icon name="up" size={14} />
      </IconButton>
      <IconButton label={t`Next`} onClick={() => step(false)}>
        <Icon name="down" size={14} />
      </IconButton>
      <IconButton
        label={t`Search the output of all sessions in the workspace`}
        onClick={() =>
          void navigate({
            search: (s) => ({ ...s, tab: "history", session: undefined, at: undefined, q: text.trim() || undefined }),
          })
        }
      >
        <Icon name="search" size={14} />
      </IconButton>
      <IconButton label={t`Close`} onClick={onClose}>
        <Icon name="close" size={14} />
      </IconButton>
    </search>
  );
}
