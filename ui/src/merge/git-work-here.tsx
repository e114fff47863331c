import { useQuery } from "@tanstack/react-query";
import type { Workspace } from "@/api/client";
import { useNow } from "@/format/now";
import { GitWorkList } from "./git-work";
import { gitWorkQuery } from "./queries";

/** How long a git operation runs before it is shown outside the Merge tab, in ms: most finish sooner. */
const LONG = 1500;

/** Shows long git operations of this workspace above any tab. */
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
