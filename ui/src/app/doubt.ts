import { queryOptions } from "@tanstack/react-query";

/** What /health says of a server that is not sure of its database; undefined of any other answer. */
export function doubtIn(health: unknown): string | undefined {
  if (typeof health !== "object" || health === null) return undefined;
  const { status, reason } = health as { status?: unknown; reason?: unknown };
  if (status !== "degraded") return undefined;
  return typeof reason === "string" && reason ? reason : "The server does not say what is missing: see its log.";
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
        return null; // it is away: the page says that elsewhere
      }
    },
    staleTime: 0,
  });
