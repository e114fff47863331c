import { type QueryKey, useMutation, useQueryClient } from "@tanstack/react-query";
import { confirm, type Question } from "@/state/confirm";
import { toast, toastError } from "@/state/toasts";

export type Ask = Omit<Question, "answer">;

interface Action<V, R> {
  act: (what: V) => Promise<R>;
  /** What is asked before it is done; nothing where this gives nothing. */
  confirm?: Ask | ((what: V) => Ask | undefined | false);
  /** Queries that are read again afterwards, also when it failed: what was shown may have been out of date. */
  refresh?: readonly QueryKey[];
  /** What is said once it is done, or what follows. It is not over before that has ended. */
  done?: string | ((answer: R, what: V) => unknown);
  /** What has not happened, said with the reason when it fails. Without it the caller shows the error. */
  failed?: string | ((what: V) => string);
}

/** What a button does: it asks first where the user must confirm, runs once, and shows a toast when it fails. */
export function useAction<R, V = void>({ act, confirm: question, refresh = [], done, failed }: Action<V, R>) {
  const client = useQueryClient();
  const mutation = useMutation<R, Error, V>({
    mutationFn: (what) => act(what),
    onSuccess: async (answer, what) => {
      if (typeof done === "string") toast({ kind: "good", title: done });
      else await done?.(answer, what);
    },
    onError: (error, what) => {
      if (failed !== undefined) toastError(typeof failed === "string" ? failed : failed(what), error);
    },
    onSettled: () => Promise.all(refresh.map((queryKey) => client.invalidateQueries({ queryKey }))),
  });
  return {
    /** Asks, then does it. */
    run: async (what: V) => {
      const asked = typeof question === "function" ? question(what) : question;
      if (!asked || (await confirm(asked))) mutation.mutate(what);
    },
    busy: mutation.isPending,
    /** What it is done to, while it is done. */
    target: mutation.isPending ? mutation.variables : undefined,
    error: mutation.error,
    /** Forgets the error. */
    reset: mutation.reset,
  };
}
