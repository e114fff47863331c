import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import type { ReactNode } from "react";
import type { Workspace } from "@/api/client";
import { hourly, usd } from "@/format/money";
import { useNow } from "@/format/now";
import { sentence } from "@/format/text";
import { ago, until } from "@/format/time";
import { Button } from "@/kit/button";
import { Mark } from "@/kit/mark";
import { useTeam } from "@/state/team";
import { useSandboxActs } from "./acts";
import { Meters } from "./meters";
import { offlineWords } from "./offline";
import type { RemoteSandbox } from "./remote";
import { sandboxSaid, sizeName, stillWords, syncSaid } from "./remote-words";
import { SyncList } from "./sync-list";

/** A remote sandbox: its state, remaining time, sync state and cost. */
export function RemotePanel({
  workspace: w,
  sandbox: s,
  name,
}: {
  workspace: Workspace;
  sandbox: RemoteSandbox;
  name: string;
}) {
  const team = useTeam();
  const now = useNow(1000);
  const acts = useSandboxActs(w.id);
  const said = sandboxSaid(s);
  const offline = s.machine && !s.machine.online ? s.machine : undefined;
  const live = s.state === "running" && !offline;
  const still = s.state === "paused" && !offline;
  const sync = s.sync ? syncSaid(s.sync, now) : undefined;
  const may = team.can("terminal.type");
  return (
    <>
      <div className="mb-3 flex flex-wrap items-center gap-x-3 gap-y-2">
        {offline ? <Mark kind="idle" word={t`Offline`} /> : <Mark kind={said.mark} word={said.text} />}
        <span className="min-w-0 flex-1 basis-60 text-fg2">
          {offline &&
            `${offlineWords({ name: offline.name, since: offline.offline_since ?? null, reason: "" }, now)}. `}
          {still ? stillWords(s, now) : sentence(s.state_reason)}{" "}
          {live && s.started_at ? t`Created ${ago(s.started_at, now)}${s.pooled ? t`, from the pool` : ""}.` : ""}
        </span>
      </div>
      {may && (live || still) && (
        <div className="mb-3 flex flex-wrap gap-2">
          {still ? (
            <Button look="primary" busy={acts.wake.isPending && t`Waking`} onClick={() => acts.wake.mutate()}>
              <Trans>Wake</Trans>
            </Button>
          ) : (
            <>
              <Button
                busy={acts.sync.isPending && t`Syncing`}
                onClick={() => acts.sync.mutate()}
                title={t`Sync all files to the server now`}
              >
                <Trans>Sync now</Trans>
              </Button>
              <Button
                busy={acts.pause.isPending && t`Pausing`}
                onClick={() => acts.pause.mutate()}
                title={t`All files are synced, then agents are suspended and cost nothing`}
              >
                <Trans>Pause</Trans>
              </Button>
            </>
          )}
          <Button
            look="danger"
            busy={acts.end.isPending && t`Ending`}
            onClick={() => void acts.askEnd(name, s.sync?.state === "behind")}
          >
            <Trans>End</Trans>
          </Button>
        </div>
      )}
      {live && <Meters sandbox={s} />}
      <dl className="mt-3 grid grid-cols-2 gap-x-6 gap-y-3 sm:grid-cols-4">
        {sync && (
          <Fact label={t`Files`} more={s.sync?.state === "behind" ? sentence(s.sync.reason) : undefined}>
            <Mark kind={sync.mark} word={sync.text} className="whitespace-normal" />
          </Fact>
        )}
        {s.size.cpus > 0 && <Fact label={t`Size`}>{sizeName(s.size)}</Fact>}
        {w.cost_nano !== null && (w.cost_nano > 0 || s.price_nano_per_hour > 0) && (
          <Fact
            label={t`Cost so far`}
            more={live && s.price_nano_per_hour > 0 && t`at ${hourly(s.price_nano_per_hour)} an hour`}
          >
            {usd(w.cost_nano)}
          </Fact>
        )}
        {live && s.idle_at && (
          <Fact label={t`Falls asleep`} more={t`if idle`}>
            {until(s.idle_at, now)}
          </Fact>
        )}
        {live && s.run_ends_at && (
          <Fact label={t`This run ends`} more={t`saved, then continues in a new run`}>
            {until(s.run_ends_at, now)}
          </Fact>
        )}
      </dl>
      {s.sync && s.sync.conflicts + s.sync.not_synced > 0 && (
        <div className="mt-3">
          <p className="mb-1 text-needs">
            <span aria-hidden>◆ </span>
            {plural(s.sync.conflicts + s.sync.not_synced, {
              one: "# file needs attention",
              other: "# files need attention",
            })}
          </p>
          <SyncList workspace={w} />
        </div>
      )}
    </>
  );
}

function Fact({ label, more, children }: { label: string; more?: ReactNode; children: ReactNode }) {
  return (
    <div className="min-w-0">
      <dt className="text-meta text-fg3">{label}</dt>
      <dd className="tabular-nums">
        {children}
        {more && <span className="block text-meta break-words text-fg3">{more}</span>}
      </dd>
    </div>
  );
}
