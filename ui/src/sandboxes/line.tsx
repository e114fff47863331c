import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Suspense } from "react";
import type { Schemas, Workspace } from "@/api/client";
import { count } from "@/format/text";
import CostLine from "./cost-line";
import { usageLine } from "./meters";
import { networkQuery, sandboxQuery } from "./queries";
import { RemoteLine } from "./remote-line";
import { sleeps } from "./remote-words";

interface Props {
  workspace: Workspace;
  place: Schemas["Executor"] | undefined;
  onOpen: () => void;
}

/** A workspace's place in its head: name, use of resources, and warnings. */
export default function PlaceLine({ workspace: w, place, onOpen }: Props) {
  const closed = Boolean(w.deleted_at) || w.state === "archived";
  const sandbox = useQuery({ ...sandboxQuery(w.id, true), enabled: !closed });
  const network = useQuery({ ...networkQuery(w.id), enabled: !closed && Boolean(place?.network) });
  const name = place?.name ?? (w.runner_name || w.executor);
  if (closed) return <span>{name}</span>;
  const s = sandbox.data;
  const offline = s?.machine && !s.machine.online; // its figures are of another time
  const refused = network.data?.refused.filter((r) => r.allowable).length ?? 0;
  return (
    <>
      <button
        type="button"
        onClick={onOpen}
        title={place?.isolation}
        className="min-h-6 rounded-sm text-fg3 underline decoration-dotted underline-offset-2 hover:text-fg"
      >
        {name}
        <span className="sr-only">
          <Trans>: place, limits and network of this workspace</Trans>
        </span>
      </button>
      {w.place_warning && !offline && (
        <button
          type="button"
          onClick={onOpen}
          title={w.place_warning}
          className="min-h-6 rounded-sm text-needs hover:underline"
        >
          <span aria-hidden>◆ </span>
          {w.place_blocked ? t`must be moved` : w.boundary === "none" ? t`not isolated` : t`see its place`}
        </button>
      )}
      {offline && (
        <span className="text-needs">
          <span aria-hidden>○ </span>
          <Trans>offline</Trans>
        </span>
      )}
      {s?.state === "paused" && !sleeps(s) && (
        <span className="text-needs">
          <span aria-hidden>❚❚ </span>
          <Trans>paused</Trans>
        </span>
      )}
      {s?.state === "running" && !offline && (
        <>
          <span aria-hidden>·</span>
          <span className="tabular-nums">{usageLine(s)}</span>
        </>
      )}
      {s && s.usage.oom_kills > 0 && (s.state === "running" || s.state === "paused") && (
        <span className="text-needs">
          <span aria-hidden>▲ </span>
          <Trans>out of memory</Trans>
        </span>
      )}
      {s?.own_disk && <RemoteLine sandbox={s} onOpen={onOpen} />}
      <Suspense>
        <CostLine workspace={w} sandbox={s} />
      </Suspense>
      {s?.state === "running" && !offline && s.ports.length > 0 && (
        <button type="button" onClick={onOpen} className="min-h-6 rounded-sm text-accent hover:underline">
          · {s.ports.length === 1 ? t`port ${s.ports[0] ?? ""} open` : t`${count(s.ports.length)} ports open`}
        </button>
      )}
      {refused > 0 && (
        <button type="button" onClick={onOpen} className="min-h-6 rounded-sm text-needs hover:underline">
          <span aria-hidden>◆ </span>
          {refused === 1 ? t`1 host blocked` : t`${count(refused)} hosts blocked`}
        </button>
      )}
    </>
  );
}
