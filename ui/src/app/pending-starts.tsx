import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { keys, workspacesQuery } from "@/api/queries";
import { keepUnsent, sayFirst } from "@/sessions/first-prompt";
import {
  addPendingStart,
  type PendingStart,
  pendingStarts,
  takeFiles,
  takePendingStart,
} from "@/sessions/pending-start";
import { startSession } from "@/sessions/start";
import { useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";

/** Starts the agent chosen in the new-workspace dialog once its workspace is ready, on whatever page the user is. */
export function PendingStarts() {
  const team = useTeam();
  const client = useQueryClient();
  const list = useQuery(workspacesQuery(team.slug));

  useEffect(() => {
    const waiting = pendingStarts();
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
          const files = takeFiles(p.workspaceId);
          if (files) void sayFirst(session.id, p.prompt, files);
          else {
            keepUnsent(session.id, p.prompt);
            toast({ title: "The attached files were lost with the reload", text: "The prompt waits in its field." });
          }
        }
      } catch (error) {
        toastError("The session did not start", error, () => {
          addPendingStart({ ...p, at: Date.now() });
          void client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] });
        });
      }
      void client.invalidateQueries({ queryKey: keys.sessions(p.workspaceId) });
    };
    for (const p of waiting) {
      const w = list.data.find((x) => x.id === p.workspaceId);
      if (w?.state === "ready") {
        const taken = takePendingStart(p.workspaceId);
        if (taken) void start(taken);
      }
    }
  }, [list.data, client, team.slug]);
  return null;
}
