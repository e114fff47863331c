import { SecretList } from "@/secrets/list";
import { useTeam } from "@/state/team";

/** The secrets of one project. */
export default function ProjectSecrets({ project }: { project: string }) {
  const team = useTeam();
  if (!team.can("terminal.type")) return null;
  return (
    <section aria-labelledby="project-secrets" className="mt-8 flex max-w-[620px] flex-col gap-3">
      <h2 id="project-secrets" className="text-title font-semibold">
        Secrets
      </h2>
      <p className="text-meta text-fg3">
        For the sessions and commands of this project alone, beside those of the team. A git credential here is what the
        server fetches with.
      </p>
      <SecretList
        owner={{ scope: "project", team: team.slug, project }}
        manage={team.can("secrets.manage")}
        empty="Those of the team count here, too."
      />
    </section>
  );
}
