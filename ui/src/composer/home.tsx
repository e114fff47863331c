import { Trans } from "@lingui/react/macro";
import { useSearch } from "@tanstack/react-router";
import { useAction } from "@/keys/keyboard";
import { isCoarse } from "@/state/look";
import { useTeam } from "@/state/team";
import { Composer } from "./composer";
import { WithProjects } from "./with-projects";

/** The composer on a page that has nothing else to show yet. */
export default function HomeComposer() {
  const team = useTeam();
  const over = useSearch({ strict: false, select: (s) => s.new !== undefined });
  useAction("workspace.new", () => document.querySelector<HTMLElement>("#compose-here textarea")?.focus(), !over);
  if (over || !team.can("workspace.create")) return null;
  return (
    <WithProjects projectId="" otherwise={(shown) => shown}>
      {(projects, first) => (
        <section id="compose-here" aria-labelledby="compose" className="mx-auto w-full max-w-2xl">
          <h2 id="compose" className="mb-2 text-page font-semibold">
            <Trans>What should be done?</Trans>
          </h2>
          <div className="flex flex-col rounded-md bg-bg1 shadow-raised">
            <Composer projects={projects} first={first} focused={!isCoarse()} />
          </div>
        </section>
      )}
    </WithProjects>
  );
}
