import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { AgentChoice, useAgentChoice } from "@/agents/agent-choice";
import { AttachField, useAttachments } from "@/agents/attach";
import { COMMAND, SHELL } from "@/agents/built-in";
import { OwnOptions, useOwnChoice } from "@/agents/own-options";
import type { Session, Workspace } from "@/api/client";
import { ApiError } from "@/api/problem";
import { agentsQuery, keys } from "@/api/queries";
import { splitCommand } from "@/format/command";
import { Button } from "@/kit/button";
import { Check, TextArea, TextField } from "@/kit/field";
import { FormError } from "@/kit/states";
import { isString, recall, remember } from "@/state/remember";
import { useTeam } from "@/state/team";
import { sayFirst } from "./first-prompt";
import { OwnSecretsNote } from "./own-secrets";
import { startSession } from "./start";

interface Props {
  workspace: Workspace;
  /** The session it replaces, and that session's prompts. */
  after?: { session: Session; ended: boolean; told: string };
  /** What is written already. */
  prompt?: string;
  onStarted: (s: Session) => void;
}

/** The form to start a session: agent, account and prompt. */
export function SessionForm({ workspace: w, after, prompt: written, onStarted }: Props) {
  const team = useTeam();
  const client = useQueryClient();
  const agents = useQuery(agentsQuery(team.slug));
  const choice = useAgentChoice(agents.data, recall(`agent.${w.project_id}`, isString), (agent) =>
    recall(`account.${w.project_id}.${agent}`, isString),
  );
  const [prompt, setPrompt] = useState(after?.told ?? written ?? "");
  const [stopFirst, setStopFirst] = useState(true);
  const [command, setCommand] = useState("");
  const allKey = `permissions.${w.project_id}.${choice.agent}`;
  const [all, setAll] = useState<Record<string, boolean>>({});
  const permits = choice.info?.takes_permissions ?? false;
  const everything =
    permits && (all[choice.agent] ?? (recall(allKey, isString) ?? choice.info?.default_permissions) === "all");
  const [noBoundary, setNoBoundary] = useState(false);
  const isCommand = choice.agent === COMMAND;
  const talks = choice.agent !== SHELL && !isCommand;
  const argv = splitCommand(command);
  const own = useOwnChoice(choice.agent, w.project_id);
  const attachments = useAttachments(own.argv !== undefined);
  const files = attachments.takes ? attachments.list : [];

  const start = useMutation({
    mutationFn: () =>
      startSession(w.id, {
        agent: choice.agent,
        ...(talks && files.length === 0 ? { prompt } : {}),
        ...(isCommand ? { argv } : own.argv ? { argv: own.argv } : {}),
        ...(choice.account ? { account_id: choice.account } : {}),
        ...(permits ? { permissions: everything ? "all" : "ask" } : {}),
        ...(everything && noBoundary ? { confirm_no_boundary: true } : {}),
        ...(after && stopFirst ? { from_session: after.session.id, stop_from_session: true } : {}),
      }),
    onSuccess: (s) => {
      remember(`agent.${w.project_id}`, s.agent);
      own.keep();
      if (permits) remember(allKey, everything ? "all" : "ask");
      if (choice.account) remember(`account.${w.project_id}.${s.agent}`, choice.account);
      client.setQueryData<Session[]>(keys.sessions(w.id), (list) => [s, ...(list ?? []).filter((x) => x.id !== s.id)]);
      void client.invalidateQueries({ queryKey: keys.sessions(w.id) });
      if (files.length > 0) void sayFirst(s.id, prompt, files);
      onStarted(s);
    },
  });
  const unkept = start.error instanceof ApiError && start.error.code === "no_boundary";
  const ready = choice.ready && (!isCommand || argv.length > 0);
  const go = () => {
    if (ready && !start.isPending) start.mutate();
  };

  return (
    <form
      className="flex flex-col gap-4"
      onSubmit={(e) => {
        e.preventDefault();
        go();
      }}
      onKeyDown={(e) => {
        if ((e.ctrlKey || e.metaKey) && e.key === "Enter") {
          e.preventDefault();
          go();
        }
      }}
    >
      <AgentChoice query={agents} choice={choice} withShell />
      {own.argv && choice.ready && <OwnOptions start={own.start} onChange={own.set} account={choice.account} />}
      {talks && (
        <TextArea
          label={t`Prompt`}
          rows={4}
          placeholder={t`What should it do? Leave empty to start without a task.`}
          value={prompt}
          onChange={(e) => setPrompt(e.target.value)}
        />
      )}
      {attachments.takes && <AttachField files={attachments} />}
      {isCommand && (
        <TextField
          label={t`Command`}
          mono
          placeholder="npm run dev"
          hint={t`Runs without a shell: quotes group words, nothing is expanded.`}
          value={command}
          spellCheck={false}
          onChange={(e) => setCommand(e.target.value)}
        />
      )}
      {permits && (
        <Check
          label={t`All permissions: the agent never asks`}
          hint={t`The sandbox contains it. Otherwise it asks before doing anything it is not allowed to do.`}
          checked={everything}
          onChange={(e) => {
            setAll({ ...all, [choice.agent]: e.target.checked });
            setNoBoundary(false);
            start.reset();
          }}
        />
      )}
      {everything && (unkept || noBoundary) && (
        <Check
          label={t`Start it without isolation`}
          hint={t`It has all rights of the server's user: files, programs and network.`}
          checked={noBoundary}
          onChange={(e) => setNoBoundary(e.target.checked)}
        />
      )}
      {after && !after.ended && (
        <Check
          label={t`Stop ${after.session.agent_name} first`}
          hint={t`Its queued messages go to the new agent. Otherwise two agents edit the same files.`}
          checked={stopFirst}
          onChange={(e) => setStopFirst(e.target.checked)}
        />
      )}
      <OwnSecretsNote workspace={w} />
      <FormError error={start.error} />
      <Button
        type="submit"
        look="primary"
        keys="mod+enter"
        className="self-start"
        disabled={!ready}
        busy={start.isPending && t`Starting`}
      >
        <Trans>Start</Trans>
      </Button>
    </form>
  );
}
