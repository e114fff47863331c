import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, data } from "@/api/client";
import { changesQuery } from "@/api/queries";
import { useNow } from "@/format/now";
import { visible } from "@/format/text";
import { ago } from "@/format/time";
import { buttonClass } from "@/kit/button";
import { cx } from "@/kit/cx";
import { inputClass } from "@/kit/field";
import { Page } from "@/kit/page";
import { Counts, Failure, Skeleton } from "@/kit/states";
import { confirm } from "@/state/confirm";
import { useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";
import { useTitle } from "@/state/use-title";
import { AttemptCard } from "./attempt-card";
import { type Attempt, moves, type Run, runKeys, runQuery } from "./runs";

const route = getRouteApi("/$team/runs/$run");

/** Compares the attempts of a run: their state and changes. The user keeps one. */
export function RunScreen() {
  const { run: id } = route.useParams();
  const run = useQuery(runQuery(id));
  useTitle(run.data?.name ?? t`Compare`);
  if (run.isPending) return <Skeleton rows={6} label={t`Loading the comparison`} />;
  if (run.isError && !run.data)
    return (
      <Failure
        className="m-4"
        what={t`The comparison could not be loaded.`}
        error={run.error}
        retry={() => void run.refetch()}
      />
    );
  return <Compare run={run.data} />;
}

const SHORT = 400; // characters of a prompt that is shown at once

function Compare({ run }: { run: Run }) {
  const team = useTeam();
  const now = useNow(1000);
  return (
    <Page title={run.name} about={`${run.project_name}, ${ago(run.created_at, now)}`}>
      <details className="mb-4" open={run.prompt.length <= SHORT}>
        <summary className="w-fit cursor-pointer text-meta text-accent">
          <Trans>Prompt</Trans>
        </summary>
        <p className="mt-1 max-h-60 overflow-y-auto panel p-3 break-words whitespace-pre-wrap">{run.prompt}</p>
      </details>
      <Attempts run={run} now={now} may={team.can("workspace.edit")} />
      <ComparePair attempts={run.attempts} />
      <DiffStat attempts={run.attempts} />
    </Page>
  );
}

const TH = "px-2 py-1.5 text-left font-normal whitespace-nowrap text-fg3";

function Attempts({ run, now, may }: { run: Run; now: number; may: boolean }) {
  const keep = useKeep(run);
  const others = (a: Attempt) =>
    run.attempts.filter(
      (o) => o.id !== a.id && o.made && o.workspace && o.workspace.state !== "archived" && !o.workspace.deleted_at,
    );
  const ask = async (a: Attempt) => {
    const rest = others(a);
    const running = rest.filter((o) => o.workspace!.agents.running > 0).length;
    const agent = a.agent_name;
    const names = rest.map((o) => o.workspace!.key).join(", ");
    const yes =
      rest.length === 0 ||
      (await confirm({
        title: plural(rest.length, {
          one: `Take ${agent} and archive the other?`,
          other: `Take ${agent} and archive the # others?`,
        }),
        body: (
          <>
            <p>
              <Trans>{names}: running sessions are stopped, and branch and folder are archived.</Trans>
            </p>
            {running > 0 && <p>{plural(running, { one: "# agent is at work.", other: "# agents are at work." })}</p>}
            <p>
              <Trans>Nothing is lost. An archived workspace can be restored with all its files.</Trans>
            </p>
          </>
        ),
        action: t`Take this one`,
      }));
    if (yes) keep.mutate(a);
  };
  return (
    <section aria-label={t`Attempts`} className="grid grid-cols-[repeat(auto-fill,minmax(min(100%,280px),1fr))] gap-3">
      {run.attempts.map((a) => {
        const w = a.workspace;
        const there = w && w.state !== "archived" && !w.deleted_at;
        const sensible = may && there && (others(a).length > 0 || run.kept !== a.id);
        return (
          <AttemptCard
            key={a.id}
            attempt={a}
            now={now}
            kept={run.kept === a.id}
            onTake={sensible ? () => void ask(a) : undefined}
            taking={keep.isPending && keep.variables.id === a.id}
            busy={keep.isPending}
          />
        );
      })}
    </section>
  );
}

function useKeep(run: Run) {
  const team = useTeam();
  const client = useQueryClient();
  return useMutation({
    mutationFn: (a: Attempt) =>
      data(api.POST("/runs/{id}/keep", { params: { path: { id: run.id } }, body: { attempt_id: a.id } })),
    onSuccess: (next, a) => {
      client.setQueryData(runKeys.one(run.id), next);
      toast({ kind: "good", title: t`${a.agent_name} is taken`, text: t`The others are archived.` });
    },
    onError: (error, a) => toastError(t`${a.agent_name} was not taken`, error),
    onSettled: () => {
      void client.invalidateQueries({ queryKey: runKeys.one(run.id) });
      void client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] });
    },
  });
}

const PICK = cx(inputClass, "w-auto! max-w-full");

