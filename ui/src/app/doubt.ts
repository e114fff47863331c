import { t } from "@lingui/core/macro";
import { queryOptions } from "@tanstack/react-query";

/** Reads from /health why the server distrusts its database; undefined for any other response. */
export function doubtIn(health: unknown): string | undefined {
  if (typeof health !== "object" || health === null) return undefined;
  const { status, reason } = health as { status?: unknown; reason?: unknown };
  if (status !== "degraded") return undefined;
  return typeof reason === "string" && reason ? reason : t`The server did not report what is missing. Check its log.`;
}

/** Why the server is read-only, null while it is not, or does not answer. */
export const doubtQuery = () =>
  queryOptions({
    queryKey: ["doubt"],
    queryFn: async () => {
      try {
        const answer = await fetch("/api/v1/health", { cache: "no-store", signal: AbortSignal.timeout(5000) });
        return doubtIn(await answer.json()) ?? null;
      } catch {
        return null; // unreachable: the connection pill shows that
      }
    },
    staleTime: 0,
  });
