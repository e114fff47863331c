import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { Suspense } from "react";
import { api, data, type Schemas, type Workspace } from "@/api/client";
import { executorsQuery, keys } from "@/api/queries";
import { useNow } from "@/format/now";
import { count, sentence } from "@/format/text";
import { ago } from "@/format/time";
import { Button } from "@/kit/button";
import { Dialog, DialogBody } from "@/kit/dialog";
import { lazy } from "@/kit/part";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { DANGER, Danger, onDangerous } from "@/machines/danger";
import { useTeam } from "@/state/team";
import { toast } from "@/state/toasts";
import { LimitsForm } from "./limits-form";
import { Meters } from "./meters";
import { Network } from "./network";
import { OwnTerms } from "./own-terms";
import { Ports } from "./ports";
import { limitsQuery, placeKeys, sandboxQuery } from "./queries";
import { portsQuery } from "./remote";
import { RemotePanel } from "./remote-panel";
import { StepRow } from "./steps";
import { findPlace } from "./which";
import { limitsInWords, whole } from "./words";

const WhyHere = lazy(() => import("./why").then((m) => ({ default: m.WhyHere })));

/** A workspace's place: its isolation, use of resources and network access. */
export default function PlaceDialog({ workspace: w, onClose }: { workspace: Workspace; onClose: () => void }) {
  const team = useTeam();
  const executors = useQuery(executorsQuery(team.slug));
  const place = findPlace(executors.data, w);
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const move = team.can("workspace.edit") && (
    <Button className="self-start" onClick={() => void navigate({ search: (s) => ({ ...s, dialog: "move" }) })}>
      <Trans>Move to another place…</Trans>
    </Button>
  );
  return (
    <Dialog
      open
      onClose={onClose}
      wide
      title={t`Place of ${w.key}: ${place?.name ?? (w.runner_name || w.executor)}`}
      about={place ? sentence(place.isolation) : undefined}
    >
      <DialogBody className="flex flex-col gap-6 pb-5" focusable>
        {w.place_warning && (
          <div className="flex flex-wrap items-center justify-between gap-2 rounded-md border border-needs px-3 py-2">
            <p className="min-w-0 flex-1 basis-60">
              <span aria-hidden className="text-needs">
                ◆{" "}
              </span>
              {w.place_warning}
            </p>
            {move}
          </div>
        )}
        {onDangerous(w) && !w.place_warning && (
          <p className="rounded-md border border-failed px-3 py-2">
            <Danger /> {DANGER}
          </p>
        )}
        {w.runner_id && (
          <p className="-mt-3">
            <Link
              to="/$team/machines/$machine"
              params={{ team: team.slug, machine: w.runner_id }}
              className="inline-block min-h-6 leading-6 text-accent hover:underline"
            >
              <Trans>About {w.runner_name || t`this machine`}</Trans>
            </Link>
          </p>
        )}
        {place?.warning && <p className="text-needs">{place.warning}</p>}
        <Now workspace={w} name={place?.name ?? (w.runner_name || w.executor)} />
        <section aria-labelledby="place-why">
          <h2 id="place-why" className="mb-2 text-title font-semibold">
            <Trans>Why here?</Trans>
          </h2>
          <Suspense fallback={<Skeleton rows={3} label={t`Loading why it is here`} />}>
            <WhyHere workspaceId={w.id} />
          </Suspense>
        </section>
        <PortsOf workspace={w} />
        <section aria-labelledby="place-network">
          <h2 id="place-network" className="mb-2 text-title font-semibold">
            <Trans>Network</Trans>
          </h2>
          {w.runner_id ? (
            <p className="text-fg2">
              <Trans>The machine's owner decides what agents can reach from there.</Trans>
            </p>
          ) : place && !place.network ? (
            <p className="text-fg2">
              <Trans>Not restricted: agents can reach everything this server can reach.</Trans>
            </p>
          ) : (
            <Network workspace={w} />
          )}
        </section>
        {place && (place.sizes.length > 0 || (place.own_disk && place.fallback)) && (
          <OwnTerms workspace={w} place={place} />
        )}
        <OwnLimits workspace={w} sized={place !== undefined && place.sizes.length > 0} />
        {!w.place_warning && move}
      </DialogBody>
    </Dialog>
  );
}

