import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";
import { hourly, usd } from "@/format/money";
import { useNow } from "@/format/now";
import { mb } from "@/format/size";
import { count } from "@/format/text";
import { useMe, useTeam } from "@/state/team";
import { exactUsd, spell } from "./amounts";
import type { Refusal } from "./refusal";
import { whenWords } from "./words";

function amount(n: number, unit: Refusal["unit"]): string {
  switch (unit) {
    case "ms":
      return spell(n);
    case "nano_usd":
      return usd(n);
    case "memory_mb":
      return mb(n);
    case "cpus":
      return `${count(n)} ${n === 1 ? "core" : "cores"}`;
    default:
      return count(n);
  }
}

/** Shows what was used, the limit, and when it resets. */
export function RefusalFigures({ refusal: r }: { refusal: Refusal }) {
  const now = useNow(30_000);
  const facts: [string, string, string?][] = [];
  if (r.used !== undefined && r.limit !== undefined) {
    const word =
      r.unit === "nano_usd" ? t`Spent` : r.unit === "cpus" || r.unit === "memory_mb" ? t`Requested` : t`Used`;
    facts.push([word, amount(r.used, r.unit), r.unit === "nano_usd" ? exactUsd(r.used) : undefined]);
    facts.push([t`Limit`, amount(r.limit, r.unit)]);
  }
  if (r.priceNanoPerHour) facts.push([t`This one costs`, t`${hourly(r.priceNanoPerHour)} an hour`]);
  if (r.resetsAt) facts.push([t`More`, whenWords(r.resetsAt, now)]);
  if (facts.length === 0) return null;
  return (
    <dl className="mt-2 flex flex-wrap gap-x-6 gap-y-2">
      {facts.map(([label, value, title]) => (
        <div key={label}>
          <dt className="text-meta text-fg3">{label}</dt>
          <dd className="tabular-nums" title={title}>
            {value}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** Who can raise the limit, and where: for the button "Upgrade plan". */
export function UpgradeWays(r: { code: string; scope: string }) {
  const team = useTeam();
  const me = useMe();
  const manage = team.can("quotas.manage");
  const to = (section: string, words: string) => (
    <Link
      to="/$team/settings/{-$section}"
      params={{ team: team.slug, section }}
      className="inline-block min-h-6 text-accent hover:underline"
    >
      {words}
    </Link>
  );
  if (r.scope === "instance_budget")
    return me.user.operator ? (
      <p>
        <Trans>The budget of the whole server is spent. {to("places", t`Raise it in Settings, Places`)}</Trans>
      </p>
    ) : (
      <p>
        <Trans>The budget of the whole server is spent. Ask an operator of it to raise it.</Trans>
      </p>
    );
  if (r.code === "budget_exceeded")
    return manage ? (
      <p>
        <Trans>The team's own budget is spent. {to("budget", t`Raise the budget`)}</Trans>
      </p>
    ) : (
      <p>
        <Trans>The team's own budget is spent. Ask an owner or admin of {team.name} to raise it.</Trans>
      </p>
    );
  return manage ? (
    <p className="flex flex-wrap gap-x-3">
      {to("billing", t`Choose a larger plan`)}
      {r.scope === "user_hours" && to("quotas", t`Grant more hours`)}
    </p>
  ) : (
    <p>
      <Trans>Ask an owner or admin of {team.name} for a larger plan or a larger quota.</Trans>
    </p>
  );
}
