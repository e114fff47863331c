import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Schemas } from "@/api/client";
import { teamStorageQuery } from "@/api/history";
import { bytes } from "@/format/text";
import { Failure, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";

/** What the team's sessions printed and what it takes on disk. */
export default function Storage() {
  const team = useTeam();
  const storage = useQuery(teamStorageQuery(team.slug));
  return (
    <section aria-labelledby="storage">
      <h2 id="storage" className="mb-1 text-title font-semibold">
        <Trans>Terminal history</Trans>
      </h2>
      {storage.isPending ? (
        <Skeleton rows={3} label={t`Loading the storage use`} />
      ) : storage.isError && !storage.data ? (
        <Failure
          what={t`The storage use could not be loaded.`}
          error={storage.error}
          retry={() => void storage.refetch()}
        />
      ) : (
        <>
          <p className="text-fg2">
            <Trans>
              {bytes(storage.data.bytes)} on disk for {bytes(storage.data.printed)} of output.{" "}
              {capsInWords(storage.data.caps)}
            </Trans>
          </p>
          {storage.data.caps.max_team_bytes > 0 && (
            <progress
              aria-label={t`Storage in use`}
              max={storage.data.caps.max_team_bytes}
              value={Math.min(storage.data.bytes, storage.data.caps.max_team_bytes)}
              className="mt-1 h-2 w-full max-w-md"
            />
          )}
          {storage.data.workspaces.length > 0 && (
            <ul className="mt-2 max-h-80 divide-y divide-hairline overflow-y-auto border-y border-hairline">
              {storage.data.workspaces.map((w) => (
                <li key={w.id} className="flex min-h-8 flex-wrap items-baseline gap-x-3 py-1">
                  <Link
                    to="/$team/w/$key"
                    params={{ team: team.slug, key: w.key }}
                    search={{ tab: "history" }}
                    className="min-h-6 min-w-0 flex-1 truncate leading-6 text-accent hover:underline"
                  >
                    {w.name}
                  </Link>
                  {w.deleted && (
                    <span className="text-meta text-fg3">
                      <Trans>in the trash</Trans>
                    </span>
                  )}
                  <span className="text-meta text-fg3">
                    {plural(w.sessions, { one: "# session", other: "# sessions" })}
                  </span>
                  <span className="w-20 text-right tabular-nums">{bytes(w.bytes)}</span>
                </li>
              ))}
            </ul>
          )}
        </>
      )}
    </section>
  );
}

/** The caps of the history, which an operator sets. */
export function capsInWords(c: Schemas["StorageCaps"]): string {
  const caps = [
    c.max_session_bytes > 0 && t`${bytes(c.max_session_bytes)} a session`,
    c.max_team_bytes > 0 && t`${bytes(c.max_team_bytes)} for the team`,
    c.keep_days > 0 && t`${plural(c.keep_days, { one: "# day", other: "# days" })} after a session's end`,
  ].filter(Boolean);
  return caps.length > 0
    ? t`Limits: ${caps.join(", ")}. The oldest output is deleted first.`
    : t`No output is deleted.`;
}