/** The sandbox as it is, with its figures. */
function Now({ workspace: w, name }: { workspace: Workspace; name: string }) {
  const team = useTeam();
  const client = useQueryClient();
  const now = useNow();
  const sandbox = useQuery(sandboxQuery(w.id, true));
  const done = () => {
    void client.invalidateQueries({ queryKey: keys.sandbox(w.id) });
    void client.invalidateQueries({ queryKey: keys.workspace(w.id), exact: true });
  };
  const pause = useMutation({
    mutationFn: () => data(api.POST("/workspaces/{id}/pause", { params: { path: { id: w.id } } })),
    onSettled: done,
  });
  const wake = useMutation({
    mutationFn: () => data(api.POST("/workspaces/{id}/wake", { params: { path: { id: w.id } } })),
    onSettled: done,
  });
  const s = sandbox.data;
  const live = s?.state === "running" || s?.state === "paused";
  return (
    <section aria-labelledby="place-now">
      <h2 id="place-now" className="mb-2 text-title font-semibold">
        <Trans>Now</Trans>
      </h2>
      {sandbox.isPending ? (
        <Skeleton rows={2} label={t`Loading the sandbox`} />
      ) : !s ? (
        <p className="text-fg2">
          <Trans>Nothing is running yet. The first session or command creates the sandbox.</Trans>
        </p>
      ) : s.own_disk && s.state === "starting" ? (
        <ol>
          {s.steps.map((step) => (
            <StepRow key={step.name} step={step} />
          ))}
        </ol>
      ) : !live ? (
        <p className="text-fg2">
          <Trans>Nothing is running. {s.state_reason} The next session or command creates the sandbox again.</Trans>
        </p>
      ) : s.own_disk ? (
        <RemotePanel workspace={w} sandbox={s} name={name} />
      ) : (
        <>
          <p className="mb-3 flex flex-wrap items-center gap-x-3 gap-y-2 text-fg2">
            <span>
              {s.state === "paused" ? t`Paused. ` : ""}
              {s.started_at ? t`Created ${ago(s.started_at, now)}.` : ""} {s.state_reason}
            </span>
            {team.can("terminal.type") &&
              (s.state === "paused" ? (
                <Button look="primary" busy={wake.isPending && t`Waking`} onClick={() => wake.mutate()}>
                  <Trans>Wake</Trans>
                </Button>
              ) : (
                <Button
                  busy={pause.isPending && t`Pausing`}
                  onClick={() => pause.mutate()}
                  title={t`Agents are suspended and use no CPU. Nothing is lost`}
                >
                  <Trans>Pause</Trans>
                </Button>
              ))}
          </p>
          <Meters sandbox={s} />
          {s.usage.oom_kills > 0 && (
            <p className="mt-2 text-needs">
              <Trans>
                The memory limit killed {plural(s.usage.oom_kills, { one: "# process", other: "# processes" })}. Raise
                the limit below, or give the agent smaller tasks.
              </Trans>
            </p>
          )}
          {s.usage.throttled_ms > 60_000 && (
            <p className="mt-2 text-meta text-fg3">
              <Trans>Throttled by the CPU limit for {count(Math.round(s.usage.throttled_ms / 1000))} s so far.</Trans>
            </p>
          )}
        </>
      )}
      <FormError error={pause.error ?? wake.error} />
    </section>
  );
}

/** What can be looked at of what runs there. */
function PortsOf({ workspace: w }: { workspace: Workspace }) {
  const sandbox = useQuery(sandboxQuery(w.id, true));
  const ports = useQuery({ ...portsQuery(w.id, true), enabled: sandbox.data?.state === "running" });
  if (sandbox.data?.state !== "running" || !ports.data) return null;
  return (
    <section aria-labelledby="place-ports">
      <h2 id="place-ports" className="mb-2 text-title font-semibold">
        <Trans>Ports</Trans>
      </h2>
      <Ports workspace={w} ports={ports.data} />
    </section>
  );
}

/** The inherited limits. */
function above(l: Schemas["WorkspaceLimits"]): Required<Schemas["ResourceLimits"]> {
  const [p, i] = [whole(l.project), whole(l.instance)];
  return {
    cpus: p.cpus || i.cpus,
    memory_mb: p.memory_mb || i.memory_mb,
    processes: p.processes || i.processes,
    disk_mb: p.disk_mb || i.disk_mb,
    wall_minutes: p.wall_minutes || i.wall_minutes,
  };
}

/** Limits of this workspace, on top of its project's. */
function OwnLimits({ workspace: w, sized }: { workspace: Workspace; sized: boolean }) {
  const team = useTeam();
  const client = useQueryClient();
  const limits = useQuery(limitsQuery(w.id));
  const save = useMutation({
    mutationFn: (l: Schemas["ResourceLimits"]) =>
      data(api.PUT("/workspaces/{id}/limits", { params: { path: { id: w.id } }, body: l })),
    onSuccess: (saved) => {
      client.setQueryData(placeKeys.limits(w.id), saved);
      void client.invalidateQueries({ queryKey: keys.sandbox(w.id) });
      toast({
        kind: "good",
        title: t`Saved`,
        text: `${saved.applied === "now" ? t`Applied` : t`Applies to the next sandbox`}: ${limitsInWords(saved.effective)}. ${saved.note}`,
      });
    },
  });
  return (
    <section aria-labelledby="place-limits">
      <h2 id="place-limits" className="mb-2 text-title font-semibold">
        <Trans>Limits</Trans>
      </h2>
      {limits.isPending ? (
        <Skeleton rows={2} label={t`Loading the limits`} />
      ) : limits.isError && !limits.data ? (
        <Failure what={t`The limits could not be loaded.`} error={limits.error} retry={() => void limits.refetch()} />
      ) : (
        <LimitsForm
          value={whole(limits.data.limits)}
          inherited={above(limits.data)}
          maximum={whole(limits.data.maximum)}
          without={sized ? ["cpus", "memory_mb"] : undefined}
          from={t`the project or this server`}
          readOnly={!team.can("workspace.edit")}
          saving={save.isPending}
          error={save.error}
          onSave={(l) => save.mutate(l)}
        />
      )}
      {limits.data?.enforced.some((e) => !e.enforced) && (
        <ul className="mt-2 text-meta text-needs">
          {limits.data.enforced
            .filter((e) => !e.enforced)
            .map((e) => (
              <li key={e.name}>{e.how}</li>
            ))}
        </ul>
      )}
    </section>
  );
}
