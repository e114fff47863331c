import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "@/api/client";
import { ApiError } from "@/api/problem";
import { short, visible } from "@/format/text";
import { Button } from "@/kit/button";
import { TextField } from "@/kit/field";
import { FormError, Output } from "@/kit/states";
import { confirm } from "@/state/confirm";
import { useTeam } from "@/state/team";
import { toast } from "@/state/toasts";
import { type CardProps, MergeCard } from "./card";
import { afterMove, useMergeStatus } from "./queries";

interface Ask {
  what: "branch" | "base";
  force?: boolean;
}

/** Sending the branch, or the base as it is here, to the project's remote. */
export default function PushCard({ workspace: w }: CardProps) {
  const team = useTeam();
  const client = useQueryClient();
  const standing = useMergeStatus(w);
  const [name, setName] = useState("");
  const s = standing.data;
  const push = useMutation({
    mutationFn: ({ what, force }: Ask) =>
      data(
        api.POST("/workspaces/{id}/push", {
          params: { path: { id: w.id } },
          body: { what, force, ...(what === "branch" && name.trim() ? { branch: name.trim() } : {}) },
        }),
      ),
    onSuccess: (r) =>
      toast({
        kind: "good",
        title: r.up_to_date ? t`${visible(r.branch)} was already up to date` : t`${visible(r.branch)} is pushed`,
        text: t`At commit ${short(r.commit)}.${r.notes > 0 ? t` ${plural(r.notes, { one: "# report", other: "# reports" })} pushed as git notes.` : ""}`,
      }),
    onSettled: () => afterMove(client, w, team.slug),
  });
  if (!s?.remote || !s.head || !team.can("workspace.edit")) return null;
  const diverged = push.error instanceof ApiError && push.error.details.diverged === true;
  const byForce = async () => {
    const yes = await confirm({
      title: t`Replace the branch on the remote?`,
      body: t`${plural(s.pushed?.behind ?? 0, { one: "# commit", other: "# commits" })} on the remote that this branch does not have would be lost. If somebody pushed since the last fetch, the push is rejected.`,
      action: t`Force push`,
      danger: true,
    });
    if (yes) push.mutate({ what: "branch", force: true });
  };
  return (
    <MergeCard title={t`Push`} aside={<span className="font-mono text-code break-all">{visible(s.remote)}</span>}>
      <div className="flex flex-wrap items-end gap-3">
        <TextField
          label={t`Remote branch`}
          mono
          fieldClass="min-w-48 flex-1"
          placeholder={w.branch}
          value={name}
          onChange={(e) => setName(e.target.value)}
        />
        <Button
          busy={push.isPending && push.variables?.what === "branch" && t`Pushing`}
          onClick={() => push.mutate({ what: "branch" })}
        >
          <Trans>Push the branch</Trans>
        </Button>
        {s.base_ahead > 0 && team.can("workspace.merge") && (
          <Button
            busy={push.isPending && push.variables?.what === "base" && t`Pushing`}
            onClick={() => push.mutate({ what: "base" })}
          >
            <Trans>
              Push {s.base} ({plural(s.base_ahead, { one: "# commit", other: "# commits" })})
            </Trans>
          </Button>
        )}
      </div>
      <FormError error={push.error} />
      {(diverged || (s.pushed && s.pushed.behind > 0)) && (
        <div>
          <Button look="danger" onClick={() => void byForce()}>
            <Trans>Force push…</Trans>
          </Button>
        </div>
      )}
      {push.data?.url && (
        <p>
          <a href={push.data.url} target="_blank" rel="noreferrer noopener" className="text-accent underline">
            {visible(push.data.url)}
          </a>
        </p>
      )}
      {push.data?.notes_problem && (
        <p role="alert" className="flex gap-2 text-needs">
          <span aria-hidden>◆</span>
          <span>
            <Trans>The branch was pushed, but the reports were not: {visible(push.data.notes_problem)}</Trans>
          </span>
        </p>
      )}
      {push.data?.message && <Output text={visible(push.data.message)} />}
      <p className="text-meta text-fg3">
        <Trans>Pushes with your own git credential for this host, or else with the project's or the team's.</Trans>
      </p>
    </MergeCard>
  );
}
