import { t } from "@lingui/core/macro";
import { Page } from "@/kit/page";
import { useTeam } from "@/state/team";
import { useTitle } from "@/state/use-title";
import { SkillList } from "./skill-list";

/** The skills of the whole team and of all its projects. */
export function SkillsScreen() {
  useTitle(t`Skills`);
  const team = useTeam();
  return (
    <Page title={t`Skills`} about={t`Procedures that agents of the team read when they need them. Call one as /name.`}>
      <div className="flex max-w-text flex-col gap-3">
        <SkillList team={team.slug} readOnly={!team.can("workspace.edit")} />
      </div>
    </Page>
  );
}
