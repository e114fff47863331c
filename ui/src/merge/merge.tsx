import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas, type Workspace } from "@/api/client";
import { ApiError } from "@/api/problem";
import { mergePreviewQuery, projectsQuery } from "@/api/queries";
import { short } from "@/format/text";
import { Button } from "@/kit/button";
import { Check, Choice, TextArea } from "@/kit/field";
import { Mark } from "@/kit/mark";
import { Busy, Failure, FormError } from "@/kit/states";
import { useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";
import { ArtifactChoice } from "./artifact-choice";
import { Attached, useAttach, useAttached } from "./attach";
import { type CardProps, MergeCard } from "./card";
import { Conflicts } from "./conflicts";
import { afterMove, useMergeStatus } from "./queries";

type Strategy = "merge" | "squash" | "rebase";
type Result = Schemas["MergeResult"];

/** Merges the branch into its base: method, preview, merge. A merge is atomic. */
export default function MergeIntoBase({ workspace: w }: CardProps) {
  const team = useTeam();
  const client = useQueryClient();
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const [picked, setPicked] = useState<Strategy>();
  const projects = useQuery(projectsQuery(team.slug));
  // Defaults to the project's settings.
  const strategy = picked ?? projects.data?.find((p) => p.id === w.project_id)?.merging.strategy ?? "merge";
  const [message, setMessage] = useState("");
  const [archive, setArchive] = useState(false);
  const [report, setReport] = useState(false);
  const [artifacts, setArtifacts] = useState<Schemas["ArtifactChoice"][]>([]);
  const attach = useAttach(w);
  const [done, setDone] = useState<Result>();
  const standing = useMergeStatus(w);
  const s = standing.data;
  const may = team.can("workspace.merge");
  const preview = useQuery({
    ...mergePreviewQuery(w.id, strategy, s ? `${s.head} ${s.base_commit} ${s.dirty}` : ""),
    enabled: may && !projects.isPending && s !== undefined && s.base_commit !== "" && s.head !== "",
  });
  const plan = preview.data;
  const possible = plan !== undefined && !plan.up_to_date && plan.conflicts.length === 0 && !plan.blocked;

  const merge = useMutation({
    mutationFn: () =>
      data(
        api.POST("/workspaces/{id}/merge", {
          params: { path: { id: w.id } },
          body: {
            strategy,
            expected_base: plan?.base_commit,
            expected_head: plan?.head,
            artifacts: artifacts.map((a) => a.id),
            ...(message.trim() && strategy !== "rebase" ? { message: message.trim() } : {}),
          },
        }),
      ),
    onSuccess: async (result) => {
      if (!result.merged) return;
      setDone(result);
      toast({
        kind: "good",
        title: t`Merged into ${result.base}`,
        text: t`${result.base} is at ${short(result.commit)} now.`,
      });
      if (report)
        await attach.mutateAsync().catch((error) => toastError(t`Merged, but the report is not attached`, error));
      if (archive) await putAway();
    },
    onError: (error) => {
      // The preview is outdated: refresh it. Nothing was merged.
      if (error instanceof ApiError && (error.code === "base_moved" || error.code === "head_moved"))
        void preview.refetch();
    },
    onSettled: () => afterMove(client, w, team.slug),
  });
  const putAway = async () => {
    try {
      await api.POST("/workspaces/{id}/archive", { params: { path: { id: w.id } } });
      await navigate({ to: "/$team/w", params: { team: team.slug } });
      void client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] });
    } catch (error) {
      toastError(t`Merged, but not archived`, error, () => void putAway());
    }
  };
  if (!may || !s) return null;
  const nothing = plan?.up_to_date && !done;
  const conflicts = plan !== undefined && plan.conflicts.length > 0;
  // Also when it was merged by the queue, on a forge, or before this page was opened.
  const merged = done !== undefined || s.merged;
  return (
    <MergeCard title={t`Merge into ${s.base}`}>
      {merged && <Next workspace={w} standing={s} result={done} putAway={() => void putAway()} />}
      {!merged && s.base_commit !== "" && (
        <form
          className="flex flex-col gap-3"
          onSubmit={(e) => {
            e.preventDefault();
            if (possible && !merge.isPending && !preview.isFetching) merge.mutate();
          }}
          onKeyDown={(e) => {
            if ((e.ctrlKey || e.metaKey) && e.key === "Enter") e.currentTarget.requestSubmit();
          }}
        >
          {!nothing && (
            <Choice<Strategy>
              name="strategy"
              legend={t`How`}
              value={strategy}
              onChange={setPicked}
              inline
              options={[
                {
                  value: "merge",
                  label: t`Merge`,
                  hint: t`Keeps all commits. Adds a merge commit where the base has moved.`,
                },
                { value: "squash", label: t`Squash`, hint: t`Adds all changes to the base as one commit.` },
                { value: "rebase", label: t`Rebase`, hint: t`Replays the commits on top of the base.` },
              ]}
            />
          )}
          <Outlook
            workspace={w}
            commits={strategy === "merge" && message.trim() !== ""}
            query={{ pending: preview.isPending, error: preview.error, retry: () => void preview.refetch() }}
            plan={plan}
          />
          {!nothing && !conflicts && strategy !== "rebase" && (
            <TextArea
              label={t`Message`}
              rows={2}
              placeholder={strategy === "squash" ? w.name : t`Merge ${w.branch} into ${s.base}`}
              value={message}
              onChange={(e) => setMessage(e.target.value)}
            />
          )}
          {!nothing && !conflicts && <ArtifactChoice workspace={w} value={artifacts} onChange={setArtifacts} />}
          <FormError error={merge.error} />
          {!nothing && !conflicts && (
            <div className="flex flex-wrap items-center justify-between gap-3">
              <div>
                <Check
                  label={t`Attach the report to the merge`}
                  hint={t`As a git note on its commit.`}
                  checked={report}
                  onChange={(e) => setReport(e.target.checked)}
                />
                <Check
                  label={t`Archive the workspace after merging`}
                  checked={archive}
                  onChange={(e) => setArchive(e.target.checked)}
                />
              </div>
              <Button
                type="submit"
                look="primary"
                keys="mod+enter"
                disabled={!possible || preview.isFetching}
                busy={merge.isPending && t`Merging`}
              >
                {outcome(strategy, plan?.fast_forward === true && (strategy === "rebase" || message.trim() === ""))}
              </Button>
            </div>
          )}
        </form>
      )}
    </MergeCard>
  );
}

