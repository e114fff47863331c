import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { OWN } from "@/agents/own";
import { api, data, type Session, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { Button } from "@/kit/button";
import { Dialog, DialogBody } from "@/kit/dialog";
import { TextField } from "@/kit/field";
import { FormError, Skeleton } from "@/kit/states";
import { hasEnded } from "@/sessions/sessions";
import { toast } from "@/state/toasts";
import { SkillForm } from "./skill-form";
import { outline, savePrompt } from "./skill-prompts";

/** Prompts that a person's own text begins with. */
const ASKED = 50;

interface Props {
  team: string;
  workspace: Workspace;
  session: Session;
  mayAsk: boolean;
  onClose: () => void;
}

/** Makes a skill of a conversation: its agent writes it, or a person does. */
export default function SaveSkill({ team, workspace: w, session: s, mayAsk, onClose }: Props) {
  const [own, setOwn] = useState(!mayAsk || hasEnded(s));
  return (
    <Dialog
      open
      onClose={onClose}
      wide={own}
      title={t`Save as a skill`}
      about={t`Agents read it when such work comes up again.`}
    >
      <DialogBody className="pb-4">
        {own ? (
          <Write team={team} project={w.project_id} session={s} onDone={onClose} />
        ) : (
          <Ask session={s} onDone={onClose} onWrite={() => setOwn(true)} />
        )}
      </DialogBody>
    </Dialog>
  );
}

function Ask({ session: s, onDone, onWrite }: { session: Session; onDone: () => void; onWrite: () => void }) {
  const client = useQueryClient();
  const [about, setAbout] = useState("");
  const [key] = useState(() => crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`);
  const ask = useMutation<unknown>({
    mutationFn: async () => {
      const session = { path: { id: s.id } };
      const header = { "Idempotency-Key": key };
      const body = { text: savePrompt(about) };
      if (s.agent !== OWN) return data(api.POST("/sessions/{id}/prompts", { params: { ...session, header }, body }));
      const thread = await data(api.GET("/sessions/{id}/thread", { params: session }));
      return data(api.POST("/threads/{id}/messages", { params: { path: { id: thread.id }, header }, body }));
    },
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.prompts(s.workspace_id, s.id) });
      toast({ kind: "good", title: t`${s.agent_name} was asked`, text: t`Its draft appears under Skills.` });
      onDone();
    },
  });
  return (
    <form
      className="flex flex-col gap-4"
      onSubmit={(e) => {
        e.preventDefault();
        ask.mutate();
      }}
    >
      <p className="text-fg2">
        <Trans>
          {s.agent_name} writes it from this conversation. It is a draft until somebody accepts it, unless your team
          accepts such skills at once.
        </Trans>
      </p>
      <TextField
        label={t`What it is about`}
        hint={t`Leave empty if it is clear from the conversation.`}
        maxLength={400}
        value={about}
        onChange={(e) => setAbout(e.target.value)}
      />
      <FormError error={ask.error} />
      <div className="flex flex-wrap gap-2">
        <Button type="submit" look="primary" busy={ask.isPending && t`Asking`}>
          <Trans>Ask {s.agent_name}</Trans>
        </Button>
        <Button onClick={onWrite}>
          <Trans>Write it yourself</Trans>
        </Button>
      </div>
    </form>
  );
}

function Write(p: { team: string; project: string; session: Session; onDone: () => void }) {
  const asked = useQuery({
    queryKey: [...keys.conversation(p.session.id), "asked"],
    queryFn: () =>
      data(
        api.GET("/sessions/{id}/conversation", {
          params: { path: { id: p.session.id }, query: { kinds: "prompt", limit: ASKED } },
        }),
      ),
    staleTime: Infinity, // what is being written does not change under the hands
    gcTime: 0,
  });
  if (asked.isPending) return <Skeleton rows={4} label={t`Reading the conversation`} />;
  const said = (asked.data?.items ?? []).filter((i) => !i.undone && i.text).map((i) => i.text);
  return (
    <SkillForm team={p.team} project={p.project} id="" name="" description="" text={outline(said)} onDone={p.onDone} />
  );
}
