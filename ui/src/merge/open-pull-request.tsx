import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas, type Workspace } from "@/api/client";
import { fieldError } from "@/api/problem";
import { visible } from "@/format/text";
import { Button } from "@/kit/button";
import { Check, TextArea, TextField } from "@/kit/field";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";
import { ArtifactChoice } from "./artifact-choice";
import { markdown } from "./attach";
import { noun } from "./pull-request-labels";
import { afterMove, homeKeys, proposalQuery, useMergeStatus } from "./queries";
import { withReport } from "./with-report";

interface Props {
  workspace: Workspace;
  forge: Schemas["ProjectForge"];
  opened: () => void;
}

/** The form for a new pull request, prefilled from the workspace. */
export function OpenPullRequest({ workspace: w, forge, opened }: Props) {
  const what = noun(forge.kind);
  const standing = useMergeStatus(w);
  const proposal = useQuery(proposalQuery(w.id, standing.data?.head ?? ""));
  if (proposal.isPending) return <Skeleton rows={3} label={t`Preparing the ${what}`} />;
  if (proposal.isError)
    return (
      <Failure
        what={t`The ${what} could not be prepared.`}
        error={proposal.error}
        retry={() => void proposal.refetch()}
      />
    );
  if (proposal.data.commits === 0)
    return (
      <p className="text-fg2">
        <Trans>
          {visible(proposal.data.branch)} has no commits that {visible(proposal.data.base)} has not. Commit first.
        </Trans>
      </p>
    );
  return <Form workspace={w} forge={forge} opened={opened} proposal={proposal.data} />;
}

function Form({ workspace: w, forge, opened, proposal: p }: Props & { proposal: Schemas["PullRequestProposal"] }) {
  const team = useTeam();
  const client = useQueryClient();
  const what = noun(forge.kind);
  // Unedited fields follow the proposal, which follows the commits.
  const [said, setSaid] = useState<{ title?: string; body?: string; base?: string }>({});
  const [draft, setDraft] = useState(false);
  const [artifacts, setArtifacts] = useState<Schemas["ArtifactChoice"][]>([]);
  const title = said.title ?? p.title;
  const body = said.body ?? p.body;
  const base = said.base ?? p.base;
  const open = useMutation({
    mutationFn: () =>
      data(
        api.POST("/workspaces/{id}/pull-request", {
          params: { path: { id: w.id } },
          body: { title: title.trim(), body, base: base.trim(), draft, push: true, artifacts },
        }),
      ),
    onSuccess: (pr) => {
      client.setQueryData(homeKeys.pull(w.id), pr);
      opened();
      toast({
        kind: "good",
        title: t`The ${what} is open`,
        text: t`${pr.host}/${pr.repository}, number ${pr.number}.`,
      });
    },
    onSettled: () => afterMove(client, w, team.slug),
  });
  // Insert it in the field, so the user can read and shorten it before anyone else sees it.
  const report = useMutation({
    mutationFn: () => markdown(w.id),
    onSuccess: (text) => setSaid((was) => ({ ...was, body: withReport(was.body ?? p.body, text) })),
    onError: (error) => toastError(t`The report could not be generated`, error),
  });
  const field = (f: string) => fieldError(open.error, f);
  return (
    <form
      aria-label={t`New ${what}`}
      className="flex flex-col gap-3"
      onSubmit={(e) => {
        e.preventDefault();
        if (!open.isPending) open.mutate();
      }}
    >
      <TextField
        label={t`Title`}
        required
        maxLength={250}
        value={title}
        error={field("title")}
        onChange={(e) => setSaid({ ...said, title: e.target.value })}
      />
      <TextArea
        label={t`Description`}
        hint={t`Markdown. Everyone with access to the repository can read it.`}
        rows={8}
        mono
        value={body}
        error={field("body")}
        onChange={(e) => setSaid({ ...said, body: e.target.value })}
      />
      <div>
        <Button busy={report.isPending && t`Generating`} onClick={() => report.mutate()}>
          <Trans>Insert the report into the description</Trans>
        </Button>
      </div>
      <ArtifactChoice workspace={w} value={artifacts} onChange={setArtifacts} links />
      <div className="flex flex-wrap items-end gap-x-4 gap-y-2">
        <TextField
          label={t`Into`}
          mono
          required
          fieldClass="min-w-40 flex-1"
          value={base}
          error={field("base")}
          onChange={(e) => setSaid({ ...said, base: e.target.value })}
        />
        <Check label={t`Create as draft`} checked={draft} onChange={(e) => setDraft(e.target.checked)} />
      </div>
      <FormError error={open.error && !["title", "body", "base"].some(field) ? open.error : null} />
      <div>
        <Button type="submit" look="primary" busy={open.isPending && t`Pushing and opening`}>
          <Trans>Push and open the {what}</Trans>
        </Button>
      </div>
    </form>
  );
}
