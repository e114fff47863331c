import { t } from "@lingui/core/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data, type Schemas } from "@/api/client";
import { keys } from "@/api/queries";
import { toastError } from "@/state/toasts";
import { type Prompt, reordered } from "./prompts";

/** What can be done with the prompts of a session's queue. */
export function usePrompts(workspaceId: string, sessionId: string) {
  const client = useQueryClient();
  const key = keys.prompts(workspaceId, sessionId);
  const settled = () => void client.invalidateQueries({ queryKey: key });
  const put = (p: Prompt) =>
    client.setQueryData<Prompt[]>(key, (list) => list?.map((x) => (x.id === p.id ? { ...p, waits: x.waits } : x)));

  const edit = useMutation({
    mutationFn: ({ id, ...body }: { id: string } & Schemas["PromptEdit"]) =>
      data(api.PATCH("/prompts/{id}", { params: { path: { id } }, body })),
    onMutate: ({ id, position }) => {
      const before = client.getQueryData<Prompt[]>(key);
      if (position !== undefined) client.setQueryData<Prompt[]>(key, (l) => l && reordered(l, id, position));
      return before;
    },
    onError: (error, _v, before) => {
      if (before) client.setQueryData(key, before);
      toastError(t`The prompt was not changed`, error);
    },
    onSuccess: put,
    onSettled: settled,
  });
  const cancel = useMutation({
    mutationFn: (p: Prompt) => data(api.DELETE("/prompts/{id}", { params: { path: { id: p.id } } })),
    onError: (error) => toastError(t`The prompt was not cancelled`, error),
    onSuccess: put,
    onSettled: settled,
  });
  return { edit, cancel };
}
