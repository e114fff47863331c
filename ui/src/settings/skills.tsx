import { useTeam } from "@/state/team";
import { InstructionsForm } from "@/tools/instructions";

/** What all agents of a team read, and whether it reviews what they save. */
export default function SkillSettings() {
  const team = useTeam();
  return <InstructionsForm key={team.slug} team={team.slug} readOnly={!team.can("team.manage")} />;
}
