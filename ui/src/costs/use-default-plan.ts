import { useMutation } from "@tanstack/react-query";
import { toast } from "@/state/toasts";
import { type PlanList, setDefaultPlan } from "./operator-api";
import { usePlansRefresh } from "./use-refresh";

/** Changes which plan teams have that nobody gave one, by its id. */
export function useDefaultPlan(done: (list: PlanList) => string) {
  const refresh = usePlansRefresh();
  return useMutation({
    mutationFn: setDefaultPlan,
    onSuccess: (list) => toast({ kind: "good", title: done(list) }),
    onSettled: refresh,
  });
}
