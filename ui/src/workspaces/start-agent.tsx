import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { COMMAND, SETUP, SHELL } from "@/agents/built-in";
import { api, data, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { Button } from "@/kit/button";
import { Dialog, DialogBody, DialogFoot } from "@/kit/dialog";
import { TextArea } from "@/kit/field";
import { FormError } from "@/kit/states";
import { noteProblem } from "@/sandboxes/problem";
import { SessionForm } from "@/sessions/session-form";
import { useTeam } from "@/state/team";
import { toast } from "@/state/toasts";

/** Sets the agent of a workspace to work: with a message, or where it left off; in a new workspace with the form of the first session. */
export default function StartAgent({ workspace: w, onClose }: { workspace: Workspace; onClose: () => void }) {
  const team = useTeam();
  const client = useQueryClient();
  const [text, setText] = useState("");
  const { session_id: session, agent_name: agent = t`the agent`, state } = w.agents;
  const ended = state === "exited" || state === "failed" || state === "lost";
  const started = (name: string) => {
    void client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] });
    void client.invalidateQueries({ queryKey: keys.sessions(w.id) });
    toast({ kind: "good", title: t`${name} is at work in ${w.name}` });
    onClose();
  };
  const start = useMutation({
    mutationFn: async () => {
      const path = { id: session ?? "" };
      if (text.trim() === "") await data(api.POST("/sessions/{id}/resume", { params: { path } }));
      else await data(api.POST("/sessions/{id}/prompts", { params: { path }, body: { text, resume: ended } }));
    },
    onSuccess: () => started(agent),
    onError: (error) => void noteProblem(w.id, error),
  });
  const other = w.agents.agent === SHELL || w.agents.agent === COMMAND || w.agents.agent === SETUP;
  if (!session || other)
    return (
      <Dialog open onClose={onClose} title={t`Start an agent in ${w.name}`}>
        <DialogBody className="pb-4">
          <SessionForm workspace={w} onStarted={(s) => started(s.agent_name)} />
        </DialogBody>
      </Dialog>
    );
  return (
    <Dialog open onClose={onClose} title={t`Start ${agent} in ${w.name}`}>
      <form
        className="contents"
        onSubmit={(e) => {
          e.preventDefault();
          start.mutate();
        }}
      >
        <DialogBody>
          <TextArea
            label={t`Message`}
            rows={4}
            value={text}
            onChange={(e) => setText(e.target.value)}
            onKeyDown={(e) => {
              if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) e.currentTarget.form?.requestSubmit();
            }}
            hint={
              ended
                ? t`What it does next. Without a message it resumes its conversation where it ended.`
                : t`What it does next: it is idle and waits for a message.`
            }
          />
          <div className="mt-3 empty:hidden">
            <FormError error={start.error} />
          </div>
        </DialogBody>
        <DialogFoot>
          <Button onClick={onClose}>
            <Trans>Cancel</Trans>
          </Button>
          <Button
            type="submit"
            look="primary"
            keys="mod+enter"
            disabled={!ended && text.trim() === ""}
            busy={start.isPending && t`Starting`}
          >
            <Trans>Start</Trans>
          </Button>
        </DialogFoot>
      </form>
    </Dialog>
  );
}
