import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, data } from "@/api/client";
import { useTeam } from "@/state/team";
import { type CardProps, MergeCard } from "./card";
import { checkKeys } from "./check-runs";

/** Workspaces whose work conflicts with this one's, and in which order the fewest meet a conflict. */
export default function OverlapsCard({ workspace: w }: CardProps) {
  const team = useTeam();
  const some = (w.overlaps?.length ?? 0) > 0;
  const overlaps = useQuery({
    queryKey: checkKeys.overlaps(w.project_id),
    queryFn: () => data(api.GET("/projects/{id}/overlaps", { params: { path: { id: w.project_id } } })),
    enabled: some,
  });
  if (!some) return null;
  const mine = overlaps.data?.items.filter((o) => o.first.id === w.id || o.second.id === w.id) ?? [];
  const order = overlaps.data?.order ?? [];
  return (
    <MergeCard title={t`Conflicts with other workspaces`}>
      <p className="text-fg2">
        <Trans>The workspace merged second must resolve them. Uncommitted changes count as well.</Trans>
      </p>
      <ul className="flex flex-col gap-2">
        {(w.overlaps ?? []).map((o) => (
          <li key={o.id}>
            <Link to="/$team/w/$key" params={{ team: team.slug, key: o.key }} className="text-accent underline">
              <span className="font-mono text-code">{o.key}</span> {o.name}
            </Link>{" "}
            <span className="text-fg2">
              <Trans>in {plural(o.files, { one: "# file", other: "# files" })}</Trans>
            </span>
            <ul className="ml-4 font-mono text-code break-all text-fg2">
              {mine
                .find((m) => m.first.id === o.id || m.second.id === o.id)
                ?.files.slice(0, 10)
                .map((f) => (
                  <li key={f.path}>
                    {f.path} <span className="font-sans text-meta text-fg3">{f.kind}</span>
                  </li>
                ))}
            </ul>
          </li>
        ))}
      </ul>
      {order.length > 0 && (
        <p className="text-fg2">
          <Trans>
            This merge order causes the fewest conflicts:{" "}
            {order.map((o, i) => (
              <span key={o.id}>
                {i > 0 && ", "}
                <span className={o.id === w.id ? "font-mono text-code font-semibold" : "font-mono text-code"}>
                  {o.key}
                </span>
                {o.overlaps > 0 && (
                  <span className="text-meta">
                    {" "}
                    <Trans>(must resolve)</Trans>
                  </span>
                )}
              </span>
            ))}
            .
          </Trans>
        </p>
      )}
    </MergeCard>
  );
}
