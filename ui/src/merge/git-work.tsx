import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, type Schemas, type Workspace } from "@/api/client";
import { useNow } from "@/format/now";
import { within } from "@/format/text";
import { ago } from "@/format/time";
import { Button } from "@/kit/button";
import { useTeam } from "@/state/team";
import { toastError } from "@/state/toasts";
import { gitWorkQuery, homeKeys } from "./queries";

type Work = Schemas["GitWork"];

const WORDS: Record<Work["kind"], string> = {
  fetch: t`Fetching`,
  push: t`Pushing`,
  update: t`Updating`,
  merge: t`Merging`,
};

/** Git operations in this repository: running and queued, with a cancel button. */
export function GitWork({ workspace: w }: { workspace: Workspace }) {
  const work = useQuery(gitWorkQuery(w.project_id));
  return <GitWorkList work={work.data ?? []} project={w.project_id} here={w.id} />;
}

/** Lists the git operations of a project; renders nothing if there are none. */
export function GitWorkList({ work, project, here }: { work: Work[]; project: string; here?: string | undefined }) {
  if (work.length === 0) return null;
  return (
    <section aria-label={t`Git operations`} className="rounded-md bg-bg2 px-3 py-2">
      <ul className="flex flex-col gap-2">
        {work.map((k) => (
          <Row key={k.id} work={k} project={project} here={here} />
        ))}
      </ul>
    </section>
  );
}

function Row({ work: k, project, here }: { work: Work; project: string; here: string | undefined }) {
  const team = useTeam();
  const client = useQueryClient();
  const now = useNow(1000);
  const end = useMutation({
    mutationFn: () =>
      api.POST("/projects/{id}/git-work/cancel", { params: { path: { id: project } }, body: { work_id: k.id } }),
    onSettled: () => client.invalidateQueries({ queryKey: homeKeys.gitWork(project) }),
    onError: (error) => toastError(t`The operation was not cancelled`, error),
  });
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1">
      <span
        aria-hidden
        className={k.waiting ? "size-2 rounded-full bg-fg3" : "pulse-mark size-2 rounded-full bg-running"}
      />
      <span className="min-w-0 flex-1">
        <span className="font-medium">{k.waiting ? t`Queued` : WORDS[k.kind]}</span>
        {k.waiting && <span className="text-fg2"> ({within(WORDS[k.kind])})</span>}
        {k.workspace && k.workspace.id !== here && (
          <span className="text-fg2">
            {" "}
            <Trans>
              for <span className="font-mono text-code">{k.workspace.key}</span>
            </Trans>
          </span>
        )}
        <span className="text-meta text-fg3">
          {" "}
          {k.by_name ? `${k.by_name}, ` : ""}
          {ago(k.started_at ?? k.at, now)}
        </span>
        {k.progress && !k.waiting && <span className="block truncate font-mono text-code text-fg2">{k.progress}</span>}
      </span>
      {team.can("workspace.edit") && (
        <Button
          look="quiet"
          busy={end.isPending && t`Cancelling`}
          onClick={() => end.mutate()}
          aria-label={t`Cancel ${WORDS[k.kind].toLowerCase()}${k.workspace ? t` of ${k.workspace.key}` : ""}`}
        >
          <Trans>Cancel</Trans>
        </Button>
      )}
    </li>
  );
}
