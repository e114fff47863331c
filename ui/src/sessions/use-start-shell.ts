import { t } from "@lingui/core/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { SHELL } from "@/agents/built-in";
import type { Session } from "@/api/client";
import { keys } from "@/api/queries";
import { serveProblem } from "@/sandboxes/problem";
import { toastError } from "@/state/toasts";
import { startSession } from "./start";

/** Opens a shell, and says so once the workspace's sessions have it. */
export function useStartShell(workspaceId: string, onStarted: (s: Session) => void) {
  const client = useQueryClient();
  const mutation = useMutation({
    mutationFn: () => startSession(workspaceId, { agent: SHELL }),
    onSuccess: (s) => {
      client.setQueryData<Session[]>(keys.sessions(workspaceId), (list) => [
        s,
        ...(list ?? []).filter((x) => x.id !== s.id),
      ]);
      void client.invalidateQueries({ queryKey: keys.sessions(workspaceId) });
      onStarted(s);
    },
    onError: (error) =>
      serveProblem(error) || toastError(t`The shell could not be opened`, error, () => mutation.mutate()),
  });
  return mutation;
}
