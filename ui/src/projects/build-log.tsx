import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useEffect, useRef, useState } from "react";
import { apiUrl } from "@/api/client";

/** What a build prints, as it prints it; scrolled to its end while the reader is there. */
export function BuildLog({ id, live, onEnd }: { id: string; live: boolean; onEnd: () => void }) {
  const [text, setText] = useState("");
  const [failed, setFailed] = useState(false);
  const box = useRef<HTMLPreElement>(null);
  const ended = useRef(onEnd);
  ended.current = onEnd;

  useEffect(() => {
    setText("");
    setFailed(false);
    const source = new EventSource(apiUrl(`/image-builds/${encodeURIComponent(id)}/log`));
    source.onmessage = (m) => setText((t) => `${t}${m.data}\n`.slice(-200_000));
    source.addEventListener("end", () => {
      source.close();
      if (live) ended.current();
    });
    source.onerror = () => {
      // The stream begins anew when it is opened again: what was shown would be shown twice.
      source.close();
      setFailed(true);
    };
    return () => source.close();
  }, [id, live]);

  useEffect(() => {
    const el = box.current;
    if (el && text && el.scrollHeight - el.scrollTop - el.clientHeight < 80) el.scrollTop = el.scrollHeight;
  }, [text]);

  return (
    <>
      <pre
        ref={box}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
        role="region"
        aria-label={t`Build log`}
        className="mt-2 max-h-80 overflow-auto rounded-sm bg-bg2 px-2 py-1.5 text-code leading-[18px] break-words whitespace-pre-wrap text-fg"
      >
        {text || (failed ? "" : "No output yet.")}
      </pre>
      {failed && (
        <p className="text-meta text-failed">
          <Trans>The log could not be loaded. Close it and open it again.</Trans>
        </p>
      )}
    </>
  );
}
