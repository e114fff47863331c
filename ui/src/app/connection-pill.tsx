import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useEffect, useState } from "react";
import { useNow } from "@/format/now";
import { bytes } from "@/format/text";
import { connection, tryNow } from "@/state/connection";
import { useStore } from "@/state/store";

const GRACE = 1000;

/** Shows that the connection is lost, when the next attempt is, and how much output was caught up. It floats, so the layout does not shift. */
export function ConnectionPill() {
  const { events, replayed } = useStore(connection);
  const now = useNow(500);
  const [late, setLate] = useState(false);

  useEffect(() => {
    if (!events.downSince) {
      setLate(false);
      return;
    }
    const t = setTimeout(() => setLate(true), Math.max(0, events.downSince + GRACE - Date.now()));
    return () => clearTimeout(t);
  }, [events.downSince]);

  const down = events.downSince > 0 && late;
  const seconds = Math.max(0, Math.ceil((events.retryAt - now) / 1000));
  return (
    <div role="status" className="pointer-events-none fixed inset-x-0 top-2 z-[45] flex justify-center">
      {down && (
        <div className="pointer-events-auto flex h-7 items-center gap-2 rounded-full bg-bg3 px-3 shadow-float">
          <span aria-hidden className="pulse-mark size-2 rounded-full bg-needs" />
          <span>
            <Trans>Reconnecting…</Trans>{" "}
            {events.phase === "waiting" && seconds > 0 ? <span aria-hidden>{seconds} s</span> : null}
          </span>
          <button type="button" onClick={() => tryNow.get()()} className="text-accent hover:underline">
            <Trans>Try now</Trans>
          </button>
        </div>
      )}
      {!down && replayed >= 0 && (
        <div className="fade-in flex h-7 items-center gap-2 rounded-full bg-bg3 px-3 shadow-float">
          <span aria-hidden className="text-merged">
            ✓
          </span>
          {replayed > 0 ? t`Back, ${bytes(replayed)} replayed` : t`Back`}
        </div>
      )}
    </div>
  );
}