/** What pressing the button does to the base. A message of one's own needs a commit to carry it. */
function outcome(strategy: Strategy, fastForward: boolean): string {
  if (fastForward) return t`Fast-forward`;
  if (strategy === "squash") return t`Squash and merge`;
  return strategy === "rebase" ? t`Rebase and merge` : t`Create a merge commit`;
}

interface OutlookProps {
  workspace: Workspace;
  /** There is a message, so there will be a merge commit. */
  commits: boolean;
  query: { pending: boolean; error: unknown; retry: () => void };
  plan: Result | undefined;
}

/** Shows what a merge would do, computed without changing anything. */
function Outlook({ workspace: w, commits, query, plan }: OutlookProps) {
  if (query.pending)
    return (
      <Busy>
        <Trans>Checking the merge…</Trans>
      </Busy>
    );
  if (query.error) return <Failure what={t`The merge could not be checked.`} error={query.error} retry={query.retry} />;
  if (!plan) return null;
  return (
    <div role="group" aria-label={t`Preview`} aria-live="polite" className="flex flex-col gap-1.5">
      {plan.up_to_date ? (
        <p className="text-fg2">
          <Trans>
            Nothing to merge: <span className="font-mono text-code">{plan.base}</span> has every commit of this branch.
          </Trans>
        </p>
      ) : plan.conflicts.length > 0 ? (
        <>
          <Mark
            kind="failed"
            word={t`${plural(plan.conflicts.length, { one: "# file", other: "# files" })} in conflict`}
          />
          <Conflicts conflicts={plan.conflicts} ours={plan.base} theirs={w.branch} />
          <p className="text-fg2">
            <Trans>
              Nothing was changed. Update the branch from <span className="font-mono text-code">{plan.base}</span> first
              and resolve the conflicts there, yourself or with an agent. Then merge.
            </Trans>
          </p>
        </>
      ) : (
        <>
          <Mark kind="merged" word={t`No conflicts`} />
          <p className="text-fg2">
            {plural(plan.commits, { one: "# commit", other: "# commits" })},{" "}
            {plural(plan.files, { one: "# file", other: "# files" })}.{" "}
            {plan.fast_forward && !commits
              ? t`${plan.base} fast-forwards to ${short(plan.head)}.`
              : t`${plan.base} moves from ${short(plan.base_commit)}${plan.commit ? t` to ${short(plan.commit)}` : ""}.`}
          </p>
        </>
      )}
      {plan.blocked && (
        <p className="flex gap-2 text-failed">
          <span aria-hidden>▲</span>
          <span>{plan.blocked}</span>
        </p>
      )}
      {plan.warnings.map((text) => (
        <p key={text} className="flex gap-2 text-needs">
          <span aria-hidden>◆</span>
          <span>{text}</span>
        </p>
      ))}
      {(w.agents.state === "working" || w.agents.state === "waiting") &&
        plan.conflicts.length === 0 &&
        !plan.up_to_date && (
          <p className="text-meta text-fg3">
            <Trans>A session is still working here. Only commits are merged.</Trans>
          </p>
        )}
    </div>
  );
}

