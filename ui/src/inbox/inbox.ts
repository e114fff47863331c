import { t } from "@lingui/core/macro";
import { queryOptions, useQuery } from "@tanstack/react-query";
import { keys } from "@/api/queries";
import { useNow } from "@/format/now";
import type { MarkKind } from "@/kit/mark";
import { type InboxItem, inboxOf } from "./api";

export const inboxQuery = (team: string) =>
  queryOptions({
    queryKey: keys.inbox(team),
    queryFn: () => inboxOf(team),
    refetchInterval: 60_000, // events announce changes; this covers changes without an event, such as the end of a snooze
  });

/** What a person sees first. */
export const ORDER = ["question", "failed", "stuck", "limited", "budget", "review", "finished"] as const;

export const KINDS: Record<InboxItem["kind"], { mark: MarkKind; word: string }> = {
  question: { mark: "needs", word: t`Needs you` },
  failed: { mark: "failed", word: t`Failed` },
  stuck: { mark: "needs", word: t`Stuck` },
  limited: { mark: "stopped", word: t`Limit reached` },
  budget: { mark: "needs", word: t`At its limit` },
  review: { mark: "review", word: t`Your review` },
  finished: { mark: "review", word: t`Finished` },
};

export const isSnoozed = (i: InboxItem, now: number): boolean => i.snoozed_until !== null && i.snoozed_until > now;

/** Where in its workspace an item is seen to: a pull request that needs somebody has no session. */
export const whereOf = (i: InboxItem) => ({
  ...(i.session_id && { session: i.session_id }),
  ...(i.kind === "review" && { tab: "changes" as const }),
  ...(i.kind === "stuck" && !i.session_id && { tab: "merge" as const }),
});

/** The open items by kind, longest waiting first; finished ones newest first. */
export function waiting(list: readonly InboxItem[], now: number): InboxItem[] {
  return list
    .filter((i) => !isSnoozed(i, now))
    .sort((a, b) => {
      const kind = ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind);
      return kind || (a.kind === "finished" ? b.since - a.since : a.since - b.since);
    });
}

/** What is snoozed, the next to come back first. */
export function snoozed(list: readonly InboxItem[], now: number): InboxItem[] {
  return list.filter((i) => isSnoozed(i, now)).sort((a, b) => (a.snoozed_until ?? 0) - (b.snoozed_until ?? 0));
}

/** The number of open items: shown in the title, icon, app badge, header and inbox. */
export function useWaiting(team: string): number {
  const now = useNow();
  return waiting(useQuery(inboxQuery(team)).data ?? [], now).length;
}

/** An hour from now, or tomorrow at nine in the morning. */
export function snoozeUntil(how: "hour" | "tomorrow", now: number): number {
  if (how === "hour") return now + 3_600_000;
  const t = new Date(now);
  t.setDate(t.getDate() + 1);
  t.setHours(9, 0, 0, 0);
  return t.getTime();
}
