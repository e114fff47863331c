import { t } from "@lingui/core/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data, type Session } from "@/api/client";
import { keys } from "@/api/queries";
import { toastError } from "@/state/toasts";

/** Stops a session: asks its processes to exit, and kills them after a grace period. */
export function useStop(workspaceId: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (s: Session) => data(api.POST("/sessions/{id}/stop", { params: { path: { id: s.id } }, body: {} })),
    onSuccess: (ended) => {
      client.setQueryData<Session[]>(keys.sessions(workspaceId), (list) =>
        list?.map((s) => (s.id === ended.id ? ended : s)),
      );
      void client.invalidateQueries({ queryKey: keys.sessions(workspaceId) });
    },
    onError: (error, s) => toastError(t`${s.agent_name} was not stopped`, error),
  });
}
