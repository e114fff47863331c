import { useAction } from "@/kit/use-action";
import { toast } from "@/state/toasts";
import { type PlanList, setDefaultPlan } from "./operator-api";
import { usePlansRefresh } from "./use-refresh";

/** Changes which plan teams have that nobody gave one, by its id. */
export function useDefaultPlan(message: (list: PlanList) => string) {
  const refresh = usePlansRefresh();
  return useAction({
    act: setDefaultPlan,
    done: (list) => {
      refresh();
      toast({ kind: "good", title: message(list) });
    },
  });
}
