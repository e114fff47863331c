import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { api, data, type Schemas, type Workspace } from "@/api/client";
import { keys, projectsQuery } from "@/api/queries";
import { useTeam } from "@/app/team";
import { Button } from "@/kit/button";
import { FormError } from "@/kit/states";
import { workspacePlacesQuery } from "@/places/queries";
import { livesIn, placeBody, placeId } from "@/places/which";
import { Place } from "@/screens/new-workspace/place";
import { confirm } from "@/state/confirm";
import { toast } from "@/state/toasts";
import { StepRow } from "./steps";

const MachineTerms = lazy(() => import("@/screens/new-workspace/machine-terms"));

type Plan = Schemas["MovePlan"];

/** What becomes of a session, in words. */
const HOW: Record<Schemas["MovedSession"]["how"], string> = {
  resumes: "goes on with its conversation",
  restarts: "begins anew",
  ends: "ends",
};

/** Another place for a workspace, with the agents that run in it: what comes along and what is lost is shown before anything happens. */
export function Move({ workspace: w }: { workspace: Workspace }) {
  const team = useTeam();
  const client = useQueryClient();
  const places = useQuery(workspacePlacesQuery(w.id));
  const [to, setTo] = useState(livesIn(w));
  const [folder, setFolder] = useState(""); // of a machine: whose repository it borrows
  const [open, setOpen] = useState(false);
  const live = w.state === "ready" || w.state === "paused";
  const away = to !== livesIn(w);
  const { executor, runner_id } = placeBody(to);
  const there = { to: executor, ...(runner_id ? { runner_id } : {}), ...(runner_id && folder ? { folder } : {}) };
  const project = useQuery({ ...projectsQuery(team.slug), enabled: Boolean(runner_id) }).data?.find(
    (p) => p.id === w.project_id,
  );
  const moves = useQuery({
    queryKey: ["workspace", w.id, "moves"],
    queryFn: () => data(api.GET("/workspaces/{id}/moves", { params: { path: { id: w.id } } })),
    refetchInterval: (q) => (q.state.data?.items[0]?.state === "running" ? 1000 : false),
  });
  const last = moves.data?.items[0];
  const running = last?.state === "running";
  const plan = useQuery({
    queryKey: ["workspace", w.id, "move", to, folder],
    enabled: live && away && !running,
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
      after();
      if (!live) toast({ kind: "good", title: "Moved", text: "The new place is made with the next session." });
    },
  });
  const cancel = useMutation({
    mutationFn: () => data(api.POST("/workspaces/{id}/move/cancel", { params: { path: { id: w.id } } })),
    onSettled: after,
  });
  if (!team.can("workspace.edit") || !places.data || places.data.items.length < 2) return null;
  const target = places.data.items.find((p) => placeId(p.executor) === to);
  const shown = live && away ? plan.data : undefined;
  const can = live ? shown?.possible : places.data.movable && target?.executor.available && target.executor.allowed;
  const ask = async () => {
    const yes = await confirm({
      title: `Move ${w.key} to ${target?.executor.name ?? to}?`,
      body: live
        ? "Its agents are stopped and go on there. Until the new place runs, whatever fails has it go on where it is."
        : [...(target?.changes ?? []), "Files and commits come along."].join(" "),
      action: "Move",
      danger: target ? !target.executor.isolated : false,
    });
    if (yes) move.mutate();
  };
  return (
    <details open={open || running} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary className="w-fit cursor-pointer text-title font-semibold">Move to another place</summary>
      <div className="mt-2 flex flex-col gap-3">
        {last && (running || Date.now() - (last.ended_at ?? 0) < 600_000) && <Progress move={last} />}
        {running ? (
          <Button className="self-start" busy={cancel.isPending && "Going back"} onClick={() => cancel.mutate()}>
            Cancel the move
          </Button>
        ) : (
          <>
            <Place
              places={places.data.items.map((p) => p.executor)}
              value={to}
              onChange={(place) => {
                setTo(place);
                setFolder("");
              }}
              legend="New place"
              name="move-to"
            />
            {live && away && runner_id && project && (
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
            {shown && <PlanView plan={shown} />}
            {!live && !places.data.movable && <p className="text-needs">{places.data.reason}</p>}
            <FormError error={move.error ?? plan.error} />
            <Button
              className="self-start"
              disabled={!away || !can}
              busy={move.isPending && "Moving"}
              onClick={() => void ask()}
            >
              Move
            </Button>
          </>
        )}
      </div>
    </details>
  );
}

/** What a move would carry, lose and change. */
function PlanView({ plan }: { plan: Plan }) {
  return (
    <div className="flex flex-col gap-3 break-words">
      {!plan.possible && <p className="text-needs">{plan.reason}</p>}
      {plan.sessions.length > 0 && (
        <Lines title="What runs" lines={plan.sessions.map((s) => `${s.title || s.agent_name}: ${HOW[s.how]}.`)} />
      )}
      <Lines title="Comes along" lines={plan.carried.map((i) => i.detail)} />
      <Lines title="Is lost" lines={plan.lost.map((i) => i.detail)} />
      <Lines title="Is different there" lines={plan.changes} />
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
    running: `Moving to ${m.to.name}`,
    done: `Moved to ${m.to.name}`,
    failed: `Not moved: it goes on in ${m.from.name}`,
    cancelled: `Cancelled: it goes on in ${m.from.name}`,
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
