import { t } from "@lingui/core/macro";
import type { Workspace } from "@/api/client";
import { usd } from "@/format/money";

type Costs = Pick<Workspace, "cost_nano"> & { tokens_cost_nano?: number | null; tokens_unknown?: number };

/** What a workspace cost so far, models included; "" while there is no cost, and for users who may not see it. */
export function costOf(w: Costs): string {
  const nano = (w.cost_nano ?? 0) + (w.tokens_cost_nano ?? 0);
  if (nano > 0) return w.tokens_unknown ? t`${usd(nano)} + unknown` : usd(nano);
  return w.tokens_unknown ? t`cost unknown` : "";
}
