import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Popover } from "radix-ui";
import type { ReactElement } from "react";
import { api, data, type Session } from "@/api/client";
import { keys } from "@/api/queries";
import { useNow } from "@/format/now";
import { exact } from "@/format/time";
import { Button } from "@/kit/button";
import { cx } from "@/kit/cx";
import { Mark } from "@/kit/mark";
import { useTeam } from "@/state/team";
import { toastError } from "@/state/toasts";
import { basis, ordered, saysOf, since, sourceOf } from "./evidence";
import { hasEnded, sessionMark } from "./sessions";

interface Props {
  session: Session;
  trigger: ReactElement;
  open: boolean;
  onOpenChange: (open: boolean) => void;
}

type Correction = "working" | "waiting" | "idle" | "auto";

const CORRECTIONS: readonly (readonly [Correction, string])[] = [
  ["working", t`Working`],
  ["waiting", t`Needs you`],
  ["idle", t`Idle`],
];

/** How a session's state is known, and a way to correct it. */
export default function StatePopover({ session, trigger, open, onOpenChange }: Props) {
  return (
    <Popover.Root open={open} onOpenChange={onOpenChange}>
      <Popover.Trigger asChild>{trigger}</Popover.Trigger>
      <Popover.Portal>
        <Popover.Content
          align="start"
          sideOffset={4}
          collisionPadding={8}
          aria-label={t`How this state is known`}
          className="rise-in z-50 max-h-(--radix-popover-content-available-height) w-[min(400px,calc(100vw-16px))] overflow-y-auto rounded-md bg-bg1 p-3 shadow-float outline-none"
        >
          <Inside session={session} />
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}

function Inside({ session }: { session: Session }) {
  const team = useTeam();
  const now = useNow(1000);
  const client = useQueryClient();
  // Repeated evidence does not change the state, so there is no event: poll while open.
  const fresh = useQuery({
    queryKey: ["session", session.id, "state"],
    queryFn: () => data(api.GET("/sessions/{id}", { params: { path: { id: session.id } } })),
    initialData: session,
    initialDataUpdatedAt: 0,
    refetchInterval: 2000,
  });
  const s = fresh.data;
  const mark = sessionMark(s);
  const correct = useMutation({
    mutationFn: (state: Correction) =>
      data(api.POST("/sessions/{id}/state", { params: { path: { id: s.id } }, body: { state } })),
    onSuccess: (corrected) => {
      client.setQueryData(["session", session.id, "state"], corrected);
      void client.invalidateQueries({ queryKey: keys.sessions(s.workspace_id) });
    },
    onError: (error) => toastError(t`The state was not corrected`, error),
  });
  const byHand = s.state_source === "person";
  return (
    <>
      <p className="flex flex-wrap items-baseline gap-x-2">
        <Mark kind={mark.mark} word={mark.word} />
        <span className="text-meta text-fg3" title={exact(s.state_at)}>
          <Trans>for {since(s.state_at, now)}</Trans>
        </span>
      </p>
      {s.state_reason && <p className="mt-1 break-words">{s.state_reason}</p>}
      {!hasEnded(s) && <p className="mt-1 text-meta text-fg2">{basis(s, now)}</p>}
      {s.evidence.length > 0 && (
        <ul aria-label={t`Evidence`} className="mt-2 flex flex-col gap-1 border-t border-hairline pt-2 text-meta">
          {ordered(s.evidence).map((e) => (
            <li key={e.source} className={cx("grid grid-cols-[minmax(0,1fr)_auto] gap-x-3", !e.counts && "text-fg3")}>
              <span className="min-w-0 break-words">
                {sourceOf(e)}: {saysOf(e)}
                {e.text && <span className={e.counts ? "text-fg2" : undefined}> – {e.text}</span>}
                {!e.counts && (
                  <span>
                    {" "}
                    <Trans>(outdated)</Trans>
                  </span>
                )}
              </span>
              <time dateTime={new Date(e.at).toISOString()} title={exact(e.at)} className="tabular-nums">
                {since(e.at, now)}
              </time>
            </li>
          ))}
        </ul>
      )}
      {!hasEnded(s) && team.can("terminal.type") && (
        <div className="mt-2 flex flex-wrap items-center gap-1.5 border-t border-hairline pt-2">
          <span className="mr-1 text-meta text-fg2">{byHand ? t`Set by hand:` : t`Wrong? Set the state:`}</span>
          {CORRECTIONS.filter(([state]) => state !== s.state).map(([state, word]) => (
            <Button key={state} disabled={correct.isPending} onClick={() => correct.mutate(state)}>
              {word}
            </Button>
          ))}
          {byHand && (
            <Button disabled={correct.isPending} onClick={() => correct.mutate("auto")}>
              <Trans>Decide automatically</Trans>
            </Button>
          )}
        </div>
      )}
    </>
  );
}
