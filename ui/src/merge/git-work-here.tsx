import { useQuery } from "@tanstack/react-query";
import type { Workspace } from "@/api/client";
import { useNow } from "@/format/now";
import { GitWorkList } from "./git-work";
import { gitWorkQuery } from "./queries";

/** How long git is at work before people hear of it outside of the Merge tab, in ms: most work is over by then. */
const LONG = 1500;

/** Long work of git for this workspace, above whatever tab is open. */
export default function GitWorkHere({ workspace: w }: { workspace: Workspace }) {
  const work = useQuery(gitWorkQuery(w.project_id)).data?.filter((k) => k.workspace?.id === w.id) ?? [];
  return work.length > 0 ? <Shown work={work} workspace={w} /> : null;
}

function Shown({ work, workspace: w }: { work: Parameters<typeof GitWorkList>[0]["work"]; workspace: Workspace }) {
  const now = useNow(1000);
  const long = work.filter((k) => now - k.at >= LONG);
  return long.length > 0 ? (
    <div className="px-4 pt-2">
      <GitWorkList work={long} project={w.project_id} here={w.id} />
    </div>
  ) : null;
}
