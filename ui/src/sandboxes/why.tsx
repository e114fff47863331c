import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { api, data, type Schemas } from "@/api/client";
import { executorsQuery } from "@/api/queries";
import { useNow } from "@/format/now";
import { ago } from "@/format/time";
import { Failure, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";
import type { Latencies } from "./regions";
import { placeBody, placeId } from "./which";

type Decision = Schemas["PlaceDecision"];

const RULES: Record<Schemas["PlaceStep"]["rule"], string> = {
  named: t`This workspace`,
  machine: t`Your machine`,
  person: t`You`,
  project: t`The project`,
  team: t`The team`,
  instance: t`This server`,
  auto: t`Automatic`,
  region: t`Region`,
};

/** Why a workspace lives where it does, as it was decided when it was made. */
export function WhyHere({ workspaceId }: { workspaceId: string }) {
  const now = useNow();
  const why = useQuery({
    queryKey: ["workspace", workspaceId, "why-here"],
    queryFn: () => data(api.GET("/workspaces/{id}/place-choice", { params: { path: { id: workspaceId } } })),
  });
  if (why.isPending) return <Skeleton rows={3} label={t`Loading why it is here`} />;
  if (!why.data) return <Failure what={t`Why it is here could not be loaded.`} error={why.error} />;
  if (why.data.steps.length === 0)
    return (
      <p className="text-fg3">
        <Trans>This was not recorded when it was made.</Trans>
      </p>
    );
  return (
    <>
      {why.data.decided_at && (
        <p className="mb-1 text-meta text-fg3">
          <Trans>Decided {ago(why.data.decided_at, now)}.</Trans>
        </p>
      )}
      <Steps of={why.data} />
    </>
  );
}

interface NewProps {
  projectId: string;
  /** The place that is chosen in the form, "" = none. */
  place: string;
  mine: Latencies | undefined;
}

/** The same for a workspace that is not made yet. */
export function WhyNew({ projectId, place, mine }: NewProps) {
  const team = useTeam();
  const latencies = Object.entries(mine ?? {})
    .map(([k, ms]) => `${k}:${ms}`)
    .join(",");
  const why = useQuery({
    queryKey: ["team", team.slug, "why-new", projectId, place, latencies],
    queryFn: () =>
      data(
        api.GET("/teams/{team}/place-choice", {
          params: {
            path: { team: team.slug },
            query: { project_id: projectId, ...(place ? placeBody(place) : {}), ...(latencies ? { latencies } : {}) },
          },
        }),
      ),
  });
  if (why.isPending) return <Skeleton rows={3} label={t`Loading why`} />;
  if (!why.data) return <Failure what={t`Why could not be loaded.`} error={why.error} />;
  return <Steps of={why.data} />;
}

function Steps({ of: d }: { of: Decision }) {
  const team = useTeam();
  const places = useQuery(executorsQuery(team.slug)).data;
  const nameOf = (id: string) => places?.find((p) => placeId(p) === id)?.name ?? id;
  return (
    <>
      <ol className="divide-y divide-hairline border-y border-hairline">
        {d.steps.map((s, i) => (
          <li key={i} className="flex flex-wrap items-baseline gap-x-3 py-1">
            <span className="w-28 shrink-0 text-meta text-fg3">{RULES[s.rule]}</span>
            <span className={s.decided ? "min-w-0 flex-1 font-medium" : "min-w-0 flex-1 text-fg2"}>
              {s.words}
              {s.executor && <span className="ml-1">{nameOf(s.executor)}.</span>}
            </span>
            {s.decided && (
              <span className="text-meta text-accent">
                <Trans>Decided</Trans>
              </span>
            )}
          </li>
        ))}
      </ol>
      {d.problem && <p className="mt-1 text-failed">{d.problem}</p>}
    </>
  );
}
