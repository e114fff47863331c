import { useQueryClient } from "@tanstack/react-query";

/** Invalidates everything that depends on plans: the plans, quotas, budgets and choices. */
export function usePlansRefresh() {
  const client = useQueryClient();
  return () => {
    void client.invalidateQueries({ queryKey: ["instance"] });
    void client.invalidateQueries({ queryKey: ["costs"] });
    void client.invalidateQueries({ queryKey: ["team"] });
  };
}
