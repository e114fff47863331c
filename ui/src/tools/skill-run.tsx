import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Schemas } from "@/api/client";
import { workspacesQuery } from "@/api/queries";
import { Dialog, DialogBody } from "@/kit/dialog";
import { Field, inputClass } from "@/kit/field";
import { Failure, Skeleton } from "@/kit/states";
import { SessionForm } from "@/sessions/session-form";
import { runPrompt } from "./skill-prompts";

/** Has an agent work by a skill, in a workspace that is chosen here. */
export default function RunSkill(p: { team: string; skill: Schemas["TeamSkill"]; onClose: () => void }) {
  const navigate = useNavigate();
  const list = useQuery(workspacesQuery(p.team));
  const [chosen, setChosen] = useState("");
  const places = (list.data ?? []).filter(
    (w) => w.state === "ready" && (p.skill.project_id === null || w.project_id === p.skill.project_id),
  );
  const w = places.find((x) => x.id === chosen) ?? places[0];
  return (
    <Dialog open onClose={p.onClose} title={t`Run ${p.skill.name}`} about={p.skill.description}>
      <DialogBody className="flex flex-col gap-4 pb-4">
        {list.isPending && <Skeleton rows={2} label={t`Loading the workspaces`} />}
        {list.isError && !list.data && <Failure what={t`The workspaces could not be loaded.`} error={list.error} />}
        {list.data && !w && (
          <p className="text-fg2">
            <Trans>Create a workspace first: an agent needs a place to work in.</Trans>
          </p>
        )}
        {w && (
          <>
            <Field label={t`Workspace`}>
              {(ids) => (
                <select {...ids} value={w.id} onChange={(e) => setChosen(e.target.value)} className={inputClass}>
                  {places.map((x) => (
                    <option key={x.id} value={x.id}>
                      {`${x.key} ${x.name}`}
                    </option>
                  ))}
                </select>
              )}
            </Field>
            <SessionForm
              key={w.id}
              workspace={w}
              prompt={runPrompt(p.skill.name)}
              onStarted={(s) =>
                void navigate({ to: "/$team/w/$key", params: { team: p.team, key: w.key }, search: { session: s.id } })
              }
            />
          </>
        )}
      </DialogBody>
    </Dialog>
  );
}
