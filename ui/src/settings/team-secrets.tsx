import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Empty } from "@/kit/states";
import { SecretList } from "@/secrets/list";
import { useTeam } from "@/state/team";

/** The secrets of the whole team. */
export default function TeamSecrets() {
  const team = useTeam();
  if (!team.can("terminal.type"))
    return (
      <Empty title={t`Members see which secrets there are`}>
        <Trans>Ask an owner or admin of the team for that role.</Trans>
      </Empty>
    );
  const manage = team.can("secrets.manage");
  return (
    <div className="flex flex-col gap-4">
      <p className="text-fg2">
        <Trans>
          What every session and command of {team.name} gets. Values are stored encrypted, never shown again, and masked
          in session output. Members who can type in a session could extract them: give tokens few permissions. Secrets
          of a single project are on its page.
        </Trans>
        {!manage && t` Owners and admins of the team can change them.`}
      </p>
      <SecretList
        owner={{ scope: "team", team: team.slug }}
        manage={manage}
        empty={manage ? t`Add a variable, a file or a git credential.` : t`Owners and admins of the team add them.`}
      />
    </div>
  );
}