/** Chooses two attempts and leads to what differs between their files. */
function ComparePair({ attempts }: { attempts: Attempt[] }) {
  const team = useTeam();
  const there = attempts.filter((a) => a.made && a.workspace && !a.workspace.deleted_at);
  const [chosen, setChosen] = useState<{ from?: string; to?: string }>({});
  const from = there.find((a) => a.id === chosen.from) ?? there[0];
  const to = there.find((a) => a.id === chosen.to) ?? there.find((a) => a !== from);
  if (!from?.workspace || !to?.workspace) return null;
  // The diff is read in the workspace of one of them that is not archived.
  const open = [to, from].find((a) => a.workspace!.state !== "archived")?.workspace;
  const one = (label: string, side: "from" | "to", value: Attempt) => (
    <label className="flex min-w-0 items-center gap-2">
      {label}
      <select
        value={value.id}
        onChange={(e) => setChosen({ from: from.id, to: to.id, [side]: e.target.value })}
        className={PICK}
      >
        {there.map((a) => (
          <option key={a.id} value={a.id}>
            {a.agent_name} {a.workspace!.key}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <section aria-labelledby="pair" className="mt-6">
      <h2 id="pair" className="mb-1 text-title font-semibold">
        <Trans>Compare two attempts</Trans>
      </h2>
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        {one(t`From`, "from", from)}
        {one(t`To`, "to", to)}
        {from === to ? (
          <p className="text-fg3">
            <Trans>Choose two different attempts.</Trans>
          </p>
        ) : !open ? (
          <p className="text-fg3">
            <Trans>Both are archived. Restore one of them to compare them.</Trans>
          </p>
        ) : (
          <Link
            to="/$team/w/$key"
            params={{ team: team.slug, key: open.key }}
            search={{
              tab: "changes",
              from: open === from.workspace ? "now" : from.workspace.id,
              to: open === to.workspace ? undefined : to.workspace.id,
            }}
            className={buttonClass()}
          >
            <Trans>Show the differences</Trans>
          </Link>
        )}
      </div>
    </section>
  );
}

const MAX_FILES = 200;

/** Which files each attempt changed, and by how many lines, in one table. */
function DiffStat({ attempts }: { attempts: Attempt[] }) {
  const team = useTeam();
  const shown = attempts.filter((a) => a.workspace && a.workspace.changes.files > 0);
  const changes = useQueries({
    queries: shown.map((a) => ({
      ...changesQuery(a.workspace!.id),
      refetchInterval: moves(a) ? (5000 as const) : (false as const),
    })),
  });
  if (shown.length === 0)
    return (
      <p className="mt-5 text-fg3">
        <Trans>No attempt has changed files yet.</Trans>
      </p>
    );
  const paths = new Map<string, number>();
  for (const c of changes) for (const f of c.data?.items ?? []) paths.set(f.path, (paths.get(f.path) ?? 0) + 1);
  // What most of them touched comes first.
  const rows = [...paths].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([p]) => p);
  return (
    <section aria-labelledby="stat" className="mt-6">
      <h2 id="stat" className="mb-1 text-title font-semibold">
        <Trans>Changed files</Trans>
      </h2>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls sideways, also by keys */}
      <div role="region" aria-labelledby="stat" tabIndex={0} className="overflow-x-auto border-y border-hairline">
        <table className="w-full border-collapse">
          <thead className="text-meta">
            <tr>
              <th className={TH}>
                <Trans>File</Trans>
              </th>
              {shown.map((a) => (
                <th key={a.id} className={TH}>
                  {a.agent_name} <span className="text-fg3">{a.workspace!.key}</span>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, MAX_FILES).map((path) => (
              <tr key={path} className="border-t border-hairline">
                <th scope="row" className="max-w-80 px-2 py-1.5 text-left font-mono text-code font-normal break-all">
                  {visible(path)}
                </th>
                {shown.map((a, i) => {
                  const f = changes[i]!.data?.items.find((x) => x.path === path);
                  return (
                    <td key={a.id} className="px-2 py-1.5 whitespace-nowrap">
                      {f ? (
                        <Link
                          to="/$team/w/$key"
                          params={{ team: team.slug, key: a.workspace!.key }}
                          search={{ tab: "changes", file: path }}
                          className="hover:underline"
                        >
                          <span className="sr-only">
                            <Trans>
                              {visible(path)} in {a.workspace!.key}:
                            </Trans>{" "}
                          </span>
                          {f.binary ? t`binary` : <Counts additions={f.additions} deletions={f.deletions} />}
                        </Link>
                      ) : (
                        <span className="text-fg3">
                          <span aria-hidden>·</span>
                          <span className="sr-only">
                            <Trans>not changed</Trans>
                          </span>
                        </span>
                      )}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > MAX_FILES && (
        <p className="mt-1 text-meta text-fg3">
          <Trans>{plural(rows.length - MAX_FILES, { one: "# more file", other: "# more files" })} not shown.</Trans>
        </p>
      )}
    </section>
  );
}
