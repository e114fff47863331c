import { queryOptions, useQueryClient } from "@tanstack/react-query";
import { api, data, type Schemas } from "@/api/client";

export type Secret = Schemas["Secret"];
export type Kind = Secret["kind"];

/** Whose secrets are meant: a person's own, a team's, or those of one of its projects. */
export type Owner =
  | { scope: "personal" }
  | { scope: "team"; team: string }
  | { scope: "project"; team: string; project: string };

const key = (o: Owner) => [
  "secrets",
  o.scope,
  o.scope === "personal" ? "" : o.team,
  o.scope === "project" ? o.project : "",
];

export const secretsQuery = (o: Owner) =>
  queryOptions({
    queryKey: key(o),
    queryFn: async ({ signal }) => {
      const list = await (o.scope === "personal"
        ? data(api.GET("/me/secrets", { signal }))
        : data(
            api.GET("/teams/{team}/secrets", {
              params: { path: { team: o.team }, query: o.scope === "project" ? { project_id: o.project } : {} },
              signal,
            }),
          ));
      return list.items;
    },
    // Which sessions have an earlier value changes without a word.
    refetchInterval: 30_000,
  });

export function useRefreshSecrets() {
  const client = useQueryClient();
  return () => client.invalidateQueries({ queryKey: ["secrets"] });
}