/** After a merge: what people do next. */
function Next({
  workspace: w,
  standing: s,
  result,
  putAway,
}: {
  workspace: Workspace;
  standing: Schemas["MergeStatus"];
  /** Of the merge made just now; undefined for one made before, by the queue or elsewhere. */
  result: Result | undefined;
  putAway: () => void;
}) {
  const team = useTeam();
  const client = useQueryClient();
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const attached = useAttached(w);
  const attach = useAttach(w);
  const push = useMutation({
    mutationFn: () =>
      data(api.POST("/workspaces/{id}/push", { params: { path: { id: w.id } }, body: { what: "base" } })),
    onSuccess: (r) => toast({ kind: "good", title: t`${r.branch} is pushed`, text: t`At commit ${short(r.commit)}.` }),
    onSettled: () => afterMove(client, w, team.slug),
  });
  const unpushed = s.remote !== "" && s.base_ahead > 0;
  const commit = result?.commit ?? w.merged_commit ?? "";
  return (
    <div role="status" className="flex flex-col gap-3">
      <div className="flex flex-col gap-1">
        <Mark kind="merged" word={t`Merged into ${s.base}`} />
        <p className="text-fg2">
          {result &&
            `${plural(result.commits, { one: "# commit", other: "# commits" })}, ${plural(result.files, { one: "# file", other: "# files" })}. `}
          {commit && (
            <>
              <Trans>
                The merge is <span className="font-mono text-code">{short(commit)}</span>.
              </Trans>{" "}
            </>
          )}
          <Trans>Other workspaces show that {s.base} changed and can be updated from it.</Trans>
        </p>
      </div>
      {attached && <Attached commit={attached} />}
      {unpushed && (
        <p className="flex gap-2">
          <span aria-hidden className="text-needs">
            ◆
          </span>
          <span>
            <Trans>
              The merge is only in Parawork. The remote lacks{" "}
              {plural(s.base_ahead, { one: "# commit", other: "# commits" })} of {s.base}.
            </Trans>
          </span>
        </p>
      )}
      <div className="flex flex-wrap gap-2">
        {unpushed && (
          <Button look="primary" busy={push.isPending && t`Pushing`} onClick={() => push.mutate()}>
            <Trans>Push {s.base} to the remote</Trans>
          </Button>
        )}
        <Button look={unpushed ? "plain" : "primary"} onClick={putAway}>
          <Trans>Archive the workspace</Trans>
        </Button>
        {!attached && (
          <Button busy={attach.isPending && t`Attaching`} onClick={() => attach.mutate()}>
            <Trans>Attach the report</Trans>
          </Button>
        )}
        <Button onClick={() => void navigate({ search: (x) => ({ ...x, tab: undefined, session: undefined }) })}>
          <Trans>Keep working here</Trans>
        </Button>
        <Button onClick={() => void navigate({ to: "/$team/w", params: { team: team.slug } })}>
          <Trans>Other workspaces of {w.project_name}</Trans>
        </Button>
      </div>
      <FormError error={push.error ?? attach.error} />
    </div>
  );
}
