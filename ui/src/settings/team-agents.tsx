import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { AccountList } from "@/agents/account-list";
import { agentsQuery, teamAccountsQuery } from "@/api/queries";
import { Empty, Failure, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";

/** The agents' accounts the team shares. */
export default function TeamAgents() {
  const team = useTeam();
  const manage = team.can("team.manage");
  const agents = useQuery(agentsQuery(team.slug));
  const accounts = useQuery(teamAccountsQuery(team.slug));
  if (agents.isPending || accounts.isPending)
    return <Skeleton rows={4} label={t`Loading the accounts the team shares`} />;
  const failed = agents.data ? accounts : agents;
  if (!agents.data || !accounts.data)
    return (
      <Failure
        what={t`The accounts the team shares could not be loaded.`}
        error={failed.error}
        retry={() => void failed.refetch()}
      />
    );
  const known = agents.data.filter(
    (a) => a.takes_account && (a.enabled || accounts.data.some((x) => x.agent === a.agent)),
  );
  return (
    <div className="flex flex-col gap-4">
      <p className="text-fg2">
        <Trans>
          Accounts every member of {team.name} can start sessions with. Their keys are never shown. Members with their
          own default account keep using it.
        </Trans>
        {!manage && t` Owners and admins of the team can change them.`}
      </p>
      {known.length === 0 || (!manage && accounts.data.length === 0) ? (
        <Empty title={t`No shared accounts`}>
          {manage ? t`No agent on this server uses an account.` : t`Ask an owner or admin of the team for an account.`}
        </Empty>
      ) : (
        <ul className="divide-y divide-hairline border-y border-hairline">
          {known
            .map((a) => ({ a, own: accounts.data.filter((x) => x.agent === a.agent) }))
            .filter(({ own }) => manage || own.length > 0)
            .map(({ a, own }) => (
              <li key={a.agent} className="py-3">
                <h2 className="font-medium">{a.name}</h2>
                <AccountList
                  agent={a.agent}
                  name={a.name}
                  scope="team"
                  accounts={own}
                  manage={manage}
                  existingLogin={false}
                />
              </li>
            ))}
        </ul>
      )}
    </div>
  );
}
