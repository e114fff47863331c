import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Schemas } from "@/api/client";
import { teamStorageQuery } from "@/api/history";
import { bytes, plural } from "@/format/text";
import { Failure, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";

/** What the team's sessions printed and what it takes on disk. */
export default function Storage() {
  const team = useTeam();
  const storage = useQuery(teamStorageQuery(team.slug));
  return (
    <section aria-labelledby="storage">
      <h2 id="storage" className="mb-1 text-title font-semibold">
        Terminal history
      </h2>
      {storage.isPending ? (
        <Skeleton rows={3} label="Loading the storage use" />
      ) : storage.isError && !storage.data ? (
        <Failure
          what="The storage use could not be loaded."
          error={storage.error}
          retry={() => void storage.refetch()}
        />
      ) : (
        <>
          <p className="text-fg2">
            {bytes(storage.data.bytes)} on disk for {bytes(storage.data.printed)} of output.{" "}
            {capsInWords(storage.data.caps)}
          </p>
          {storage.data.caps.max_team_bytes > 0 && (
            <progress
              aria-label="Storage in use"
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
                  {w.deleted && <span className="text-meta text-fg3">in the trash</span>}
                  <span className="text-meta text-fg3">{plural(w.sessions, "session")}</span>
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
    c.max_session_bytes > 0 && `${bytes(c.max_session_bytes)} a session`,
    c.max_team_bytes > 0 && `${bytes(c.max_team_bytes)} for the team`,
    c.keep_days > 0 && `${plural(c.keep_days, "day")} after a session's end`,
  ].filter(Boolean);
  return caps.length > 0 ? `Limits: ${caps.join(", ")}. The oldest output is deleted first.` : "No output is deleted.";
}
