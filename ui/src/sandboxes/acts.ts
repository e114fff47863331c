import { t } from "@lingui/core/macro";
import { type QueryClient, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { ApiError, tell } from "@/api/problem";
import { keys } from "@/api/queries";
import { confirm } from "@/state/confirm";
import { toast, toastError } from "@/state/toasts";
import { noteProblem } from "./problem";
import { type RemoteSandbox, remoteKeys } from "./remote";
import { sleeps } from "./remote-words";

/** Wakes a sandbox that fell asleep, because something for it was just written: a message, an answer. */
export function wakeFor(client: QueryClient, id: string): void {
  const s = client.getQueryData<RemoteSandbox>(keys.sandbox(id));
  if (!s || !sleeps(s)) return;
  void data(api.POST("/workspaces/{id}/wake", { params: { path: { id } } }))
    .catch((error) => noteProblem(id, error) || toastError(t`The sandbox was not woken`, error))
    .finally(() => void client.invalidateQueries({ queryKey: keys.sandbox(id) }));
}

/** Actions on a workspace's sandbox. Errors are toasts, unless the place's panel shows them. */
export function useSandboxActs(id: string) {
  const client = useQueryClient();
  const done = () => {
    void client.invalidateQueries({ queryKey: keys.sandbox(id) });
    void client.invalidateQueries({ queryKey: keys.workspace(id), exact: true });
  };
  const path = { params: { path: { id } } };
  const pause = useMutation({
    mutationFn: () => data(api.POST("/workspaces/{id}/pause", path)),
    onError: (error) => toastError(t`The sandbox was not paused`, error),
    onSettled: done,
  });
  const wake = useMutation({
    mutationFn: () => data(api.POST("/workspaces/{id}/wake", path)),
    onError: (error) => noteProblem(id, error) || toastError(t`The sandbox was not woken`, error, () => wake.mutate()),
    onSettled: done,
  });
  const end = useMutation({
    mutationFn: (discard: boolean) =>
      data(
        api.POST("/workspaces/{id}/destroy-sandbox", { params: { path: { id }, query: discard ? { discard } : {} } }),
      ),
    onError: (error) =>
      error instanceof ApiError && error.code === "sandbox_not_synced"
        ? void askDiscard(error)
        : toastError(t`The sandbox was not ended`, error),
    onSettled: done,
  });
  const sync = useMutation({
    mutationFn: () => data(api.POST("/workspaces/{id}/sync", path)),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.changes(id) });
      void client.invalidateQueries({ queryKey: remoteKeys.sync(id) });
      toast({ kind: "good", title: t`All files are synced`, lasts: 3000 });
    },
    onError: (error) => toastError(t`The files were not synced`, error, () => sync.mutate()),
    onSettled: done,
  });
  const askEnd = async (name: string, behind: boolean) => {
    const yes = await confirm({
      title: t`End the sandbox in ${name}?`,
      body: behind
        ? t`Sync is behind: unsynced files may be lost if the sandbox can no longer be read. Agents and shells in it end.`
        : t`Agents and shells in it end. Their files are synced to the server first. The next session starts a new sandbox.`,
      action: t`End`,
      danger: true,
    });
    if (yes) end.mutate(false);
  };
  const askDiscard = async (error: unknown) => {
    const yes = await confirm({
      title: t`End the sandbox and lose unsynced files?`,
      body: tell(error).message,
      action: t`End and lose files`,
      danger: true,
    });
    if (yes) end.mutate(true);
  };
  return { pause, wake, end, sync, askEnd };
}
