import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { useNow } from "@/format/now";
import { Button } from "@/kit/button";
import { useSandboxActs } from "@/sandboxes/acts";
import { offlineWords } from "@/sandboxes/offline";
import { sandboxQuery } from "@/sandboxes/queries";
import type { RemoteSandbox } from "@/sandboxes/remote";
import { sleeps, stillWords } from "@/sandboxes/remote-words";
import { useTeam } from "@/state/team";
import type { TerminalHandle } from "@/terminal/handle";

/** Shown below a terminal whose sandbox is paused: since when, and how to continue. The screen stays as it was. */
export default function AsleepBar({ workspaceId, handle }: { workspaceId: string; handle: TerminalHandle }) {
  const sandbox = useQuery(sandboxQuery(workspaceId, true));
  const s = sandbox.data;
  if (s?.machine && !s.machine.online) return <Away machine={s.machine} handle={handle} />;
  if (!s?.own_disk || s.state !== "paused") return null;
  return <Still workspaceId={workspaceId} sandbox={s} handle={handle} />;
}

/** The machine is offline: input cannot reach it, and must not arrive later unexpectedly. */
function Away({ machine: m, handle }: { machine: NonNullable<RemoteSandbox["machine"]>; handle: TerminalHandle }) {
  const now = useNow();
  useEffect(() => handle.whileAsleep(() => {}), [handle]);
  return (
    <p role="status" className="border-t border-hairline bg-bg2 px-4 py-1.5 text-fg2">
      <span aria-hidden>○ </span>
      <Trans>
        {offlineWords({ name: m.name, since: m.offline_since ?? null, reason: "" }, now)}. What you type now is not
        sent.
      </Trans>
    </p>
  );
}

function Still({
  workspaceId,
  sandbox: s,
  handle,
}: {
  workspaceId: string;
  sandbox: RemoteSandbox;
  handle: TerminalHandle;
}) {
  const team = useTeam();
  const now = useNow();
  const { wake } = useSandboxActs(workspaceId);
  const may = team.can("terminal.type");
  const light = sleeps(s);
  const { mutate, isPending } = wake;
  useEffect(
    () => handle.whileAsleep(may && light ? () => !isPending && mutate() : () => {}),
    [handle, may, light, isPending, mutate],
  );
  return (
    <div className="flex min-h-9 flex-wrap items-center gap-x-3 gap-y-1 border-t border-hairline bg-bg2 px-4 py-1">
      <p role="status" className="min-w-0 flex-1 basis-60 text-fg2">
        <span aria-hidden>❚❚ </span>
        {isPending ? t`Waking. What you type now is not sent.` : stillWords(s, now)}
      </p>
      {may && (
        <Button busy={isPending && t`Waking`} onClick={() => mutate()}>
          <Trans>Wake</Trans>
        </Button>
      )}
    </div>
  );
}
