import { Trans } from "@lingui/react/macro";
import { useTeam } from "@/state/team";
import { InstructionsForm } from "@/tools/instructions";

/** What all agents of a team read, and whether it reviews what they save. */
export default function SkillSettings() {
  const team = useTeam();
  return (
    <section aria-labelledby="skills-settings" className="flex flex-col gap-4">
      <div>
        <h2 id="skills-settings" className="mb-1 text-title font-semibold">
          <Trans>Skills and instructions</Trans>
        </h2>
        <p className="text-fg2">
          <Trans>What agents of the team know before they begin.</Trans>
        </p>
      </div>
      <InstructionsForm key={team.slug} team={team.slug} readOnly={!team.can("team.manage")} />
    </section>
  );
}
