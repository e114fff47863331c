import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, data, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { short } from "@/format/text";
import { Mark } from "@/kit/mark";
import { toast } from "@/state/toasts";

/** The report as Markdown. */
export async function markdown(id: string): Promise<string> {
  const { data: text } = await api.GET("/workspaces/{id}/report", {
    params: { path: { id }, query: { format: "markdown" } },
    parseAs: "text",
  });
  return text as unknown as string;
}

/** The commit of the workspace's merge when its report is attached to it. */
export function useAttached(w: Workspace): string | undefined {
  const done = useQuery({
    queryKey: [...keys.activity(w.id), "attached"] as const,
    queryFn: () =>
      data(api.GET("/workspaces/{id}/activity", { params: { path: { id: w.id }, query: { limit: 100 } } })),
    enabled: Boolean(w.merged_commit),
    select: (all) => all.items.find((a) => a.kind === "report.attached" && a.data?.commit === w.merged_commit)?.id,
  });
  return done.data && w.merged_commit ? w.merged_commit : undefined;
}

/** Attaches the report to the merge, as a note on its commit. */
export function useAttach(w: Workspace) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => data(api.POST("/workspaces/{id}/report", { params: { path: { id: w.id } } })),
    onSuccess: (n) => {
      toast({ kind: "good", title: t`The report is attached to ${short(n.commit)}` });
      return client.invalidateQueries({ queryKey: keys.activity(w.id) });
    },
  });
}

/** Says that the report is attached, and how it is read. */
export function Attached({ commit }: { commit: string }) {
  return (
    <p className="flex flex-wrap items-baseline gap-x-3 text-fg2">
      <Mark kind="merged" word={t`The report is attached to ${short(commit)}`} />
      <span>
        <Trans>
          <code className="font-mono text-code">git log --notes=parawork</code> shows it in the repository.
        </Trans>
      </span>
    </p>
  );
}
