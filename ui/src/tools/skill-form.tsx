import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "@/api/client";
import { keys } from "@/api/queries";
import { Button } from "@/kit/button";
import { Check, TextArea, TextField } from "@/kit/field";
import { FormError } from "@/kit/states";

interface Props {
  team: string;
  /** Whose a new skill is; absent: the whole team's. */
  project?: string;
  /** Empty: a new skill. */
  id: string;
  name: string;
  description: string;
  text: string;
  version?: number;
  onDone: () => void;
}

/** A form that saves a new skill, or the next version of one. */
export function SkillForm(p: Props) {
  const client = useQueryClient();
  const [name, setName] = useState(p.name);
  const [description, setDescription] = useState(p.description);
  const [text, setText] = useState(p.text);
  const [forAll, setForAll] = useState(!p.project);
  const save = useMutation({
    mutationFn: () =>
      p.id === ""
        ? data(
            api.POST("/teams/{team}/skills", {
              params: { path: { team: p.team } },
              body: {
                name: name.trim(),
                description,
                text,
                ...(p.project && !forAll ? { project_id: p.project } : {}),
              },
            }),
          )
        : data(
            api.PATCH("/skills/{id}", {
              params: { path: { id: p.id } },
              body: { description, text, version: p.version },
            }),
          ),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.skills() });
      p.onDone();
    },
  });
  return (
    <form
      aria-label={t`Skill`}
      className="flex flex-col gap-3"
      onSubmit={(e) => {
        e.preventDefault();
        save.mutate();
      }}
    >
      <TextField
        label={t`Name`}
        required
        maxLength={64}
        disabled={p.id !== ""}
        value={name}
        placeholder={t`make-a-release`}
        onChange={(e) => setName(e.target.value)}
      />
      <TextField
        label={t`When to use it`}
        required
        maxLength={400}
        value={description}
        onChange={(e) => setDescription(e.target.value)}
      />
      <TextArea label={t`Text`} required mono rows={12} value={text} onChange={(e) => setText(e.target.value)} />
      {p.id === "" && p.project && (
        <Check label={t`For all projects of the team`} checked={forAll} onChange={(e) => setForAll(e.target.checked)} />
      )}
      <FormError error={save.error} />
      <div className="flex gap-2">
        <Button type="submit" look="primary" busy={save.isPending && t`Saving`}>
          <Trans>Save</Trans>
        </Button>
        <Button onClick={p.onDone}>
          <Trans>Cancel</Trans>
        </Button>
      </div>
    </form>
  );
}
