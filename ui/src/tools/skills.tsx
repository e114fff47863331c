import { Trans } from "@lingui/react/macro";
import { InstructionsForm } from "./instructions";
import { SkillList } from "./skill-list";

/** What agents of a project know about how to work: instructions, and skills with the drafts that wait for a member. */
export default function ProjectSkills(p: { team: string; project: string; readOnly: boolean; mayInstruct: boolean }) {
  return (
    <section aria-labelledby="project-skills" className="mt-8 flex max-w-form flex-col gap-3">
      <h2 id="project-skills" className="text-title font-semibold">
        <Trans>Instructions and skills</Trans>
      </h2>
      <InstructionsForm project={p.project} readOnly={!p.mayInstruct} />
      <p className="text-fg2">
        <Trans>Skills are procedures that agents read when they need them. Call one as /name.</Trans>
      </p>
      <SkillList team={p.team} project={p.project} readOnly={p.readOnly} />
    </section>
  );
}
