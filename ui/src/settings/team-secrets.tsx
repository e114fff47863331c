import { Empty } from "@/kit/states";
import { SecretList } from "@/secrets/list";
import { useTeam } from "@/state/team";

/** The secrets of the whole team. */
export default function TeamSecrets() {
  const team = useTeam();
  if (!team.can("terminal.type"))
    return <Empty title="Members see which secrets there are">Ask an owner or admin of the team for that role.</Empty>;
  const manage = team.can("secrets.manage");
  return (
    <div className="flex flex-col gap-4">
      <p className="text-fg2">
        What every session and command of {team.name} gets. Values are stored encrypted, never shown again, and masked
        in session output. Members who can type in a session could extract them: give tokens few permissions. Secrets of
        a single project are on its page.
        {!manage && " Owners and admins of the team can change them."}
      </p>
      <SecretList
        owner={{ scope: "team", team: team.slug }}
        manage={manage}
        empty={manage ? "Add a variable, a file or a git credential." : "Owners and admins of the team add them."}
      />
    </div>
  );
}
