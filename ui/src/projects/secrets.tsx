import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { SecretList } from "@/secrets/list";
import { useTeam } from "@/state/team";

/** The secrets of one project. */
export default function ProjectSecrets({ project }: { project: string }) {
  const team = useTeam();
  if (!team.can("terminal.type")) return null;
  return (
    <section aria-labelledby="project-secrets" className="mt-8 flex max-w-form flex-col gap-3">
      <h2 id="project-secrets" className="text-title font-semibold">
        <Trans>Secrets</Trans>
      </h2>
      <p className="text-meta text-fg3">
        <Trans>
          For sessions and commands of this project only, in addition to the team's secrets. The server fetches with the
          git credential set here.
        </Trans>
      </p>
      <SecretList
        owner={{ scope: "project", team: team.slug, project }}
        manage={team.can("secrets.manage")}
        empty={t`The team's secrets apply here as well.`}
      />
    </section>
  );
}
