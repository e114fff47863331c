import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Workspace } from "@/api/client";
import { executorsQuery, keys } from "@/api/queries";
import { mineQuery } from "@/costs/api";
import { RefusalFigures, UpgradeWays } from "@/costs/refusal-figures";
import { plain } from "@/format/text";
import { Button, buttonClass } from "@/kit/button";
import { CopyLine, FormError } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { confirm } from "@/state/confirm";
import { useMe, useTeam } from "@/state/team";
import { toast } from "@/state/toasts";
import { clearProblem, noteProblem, type ServeProblem } from "./problem";
import { workspacePlacesQuery } from "./queries";
import { nextRegion, type Region, regionWords, useLatencies } from "./regions";
import { fallBack, type Place } from "./remote";
import { commandIn, fallbackPlace, upgradeWords } from "./remote-words";
import { localHelps, usedUpRefusal } from "./used-up";
import { findPlace } from "./which";

interface Props {
  workspace: Workspace;
  place: Place | undefined;
  problem: ServeProblem;
  /** Retries; if absent, starts the place as for a session. */
  onRetry?: () => void;
  retrying?: boolean;
}

/** A place that is not available: why, and what the user can do. It never moves anything without being asked. */
export default function CannotServe({ workspace: w, place, problem: told, onRetry, retrying }: Props) {
  const team = useTeam();
  // A creation leaves its words alone behind: what is used up says whether a quota was in its way.
  const costs = (place?.price_nano_per_hour ?? 0) > 0 || place?.sizes.some((s) => s.price_nano_per_hour > 0) === true;
  const guess = useQuery({ ...mineQuery(), enabled: costs && told.reason === "" && !told.refusal, retry: false });
  const mine = guess.data?.find((m) => m.team.id === team.id);
  const refusal = told.refusal ?? (costs && told.reason === "" ? usedUpRefusal(place, mine) : undefined);
  const me = useMe();
  const client = useQueryClient();
  const [how, setHow] = useState(false);
  const places = useQuery(workspacePlacesQuery(w.id));
  const items = places.data?.items ?? [];
  const target = fallbackPlace(items.map((p) => p.executor));
  const here = refusal && localHelps(refusal.code, target, mine);
  const problem: ServeProblem =
    told.refusal || !refusal
      ? told
      : { ...told, refusal, ways: here ? ["retry", "free_place", "upgrade"] : ["retry", "upgrade"] };
  const name = place?.name ?? (w.runner_name || w.executor);
  const refresh = () => {
    void client.invalidateQueries({ queryKey: keys.workspace(w.id) });
    void client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] });
  };
  const retry = useMutation({
    mutationFn: () => data(api.POST("/workspaces/{id}/wake", { params: { path: { id: w.id } } })),
    onSuccess: () => clearProblem(w.id),
    onError: (error) => noteProblem(w.id, error),
    onSettled: refresh,
  });
  const local = useMutation({
    mutationFn: () => fallBack(w.id),
    onSuccess: (moved) => {
      clearProblem(w.id);
      const to =
        findPlace(
          places.data?.items.map((p) => p.executor),
          moved,
        )?.name ?? moved.executor;
      toast({
        kind: "good",
        title: t`${w.key} is now in ${to}`,
        text: [...(moved.place_changes ?? []), t`Start a session to continue.`].join(" "),
        lasts: 0,
      });
    },
    onSettled: refresh,
  });
  const changes = items.find((p) => p.executor.kind === target?.kind)?.changes ?? [];
  const askLocal = async () => {
    const yes = await confirm({
      title: t`Start ${w.key} on this server?`,
      body: (
        <>
          <p>
            <Trans>
              It moves from {name} to {target?.name ?? t`the strongest place this server allows`}. This changes:
            </Trans>
          </p>
          <ul className="mt-1 list-disc pl-5">
            {changes.map((c) => (
              <li key={c}>{c}</li>
            ))}
            <li>
              <Trans>The files synced from {name} move with it.</Trans>
            </li>
          </ul>
        </>
      ),
      action: t`Try local mode`,
      danger: target ? !target.isolated : false,
    });
    if (yes) local.mutate();
  };
  const executors = useQuery(executorsQuery(team.slug)).data;
  const latencies = useLatencies(executors);
  const next = problem.refusal ? undefined : nextRegion(executors, w.executor, latencies);
  const region = useAction({
    act: (to: Region) =>
      data(api.PATCH("/workspaces/{id}", { params: { path: { id: w.id } }, body: { executor: to.executor } })),
    confirm: (to) => ({
      title: t`Move ${w.key} to ${to.name}?`,
      body: t`It leaves ${name} and starts in ${to.name} (${regionWords(to, latencies)}) with the files synced from there. Its code is then in that region.`,
      action: t`Move`,
    }),
    done: (moved) => {
      clearProblem(w.id);
      toast({ kind: "good", title: t`${w.key} is now in ${findPlace(executors, moved)?.name ?? moved.executor}` });
      if (onRetry) onRetry();
      else retry.mutate();
    },
    refresh: [keys.workspace(w.id), ["team", team.slug, "workspaces"]],
  });
  const can = (way: ServeProblem["ways"][number]) => problem.ways.includes(way);
  const may = team.can("workspace.edit");
  const operator = me.user.operator;
  const command = commandIn(problem.message);
  return (
    <section
      role="alert"
      aria-labelledby="cannot-serve"
      className="max-w-2xl rounded-md border border-failed bg-bg1 p-3"
    >
      <h2 id="cannot-serve" className="flex items-baseline gap-2 font-medium">
        <span aria-hidden className="text-failed">
          ▲
        </span>
        {problem.refusal?.title ?? t`${name} is not available`}
      </h2>
      <p className="mt-1 break-words text-fg2">{plain(problem.message)}</p>
      {command && (
        <div className="mt-1.5">
          <CopyLine text={command} label={t`the command`} />
        </div>
      )}
      {problem.refusal && <RefusalFigures refusal={problem.refusal} />}
      <p className="mt-1 text-fg2">
        <Trans>Your synced files are safe on this server.</Trans>
      </p>
      <div className="mt-3 flex flex-wrap gap-2">
        {can("retry") && may && !problem.refusal && (
          <Button
            look="primary"
            busy={(retrying || retry.isPending) && t`Retrying`}
            onClick={() => (onRetry ? onRetry() : retry.mutate())}
          >
            <Trans>Retry</Trans>
          </Button>
        )}
        {next && may && (
          <Button busy={region.busy && t`Moving`} onClick={() => void region.run(next)}>
            <Trans>Continue in {next.name}</Trans>
          </Button>
        )}
        {can("free_place") && may && (
          <Button
            look={problem.refusal ? "primary" : "plain"}
            busy={local.isPending && t`Moving`}
            disabled={places.isSuccess && !target}
            title={places.isSuccess && !target ? t`No place on this server is available` : undefined}
            onClick={() => void askLocal()}
          >
            <Trans>Try local mode</Trans>
          </Button>
        )}
        {can("upgrade") && (
          <Button aria-expanded={how} onClick={() => setHow(!how)}>
            <Trans>Upgrade plan</Trans>
          </Button>
        )}
        {can("retry") && may && problem.refusal && (
          <Button
            look="quiet"
            busy={(retrying || retry.isPending) && t`Retrying`}
            onClick={() => (onRetry ? onRetry() : retry.mutate())}
          >
            <Trans>Try again</Trans>
          </Button>
        )}
        {can("settings") && operator && (
          <Link
            to="/$team/settings/{-$section}"
            params={{ team: team.slug, section: "places" }}
            className={buttonClass("plain")}
          >
            <Trans>Open settings</Trans>
          </Link>
        )}
      </div>
      {how && can("upgrade") && (
        <div className="mt-2 text-fg2">
          {problem.refusal ? (
            <UpgradeWays code={problem.refusal.code} scope={problem.refusal.scope} />
          ) : (
            upgradeWords(problem.reason, name, operator)
          )}
        </div>
      )}
      {can("settings") && !operator && (
        <p className="mt-2 text-meta text-fg3">
          <Trans>An operator of this server can change this under Settings, Places.</Trans>
        </p>
      )}
      {places.isSuccess && !target && can("free_place") && (
        <p className="mt-2 text-meta text-fg3">
          <Trans>Local mode is not available: no place on this server can be used now.</Trans>
        </p>
      )}
      <FormError error={local.error ?? region.error} />
      {problem.requestId && (
        <p className="mt-2 font-mono text-micro text-fg3 select-all">
          <Trans>request {problem.requestId}</Trans>
        </p>
      )}
    </section>
  );
}
