import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Suspense, useState } from "react";
import { api, data, type Schemas, type Workspace } from "@/api/client";
import { keys, projectsQuery } from "@/api/queries";
import { Button } from "@/kit/button";
import { DialogBody, DialogFoot } from "@/kit/dialog";
import { lazy } from "@/kit/part";
import { Busy, Failure, FormError, Skeleton } from "@/kit/states";
import { confirm } from "@/state/confirm";
import { useTeam } from "@/state/team";
import { toast } from "@/state/toasts";
import { Place } from "./place-choice";
import { workspacePlacesQuery } from "./queries";
import { StepRow } from "./steps";
import { livesIn, placeBody, placeId } from "./which";

const MachineTerms = lazy(() => import("./machine-terms"));

type Plan = Schemas["MovePlan"];

/** What happens to a session, in words. */
const HOW: Record<Schemas["MovedSession"]["how"], string> = {
  resumes: t`continues its conversation`,
  restarts: t`starts over`,
  waits: t`cannot continue there yet`,
  ends: t`ends`,
};

/** How long the end of the last move is worth telling, in ms. */
const FRESH = 600_000;

/** The content of the dialog that moves a workspace with its running agents. It shows what moves and what is lost before anything happens. */
export function Move({ workspace: w, onClose }: { workspace: Workspace; onClose: () => void }) {
  const team = useTeam();
  const client = useQueryClient();
  const places = useQuery(workspacePlacesQuery(w.id));
  const here = livesIn(w);
  const others = places.data?.items.filter((p) => placeId(p.executor) !== here) ?? [];
  const open = others.filter((p) => p.executor.available && p.executor.allowed);
  const [picked, setPicked] = useState("");
  const [folder, setFolder] = useState(""); // of a machine: the folder whose repository to use
  const [sent, setSent] = useState(false); // from here: how it went is read before anything else
  const live = w.state === "ready" || w.state === "paused";
  const moves = useQuery({
    queryKey: ["workspace", w.id, "moves"],
    queryFn: () => data(api.GET("/workspaces/{id}/moves", { params: { path: { id: w.id } } })),
    refetchInterval: (q) => (q.state.data?.items[0]?.state === "running" ? 1000 : false),
  });
  const last = moves.data?.items[0];
  const running = last?.state === "running";
  const recent = last && (running || Date.now() - (last.ended_at ?? 0) < FRESH) ? last : undefined;
  // Preselect the only other place, except right after a move.
  const only = open.length === 1 && recent?.state !== "done" ? placeId(open[0]!.executor) : "";
  const to = picked !== here && picked ? picked : only;
  const { executor, runner_id } = placeBody(to);
  const there = { to: executor, ...(runner_id ? { runner_id } : {}), ...(runner_id && folder ? { folder } : {}) };
  const project = useQuery({ ...projectsQuery(team.slug), enabled: Boolean(runner_id) }).data?.find(
    (p) => p.id === w.project_id,
  );
  const may = team.can("workspace.edit");
  const plan = useQuery({
    queryKey: ["workspace", w.id, "move", to, folder],
    enabled: may && live && to !== "" && !running,
    queryFn: () => data(api.GET("/workspaces/{id}/move", { params: { path: { id: w.id }, query: there } })),
  });
  const after = () => {
    void moves.refetch();
    void client.invalidateQueries({ queryKey: keys.workspace(w.id) });
    void client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] });
  };
  const move = useMutation({
    mutationFn: () => {
      const params = { path: { id: w.id } };
      return live
        ? data(api.POST("/workspaces/{id}/move", { params, body: there }))
        : data(api.PATCH("/workspaces/{id}", { params, body: placeBody(to) }));
    },
    onSuccess: () => {
      setPicked("");
      setSent(true);
      after();
      if (live) return;
      toast({ kind: "good", title: t`Moved`, text: t`The next session creates the sandbox there.` });
      onClose();
    },
  });
  const cancel = useMutation({
    mutationFn: () => data(api.POST("/workspaces/{id}/move/cancel", { params: { path: { id: w.id } } })),
    onSettled: after,
  });
  const target = others.find((p) => placeId(p.executor) === to);
  const shown = live && to ? plan.data : undefined;
  const can = live ? shown?.possible : places.data?.movable && target?.executor.available && target.executor.allowed;
  const go = async () => {
    const sure =
      target?.executor.isolated ||
      (await confirm({
        title: t`Move ${w.key} to ${target?.executor.name ?? to}?`,
        body: t`This place is not isolated: agents have the rights of the user they run as.`,
        action: t`Move`,
        danger: true,
      }));
    if (sure) move.mutate();
  };
  const rests = recent?.state === "done" && sent;
  const choosing = !running && !rests && open.length > 0 && may;
  return (
    <>
      <DialogBody className="flex flex-col gap-4" focusable={!choosing}>
        {recent && <Progress move={recent} />}
        {running || rests ? null : !may ? (
          <p className="text-fg2">
            <Trans>Your role cannot move workspaces. Ask an owner or admin of the team.</Trans>
          </p>
        ) : places.isPending ? (
          <Skeleton rows={3} label={t`Loading the places`} />
        ) : !places.data ? (
          <Failure what={t`The places could not be loaded.`} error={places.error} retry={() => void places.refetch()} />
        ) : others.length === 0 ? (
          <p className="text-fg2">
            <Trans>There is no other place yet. Connect a machine, or ask an operator to enable one.</Trans>
          </p>
        ) : (
          <>
            <Place
              places={others.map((p) => p.executor)}
              value={to}
              onChange={(place) => {
                setPicked(place);
                setFolder("");
              }}
              legend={t`New place`}
              name="move-to"
            />
            {live && runner_id && project && (
              <Suspense>
                <MachineTerms
                  key={runner_id}
                  machineId={runner_id}
                  project={project}
                  folder={folder}
                  onFolder={setFolder}
                />
              </Suspense>
            )}
            {live && to && plan.isPending && (
              <Busy>
                <Trans>Checking what would move…</Trans>
              </Busy>
            )}
            {shown && <PlanView plan={shown} />}
            {!live && to && target && target.changes.length > 0 && <Lines title={t`Changes`} lines={target.changes} />}
            {!live && !places.data.movable && <p className="text-needs">{places.data.reason}</p>}
          </>
        )}
        <FormError error={move.error ?? cancel.error ?? plan.error} />
      </DialogBody>
      <DialogFoot>
        {choosing && live && (
          <span className="mr-auto min-w-0 basis-full text-meta text-fg3 sm:flex-1 sm:basis-0">
            <Trans>
              Agents are stopped and continue in the new place. If the move fails before the new place runs, the
              workspace stays where it is.
            </Trans>
          </span>
        )}
        {running && (
          <Button busy={cancel.isPending && t`Cancelling`} onClick={() => cancel.mutate()}>
            <Trans>Cancel the move</Trans>
          </Button>
        )}
        {rests && may && others.length > 0 && (
          <Button look="quiet" onClick={() => setSent(false)}>
            <Trans>Move it again…</Trans>
          </Button>
        )}
        <Button onClick={onClose}>
          <Trans>Close</Trans>
        </Button>
        {choosing && (
          <Button look="primary" disabled={!to || !can} busy={move.isPending && t`Moving`} onClick={() => void go()}>
            <Trans>Move</Trans>
          </Button>
        )}
      </DialogFoot>
    </>
  );
}

