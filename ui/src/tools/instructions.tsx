import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "@/api/client";
import { keys } from "@/api/queries";
import { Button } from "@/kit/button";
import { Check, TextArea } from "@/kit/field";
import { FormError } from "@/kit/states";

type Owner = { project: string; team?: undefined } | { team: string; project?: undefined };

/** The instructions of a project, or of a team with whether it accepts what its agents save. */
export function InstructionsForm({ project, team, readOnly }: Owner & { readOnly: boolean }) {
  const client = useQueryClient();
  const key = keys.skills("instructions", project ?? team ?? "");
  const of = { params: { path: { id: project ?? "" } } };
  const all = { params: { path: { team: team ?? "" } } };
  const kept = useQuery({
    queryKey: key,
    queryFn: () =>
      data(
        project ? api.GET("/projects/{id}/agent-instructions", of) : api.GET("/teams/{team}/agent-instructions", all),
      ),
  });
  const [text, setText] = useState<string | null>(null);
  const [accepts, setAccepts] = useState<boolean | null>(null);
  const save = useMutation({
    mutationFn: () => {
      const body = { text: text ?? kept.data?.text ?? "" };
      return data(
        project
          ? api.PUT("/projects/{id}/agent-instructions", { ...of, body })
          : api.PUT("/teams/{team}/agent-instructions", {
              ...all,
              body: accepts === null ? body : { ...body, accept_skills: accepts },
            }),
      );
    },
    onSuccess: (saved) => {
      client.setQueryData(key, saved);
      setText(null);
      setAccepts(null);
    },
  });
  return (
    <form
      className="flex flex-col gap-3"
      onSubmit={(e) => {
        e.preventDefault();
        save.mutate();
      }}
    >
      <TextArea
        label={t`Instructions`}
        mono
        rows={project ? 5 : 10}
        readOnly={readOnly || !kept.data}
        value={text ?? kept.data?.text ?? ""}
        hint={t`Parawork's own agent reads them at the beginning of every conversation${project ? "" : t`, in all projects`}.`}
        onChange={(e) => setText(e.target.value)}
      />
      {team && (
        <Check
          label={t`Use skills that agents save without a review`}
          hint={t`Otherwise they are drafts, which a member accepts. Without a review, what misleads one agent can mislead the next.`}
          disabled={readOnly || !kept.data}
          checked={accepts ?? kept.data?.accept_skills ?? false}
          onChange={(e) => setAccepts(e.target.checked)}
        />
      )}
      <FormError error={save.error ?? kept.error} />
      {(text !== null || accepts !== null) && (
        <Button type="submit" className="self-start" busy={save.isPending && t`Saving`}>
          <Trans>Save instructions</Trans>
        </Button>
      )}
    </form>
  );
}
