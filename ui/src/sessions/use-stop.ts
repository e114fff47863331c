import { t } from "@lingui/core/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data, type Session } from "@/api/client";
import { keys } from "@/api/queries";
import { toast, toastError } from "@/state/toasts";

/** Continues the conversation of a session that was stopped. */
async function startAgain(s: Session): Promise<void> {
  try {
    await data(api.POST("/sessions/{id}/resume", { params: { path: { id: s.id } } }));
  } catch (error) {
    toastError(t`${s.agent_name} was not started again`, error);
  }
}

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
      if (ended.can_resume)
        toast({
          title: t`${ended.agent_name} was stopped`,
          lasts: 10_000,
          actions: [{ label: t`Start again`, run: () => void startAgain(ended) }],
        });
    },
    onError: (error, s) => toastError(t`${s.agent_name} was not stopped`, error),
  });
}
