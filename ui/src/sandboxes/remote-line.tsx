import { plural } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useNow } from "@/format/now";
import { until } from "@/format/time";
import { Shape } from "@/kit/mark";
import type { RemoteSandbox } from "./remote";
import { sleeps, syncSaid } from "./remote-words";

/** How long before a sandbox falls asleep, or its run ends, to show it. */
const SOON = 5 * 60_000;
const RUN_SOON = 30 * 60_000;

/** A remote sandbox in the workspace head: whether its files are synced, and what is about to happen. */
export function RemoteLine({ sandbox: s, onOpen }: { sandbox: RemoteSandbox; onOpen: () => void }) {
  const now = useNow(1000);
  const live = s.state === "running";
  const sync = s.sync && (live || s.state === "paused") ? syncSaid(s.sync, now) : undefined;
  const trouble = (s.sync?.conflicts ?? 0) + (s.sync?.not_synced ?? 0);
  return (
    <>
      {sleeps(s) && (
        <span>
          <span aria-hidden>❚❚ </span>
          <Trans>asleep</Trans>
        </span>
      )}
      {sync && (
        <span className="inline-flex items-baseline gap-1.5 tabular-nums" title={s.sync?.reason || undefined}>
          <span aria-hidden>·</span>
          <Shape kind={sync.mark} className="translate-y-px" />
          {sync.text}
        </span>
      )}
      {trouble > 0 && (
        <button type="button" onClick={onOpen} className="min-h-6 rounded-sm text-needs hover:underline">
          <span aria-hidden>◆ </span>
          {plural(trouble, { one: "# file needs attention", other: "# files need attention" })}
        </button>
      )}
      {live && s.idle_at && s.idle_at - now < SOON && (
        <span className="text-needs tabular-nums">
          <Trans>· sleeps {until(s.idle_at, now)}</Trans>
        </span>
      )}
      {live && s.run_ends_at && s.run_ends_at - now < RUN_SOON && (
        <span className="tabular-nums">
          <Trans>· saved and restarted {until(s.run_ends_at, now)}</Trans>
        </span>
      )}
    </>
  );
}
