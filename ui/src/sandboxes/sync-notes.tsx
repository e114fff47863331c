import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import type { Workspace } from "@/api/client";
import { useNow } from "@/format/now";
import { sentence } from "@/format/text";
import { Button } from "@/kit/button";
import { Shape } from "@/kit/mark";
import { useSandboxActs } from "./acts";
import { sandboxQuery } from "./queries";
import type { RemoteSandbox } from "./remote";
import { syncSaid } from "./remote-words";
import { SyncList } from "./sync-list";

/** Shown above the changes of a workspace with a remote sandbox: the sync state and unsynced files. */
export default function SyncNotes({ workspace: w }: { workspace: Workspace }) {
  const sandbox = useQuery(sandboxQuery(w.id, true));
  const now = useNow(1000);
  const { sync } = useSandboxActs(w.id);
  const s: RemoteSandbox | undefined = sandbox.data;
  if (!s?.own_disk || !s.sync) return null;
  const said = syncSaid(s.sync, now);
  const { conflicts, not_synced: left } = s.sync;
  const parts = [
    conflicts > 0 && t`${plural(conflicts, { one: "# file", other: "# files" })} changed on both sides`,
    left > 0 && t`${plural(left, { one: "# file", other: "# files" })} not synced`,
  ].filter(Boolean);
  return (
    <div className="max-h-[50%] shrink-0 overflow-y-auto border-b border-hairline bg-bg1 px-4 py-1.5">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <p className="flex min-w-0 flex-1 basis-60 flex-wrap items-baseline gap-x-2 text-meta text-fg2 tabular-nums">
          <Shape kind={said.mark} className="translate-y-px" />
          <span>{said.text}</span>
          {s.sync.state === "behind" && s.sync.reason && <span className="text-needs">{sentence(s.sync.reason)}</span>}
        </p>
        {s.state === "running" && (
          <Button busy={sync.isPending && t`Syncing`} onClick={() => sync.mutate()}>
            <Trans>Sync now</Trans>
          </Button>
        )}
      </div>
      {parts.length > 0 && (
        <details className="mt-1">
          <summary className="w-fit cursor-pointer text-needs">
            <span aria-hidden>◆ </span>
            {parts.join(", ")}
          </summary>
          <div className="mt-2 mb-1">
            <SyncList workspace={w} />
          </div>
        </details>
      )}
    </div>
  );
}
