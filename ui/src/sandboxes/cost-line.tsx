import { t } from "@lingui/core/macro";
import { useQuery } from "@tanstack/react-query";
import { Suspense, useState } from "react";
import type { Workspace } from "@/api/client";
import { workspaceCostsQuery } from "@/costs/api";
import { costNow, ENDS_SOON, whenWords } from "@/costs/words";
import { hourly, usd } from "@/format/money";
import { useNow } from "@/format/now";
import { lazy } from "@/kit/part";
import { useTeam } from "@/state/team";
import type { RemoteSandbox } from "./remote";

const load = () => import("./cost-popover");
const CostPopover = lazy(load);

/** The cost of a workspace, its rate, and when the budget or quota ends; expanded, the breakdown. */
export default function CostLine({
  workspace: w,
  sandbox: s,
}: {
  workspace: Workspace;
  sandbox: RemoteSandbox | undefined;
}) {
  const team = useTeam();
  const [used, setUsed] = useState(false);
  const [open, setOpen] = useState(false);
  const costs = useQuery({ ...workspaceCostsQuery(w.id), enabled: team.can("costs.view") });
  const c = costs.data;
  const now = useNow(c && c.rate_nano_per_hour > 0 ? 1000 : 30_000);
  const empty = !c || (c.cost_nano + c.tokens_cost_nano + c.rate_nano_per_hour === 0 && c.tokens_unknown === 0);
  if (empty) return <Plain workspace={w} sandbox={s} />;
  const rate = c.rate_nano_per_hour;
  const spent = costNow(c.cost_nano + c.tokens_cost_nano, rate, costs.dataUpdatedAt, now);
  const ends = c.exhausted_at !== null && c.exhausted_at - now < ENDS_SOON ? c.exhausted_at : undefined;
  const over = ends !== undefined && ends <= now;
  const button = (
    <button
      type="button"
      aria-haspopup="dialog"
      aria-expanded={open}
      onPointerEnter={() => void load().catch(() => {})}
      onClick={() => {
        setUsed(true);
        setOpen(true);
      }}
      title={t`Cost of this workspace`}
      className="min-h-6 rounded-sm tabular-nums underline decoration-dotted underline-offset-2 hover:text-fg"
    >
      {c.tokens_unknown > 0 ? t`${usd(spent)} + unknown` : usd(spent)}{" "}
      {rate > 0 ? t`at ${hourly(rate)} an hour` : t`so far`}
      {ends !== undefined && (
        <span className={over ? "text-failed" : "text-needs"}>
          <span aria-hidden> {over ? "▲" : "◆"} </span>
          {over ? t`its budget or quota is used up` : t`used up ${whenWords(ends, now)}`}
        </span>
      )}
    </button>
  );
  if (!used) return button;
  return (
    <Suspense fallback={button}>
      <CostPopover
        trigger={button}
        open={open}
        onOpenChange={setOpen}
        workspace={w}
        costs={c}
        spent={spent}
        idle={s?.state === "running" ? s.idle_at : null}
        now={now}
      />
    </Suspense>
  );
}

/** The same of the workspace's own record, until its costs are known. */
function Plain({ workspace: w, sandbox: s }: { workspace: Workspace; sandbox: RemoteSandbox | undefined }) {
  const rate = s?.state === "running" ? s.price_nano_per_hour : 0;
  if (w.cost_nano === null || (w.cost_nano === 0 && rate === 0)) return null;
  return (
    <span className="tabular-nums">
      {usd(w.cost_nano)} {rate > 0 ? t`at ${hourly(rate)} an hour` : t`so far`}
    </span>
  );
}
