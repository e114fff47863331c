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
        What every session and command of {team.name} gets. Values are kept encrypted and never shown again, and are
        masked in what sessions print. Members who can type in a session could get at them: give tokens few rights.
        Secrets of a single project stand on its page.
        {!manage && " Owners and admins of the team change them."}
      </p>
      <SecretList
        owner={{ scope: "team", team: team.slug }}
        manage={manage}
        empty={manage ? "Add a variable, a file or a git credential." : "Owners and admins of the team add them."}
      />
    </div>
  );
}
