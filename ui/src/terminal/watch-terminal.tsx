import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useEffect, useRef, useState } from "react";
import type { Schemas } from "@/api/client";
import { useNow } from "@/format/now";
import { duration, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Icon } from "@/kit/icon";
import { useStore } from "@/state/store";
import { TerminalHandle } from "./handle";

interface Props {
  watched: Schemas["Watched"];
  /** The server lets nobody look any more: ask why. */
  onEnded: () => unknown;
}

/** The terminal with a line above it that says what it is, and that one only looks. */
export default function WatchTerminal(props: Props) {
  const link = props.watched.link_id;
  const [handle, setHandle] = useState<TerminalHandle | undefined>();
  useEffect(() => {
    const made = new TerminalHandle({ sessionId: link, workspaceId: "", writer: false, shell: false, link });
    setHandle(made);
    return () => made.dispose();
  }, [link]);
  return handle ? <View {...props} handle={handle} /> : null;
}

function View({ watched: w, onEnded, handle }: Props & { handle: TerminalHandle }) {
  const now = useNow(10_000);
  const host = useRef<HTMLDivElement>(null);
  const view = useStore(handle.view);
  const phase = view.link.phase;
  useEffect(() => {
    const place = host.current;
    if (!place) return;
    void handle.attach(place);
    return () => handle.detach(place);
  }, [handle]);
  useEffect(() => {
    if (phase === "denied" || phase === "gone") onEnded();
  }, [phase, onEnded]);
  const left = w.expires_at - now;
  return (
    <main className="flex h-full min-h-0 flex-col bg-bg0">
      <header className="flex flex-wrap items-baseline gap-x-3 gap-y-0.5 border-b border-hairline bg-bg1 px-4 py-2">
        <h1 className="min-w-0 font-semibold break-words">{w.workspace.name}</h1>
        <span className="font-mono text-code text-fg3">{w.workspace.key}</span>
        <span className="text-fg2">
          {w.session.agent_name} · {w.team}
        </span>
        <span className="ml-auto text-meta text-fg3" title={exact(w.expires_at)}>
          <Trans>View only. {left > 0 ? t`The link ends in ${duration(left)}.` : t`The link ends now.`}</Trans>
        </span>
      </header>
      <div className="term-frame relative bg-(--term-bg) min-h-0 min-w-0 flex-1">
        <div
          ref={host}
          data-terminal={w.link_id}
          className="absolute inset-y-1.5 right-0 left-3 overflow-auto max-md:left-1.5"
        />
        {view.scrolledUp && (
          <Button className="absolute right-5 bottom-3 bg-bg1 shadow-float" onClick={() => handle.scrollToEnd()}>
            <Icon name="down" size={14} />
            <Trans>Jump to latest</Trans>
          </Button>
        )}
      </div>
      <p role="status" className="border-t border-hairline bg-bg1 px-4 py-1 text-meta text-fg3 empty:hidden">
        {view.exit || phase === "ended"
          ? t`The session has ended.`
          : phase === "waiting"
            ? t`The connection was lost. Trying again…`
            : phase === "denied" || phase === "gone"
              ? t`The connection was closed. Reload the page to try again.`
              : ""}
      </p>
    </main>
  );
}
