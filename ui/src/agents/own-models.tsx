import { queryOptions, useQuery } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { tell } from "@/api/problem";
import { keys } from "@/api/queries";
import { useTeam } from "@/state/team";
import { recentModels } from "./own";

/** The models that an account's provider offers; "" is the default account. */
export const modelsQuery = (team: string, account: string) =>
  queryOptions({
    queryKey: [...keys.agents(team), "models", account] as const,
    queryFn: () =>
      data(
        api.GET("/teams/{team}/agents/parawork/models", {
          params: { path: { team }, query: account ? { account_id: account } : {} },
        }),
      ),
    staleTime: 10 * 60_000,
    retry: false,
  });

/** Models to choose from: those of the account, and those that were chosen before. A name that is not there can be entered. */
export function useModels(account: string, enabled = true) {
  const team = useTeam();
  const { data: list, error, isPending } = useQuery({ ...modelsQuery(team.slug, account), enabled });
  const offered = list?.items ?? [];
  const others = list ? [] : recentModels().map((name) => ({ name, title: "" }));
  return {
    names: [...offered, ...others],
    /** The model of sessions that name none; undefined while nobody knows. */
    standard: list?.default_model,
    /** Tokens that fit a model's context; 0 = unknown. */
    windowOf: (model: string) => offered.find((m) => m.name === (model || list?.default_model))?.context_window ?? 0,
    problem: error ? tell(error).message : "",
    loading: enabled && isPending,
  };
}

/** Suggestions for the name of a model, for a field's list. */
export function ModelList({ id, names }: { id: string; names: readonly { name: string; title: string }[] }) {
  return (
    <datalist id={id}>
      {names.map((m) => (
        <option key={m.name} value={m.name}>
          {m.title}
        </option>
      ))}
    </datalist>
  );
}