/** What a move would keep, lose and change. */
function PlanView({ plan }: { plan: Plan }) {
  return (
    <div className="flex flex-col gap-3 break-words">
      {!plan.possible && <p className="text-needs">{plan.reason}</p>}
      {plan.sessions.length > 0 && (
        <Lines
          title={t`Running`}
          lines={plan.sessions.map((s) => `${s.title || s.agent_name}: ${HOW[s.how]}. ${s.reason}`.trim())}
        />
      )}
      <Lines title={t`Moves`} lines={plan.carried.map((i) => i.detail)} />
      <Lines title={t`Lost`} lines={plan.lost.map((i) => i.detail)} />
      <Lines title={t`Changes`} lines={plan.changes} />
    </div>
  );
}

function Lines({ title, lines }: { title: string; lines: string[] }) {
  if (lines.length === 0) return null;
  return (
    <section>
      <p className="font-semibold">{title}</p>
      <ul className="list-disc pl-5 text-fg2">
        {lines.map((l) => (
          <li key={l}>{l}</li>
        ))}
      </ul>
    </section>
  );
}

/** How far a move is, or how the last one ended. */
function Progress({ move: m }: { move: Schemas["Move"] }) {
  const head = {
    running: t`Moving to ${m.to.name}`,
    done: t`Moved to ${m.to.name}`,
    failed: t`Not moved: it stays in ${m.from.name}`,
    cancelled: t`Cancelled: it stays in ${m.from.name}`,
  }[m.state];
  return (
    <section>
      <p className="font-semibold" role="status">
        {head}
      </p>
      {m.reason && <p className="break-words text-fg2">{m.reason}</p>}
      <ol className="mt-1">
        {m.steps.map((s) => (
          <StepRow key={s.name} step={s} />
        ))}
      </ol>
    </section>
  );
}
