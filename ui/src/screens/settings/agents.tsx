import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { AccountForm, accountWords } from "@/agents/account";
import { type Agent, api } from "@/api/client";
import { agentsQuery, keys, refreshAgents } from "@/api/queries";
import { useMe, useTeam } from "@/app/team";
import { Button } from "@/kit/button";
import { Mark } from "@/kit/mark";
import { CopyLine, Empty, Failure, Skeleton } from "@/kit/states";
import { confirm } from "@/state/confirm";
import { toastError } from "@/state/toasts";
import { COMMAND, SHELL } from "@/workspaces/sessions";

/** The agents of the server and the account each of them uses for you. */
export default function AgentsSettings() {
  const team = useTeam();
  const client = useQueryClient();
  const list = useQuery(agentsQuery(team.slug));
  const refresh = useMutation({
    mutationFn: () => refreshAgents(client, team.slug),
    onError: (error) => toastError("Could not look again", error),
  });
  if (list.isPending) return <Skeleton rows={5} label="Looking which agents are installed" />;
  if (list.isError && !list.data)
    return <Failure what="The agents could not be listed." error={list.error} retry={() => void list.refetch()} />;
  const agents = list.data.filter((a) => a.agent !== SHELL && a.agent !== COMMAND);
  if (agents.length === 0) return <Empty title="No agents">The server's config.json names none.</Empty>;
  return (
    <div className="flex flex-col gap-4">
      <p className="text-fg2">
        Each agent runs in a home of its own on the server, made for you. Your own settings and logins there are never
        edited.
      </p>
      <ul className="divide-y divide-hairline border-y border-hairline">
        {agents.map((a) => (
          <AgentRow key={a.agent} agent={a} />
        ))}
      </ul>
      <Button className="self-start" busy={refresh.isPending && "Looking"} onClick={() => refresh.mutate()}>
        Look for programs again
      </Button>
    </div>
  );
}

function AgentRow({ agent: a }: { agent: Agent }) {
  const team = useTeam();
  const me = useMe();
  const client = useQueryClient();
  const [open, setOpen] = useState(false);
  const forgetAccount = useMutation({
    mutationFn: () => api.DELETE("/me/agent-accounts/{agent}", { params: { path: { agent: a.agent } } }),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.agents(team.slug) });
      void client.invalidateQueries({ queryKey: keys.accounts });
    },
    onError: (error) => toastError("The account was not forgotten", error),
  });
  const askForget = async () => {
    const yes = await confirm({
      title: `Forget your account for ${a.name}?`,
      body: "Sessions that run now keep theirs. New ones ask again.",
      action: "Forget",
      danger: true,
    });
    if (yes) forgetAccount.mutate();
  };
  return (
    <li className="py-3">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <div className="min-w-0 flex-1 basis-52">
          <p className="flex flex-wrap items-baseline gap-x-2">
            <span className="font-medium">{a.name}</span>
            {!a.enabled ? (
              <Mark kind="stopped" word="Turned off" className="text-meta" />
            ) : a.installed ? (
              <span className="font-mono text-[11px] text-fg3" title={a.path}>
                {a.version || "installed"}
              </span>
            ) : (
              <Mark kind="stopped" word="Not installed" className="text-meta" />
            )}
          </p>
          <p className="text-meta text-fg3">
            {a.account
              ? accountWords(a.account)
              : a.needs_account
                ? "No account chosen."
                : a.installed
                  ? "Needs no account."
                  : ""}
          </p>
        </div>
        {a.enabled && (
          <div className="flex gap-2">
            {a.account && (
              <Button
                look="quiet"
                busy={forgetAccount.isPending}
                onClick={() => void askForget()}
                aria-label={`Forget the account of ${a.name}`}
              >
                Forget
              </Button>
            )}
            {(a.account || a.needs_account || !a.installed) && (
              <Button aria-expanded={open} onClick={() => setOpen((o) => !o)}>
                {open ? "Close" : a.account ? "Change" : "Choose an account"}
                <span className="sr-only"> for {a.name}</span>
              </Button>
            )}
          </div>
        )}
      </div>
      {a.enabled && !a.installed && a.install && (
        <div className="mt-2">
          <p className="mb-1 text-meta text-fg3">Install it on the server, as the user that runs Parawork:</p>
          <CopyLine text={a.install} label={`the command that installs ${a.name}`} />
        </div>
      )}
      {open && (
        <div className="mt-2">
          <AccountForm
            agent={a.agent}
            name={a.name}
            current={a.account}
            existingLogin={me.limits.existing_login}
            onSaved={() => setOpen(false)}
          />
        </div>
      )}
    </li>
  );
}
