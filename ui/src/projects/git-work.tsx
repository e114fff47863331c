import { useQuery } from "@tanstack/react-query";
import { GitWorkList } from "@/merge/git-work";
import { gitWorkQuery } from "@/merge/queries";

/** What git does in the project's repository, or what waits for its turn there. */
export default function ProjectGitWork({ project }: { project: string }) {
  const work = useQuery(gitWorkQuery(project)).data ?? [];
  return work.length > 0 ? (
    <div className="mb-4">
      <GitWorkList work={work} project={project} />
    </div>
  ) : null;
}
