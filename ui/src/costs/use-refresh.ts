import { useQueryClient } from "@tanstack/react-query";

/** Reads anew what depends on plans: theirs, quotas, budgets and what can be chosen. */
export function usePlansRefresh() {
  const client = useQueryClient();
  return () => {
    void client.invalidateQueries({ queryKey: ["instance"] });
    void client.invalidateQueries({ queryKey: ["costs"] });
    void client.invalidateQueries({ queryKey: ["team"] });
  };
}
