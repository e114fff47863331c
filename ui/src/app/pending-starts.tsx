import { t } from "@lingui/core/macro";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import type { Session } from "@/api/client";
import { keys, workspacesQuery } from "@/api/queries";
import { keepUnsent, sayFirst } from "@/sessions/first-prompt";
import { dropFiles, heldFiles } from "@/sessions/held-files";
import {
  firstStarts,
  type PendingStart,
  pendingStarts,
  setFirstStart,
  takePendingStart,
} from "@/sessions/pending-start";
import { startSession } from "@/sessions/start";
import { useStore } from "@/state/store";
import { useTeam } from "@/state/team";
import { toast } from "@/state/toasts";

/** Starts the agent chosen in the composer once its workspace is ready, on whatever page the user is. */
export function PendingStarts() {
  const team = useTeam();
  const client = useQueryClient();
  const list = useQuery(workspacesQuery(team.slug));
  const wanted = useStore(firstStarts);

  useEffect(() => {
    const waiting = Object.keys(wanted).length > 0 ? pendingStarts() : [];
    if (waiting.length === 0 || !list.data) return;
    const start = async (p: PendingStart) => {
      try {
        // With the idempotency key, a second page gets the same session.
        const session = await startSession(
          p.workspaceId,
          {
            agent: p.agent,
            prompt: p.files ? "" : p.prompt,
            argv: p.argv,
            account_id: p.account,
            ...(p.permissions ? { permissions: p.permissions, confirm_no_boundary: p.confirmed } : {}),
          },
          `first-${p.workspaceId}-${p.at}`,
        );
        if (p.files) {
          const files = await heldFiles(p.workspaceId);
          if (files) void sayFirst(session.id, p.prompt, files).then((sent) => sent && dropFiles(p.workspaceId));
          else {
            keepUnsent(session.id, p.prompt);
            toast({ title: t`This browser did not keep the attached files`, text: t`The prompt waits in its field.` });
          }
        }
        client.setQueryData<Session[]>(keys.sessions(p.workspaceId), (list) => [
          session,
          ...(list ?? []).filter((x) => x.id !== session.id),
        ]);
        setFirstStart(p.workspaceId, undefined);
      } catch (error) {
        // Its page says why, and offers to try again.
        setFirstStart(p.workspaceId, { start: p, error });
      }
      void client.invalidateQueries({ queryKey: keys.sessions(p.workspaceId) });
    };
    for (const [id, f] of Object.entries(wanted)) {
      // Another window starts it.
      if (f.since === undefined && f.error === undefined && !waiting.some((p) => p.workspaceId === id))
        setFirstStart(id, undefined);
    }
    for (const p of waiting) {
      const w = list.data.find((x) => x.id === p.workspaceId);
      if (w?.state === "ready") {
        const taken = takePendingStart(p.workspaceId);
        if (!taken) continue;
        setFirstStart(taken.workspaceId, { start: taken, since: Date.now() });
        void start(taken);
      }
    }
  }, [list.data, client, wanted]);
  return null;
}
