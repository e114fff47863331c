import { t } from "@lingui/core/macro";
import { useQueryClient } from "@tanstack/react-query";
import { keys } from "@/api/queries";
import { clock } from "@/format/time";
import { toast, toastError } from "@/state/toasts";
import { finish, type InboxItem, reopen, snooze } from "./api";
import { snoozeUntil } from "./inbox";

export interface Marks {
  snooze: (i: InboxItem, how: "hour" | "tomorrow") => void;
  finish: (i: InboxItem) => void;
  reopen: (i: InboxItem) => void;
}

/** Snoozes, completes and restores items. Updates optimistically and rolls back if the server refuses. */
export function useMarks(team: string): Marks {
  const client = useQueryClient();
  const key = keys.inbox(team);
  const change = async (to: (list: InboxItem[]) => InboxItem[], call: () => Promise<void>, failed: string) => {
    await client.cancelQueries({ queryKey: key });
    const before = client.getQueryData<InboxItem[]>(key);
    client.setQueryData<InboxItem[]>(key, (list) => list && to(list));
    try {
      await call();
      return true;
    } catch (error) {
      client.setQueryData(key, before);
      toastError(failed, error);
      return false;
    } finally {
      void client.invalidateQueries({ queryKey: key });
    }
  };
  const back = (i: InboxItem) =>
    void change(
      (list) => list.map((x) => (x.id === i.id ? { ...x, snoozed_until: null } : x)),
      () => reopen(i.id),
      t`The item could not be restored`,
    );
  return {
    snooze: (i, how) => {
      const until = snoozeUntil(how, Date.now());
      void change(
        (list) => list.map((x) => (x.id === i.id ? { ...x, snoozed_until: until } : x)),
        () => snooze(i.id, until),
        t`The item was not snoozed`,
      ).then(
        (ok) =>
          ok &&
          toast({
            title: t`Snoozed until ${clock(until, Date.now())}`,
            text: i.workspace_name,
            lasts: 10_000,
            actions: [{ label: t`Undo`, run: () => back(i) }],
          }),
      );
    },
    finish: (i) => {
      void change(
        (list) => list.filter((x) => x.id !== i.id),
        () => finish(i.id),
        t`The item could not be removed from the inbox`,
      ).then(
        (ok) =>
          ok &&
          toast({
            title: t`Removed from your inbox`,
            text: i.workspace_name,
            lasts: 10_000,
            actions: [{ label: t`Undo`, run: () => back(i) }],
          }),
      );
    },
    reopen: back,
  };
}
