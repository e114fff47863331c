import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { AccountList } from "@/agents/account-list";
import { COMMAND, SHELL } from "@/agents/built-in";
import { OWN } from "@/agents/own";
import type { Agent } from "@/api/client";
import { agentsQuery, refreshAgents } from "@/api/queries";
import { Button } from "@/kit/button";
import { Mark } from "@/kit/mark";
import { CopyLine, Empty, Failure, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { useMe, useTeam } from "@/state/team";

/** The agents of the server and your accounts for each of them. */
export default function AgentsSettings() {
  const team = useTeam();
  const client = useQueryClient();
  const list = useQuery(agentsQuery(team.slug));
  const refresh = useAction({
    act: () => refreshAgents(client, team.slug),
    failed: t`The agents could not be checked again`,
  });
  if (list.isPending) return <Skeleton rows={5} label={t`Loading the agents`} />;
  if (list.isError && !list.data)
    return <Failure what={t`The agents could not be listed.`} error={list.error} retry={() => void list.refetch()} />;
  const agents = list.data.filter((a) => a.agent !== SHELL && a.agent !== COMMAND);
  if (agents.length === 0)
    return (
      <Empty title={t`No agents`}>
        <Trans>The server's config.json lists none.</Trans>
      </Empty>
    );
  return (
    <div className="flex flex-col gap-4">
      <p className="text-fg2">
        <Trans>
          Each agent runs in its own home directory on the server, created for you. Your own settings and logins are
          never edited. Sessions use the account you choose when you start them, else your default, else the team's.
        </Trans>
      </p>
      <ul className="divide-y divide-hairline border-y border-hairline">
        {agents.map((a) => (
          <AgentRow key={a.agent} agent={a} />
        ))}
      </ul>
      <Button className="self-start" busy={refresh.busy && t`Looking`} onClick={() => void refresh.run()}>
        <Trans>Check for programs again</Trans>
      </Button>
    </div>
  );
}

function AgentRow({ agent: a }: { agent: Agent }) {
  const me = useMe();
  const own = a.accounts.filter((x) => x.scope === "user");
  const shared = a.accounts.filter((x) => x.scope === "team");
  return (
    <li className="py-3">
      <h2 className="flex flex-wrap items-baseline gap-x-2">
        <span className="font-medium">{a.name}</span>
        {!a.enabled ? (
          <Mark kind="stopped" word={t`Turned off`} className="text-meta font-normal" />
        ) : a.installed ? (
          <span className="font-mono text-micro font-normal text-fg3" title={a.path}>
            {a.version || (a.agent === OWN ? t`part of this server` : t`installed`)}
          </span>
        ) : (
          <Mark kind="stopped" word={t`Not installed`} className="text-meta font-normal" />
        )}
      </h2>
      {a.enabled && !a.installed && a.install && (
        <div className="mt-2">
          <p className="mb-1 text-meta text-fg3">
            <Trans>Install it on the server, as the user that runs Parawork:</Trans>
          </p>
          <CopyLine text={a.install} label={t`the command that installs ${a.name}`} />
        </div>
      )}
      {a.enabled && !a.takes_account && (
        <p className="text-meta text-fg3">
          <Trans>Needs no account.</Trans>
        </p>
      )}
      {a.enabled && a.takes_account && (
        <>
          {own.length === 0 && (
            <p className="text-meta text-fg3">
              {shared.length === 0
                ? a.agent === OWN
                  ? t`A key is enough: of Anthropic, OpenAI or any compatible server.`
                  : t`No account chosen.`
                : t`You have none of your own; your sessions use the team's.`}
            </p>
          )}
          <AccountList
            agent={a.agent}
            name={a.name}
            scope="user"
            accounts={own}
            manage
            existingLogin={me.limits.existing_login}
          />
          {shared.length > 0 && (
            <p className="mt-1 text-meta break-words text-fg3">
              <Trans>Shared by the team: {shared.map((x) => x.name).join(", ")}</Trans>
            </p>
          )}
        </>
      )}
    </li>
  );
}
