import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Popover } from "radix-ui";
import type { ReactElement } from "react";
import type { Workspace } from "@/api/client";
import { sessionsQuery } from "@/api/queries";
import { exactUsd, tokenCount } from "@/costs/amounts";
import type { WorkspaceCosts } from "@/costs/api";
import { modelWords } from "@/costs/usage";
import { unknownWords } from "@/costs/usage-table";
import { whenWords } from "@/costs/words";
import { hourly, usd } from "@/format/money";
import { until } from "@/format/time";
import { cx } from "@/kit/cx";
import { useTeam } from "@/state/team";

interface Props extends SplitProps {
  trigger: ReactElement;
  open: boolean;
  onOpenChange: (open: boolean) => void;
}

/** The breakdown of a workspace's costs. */
export default function CostPopover({ trigger, open, onOpenChange, ...split }: Props) {
  const team = useTeam();
  return (
    <Popover.Root open={open} onOpenChange={onOpenChange}>
      <Popover.Trigger asChild>{trigger}</Popover.Trigger>
      <Popover.Portal>
        <Popover.Content
          align="start"
          sideOffset={4}
          collisionPadding={8}
          aria-label={t`Costs of this workspace`}
          className="rise-in z-50 max-h-(--radix-popover-content-available-height) w-[min(420px,calc(100vw-16px))] overflow-y-auto rounded-md bg-bg1 p-3 shadow-float outline-none"
        >
          <Split {...split} />
          <Link
            to="/$team/usage"
            params={{ team: team.slug }}
            search={{ by: "workspace" }}
            className="mt-2 inline-block min-h-6 leading-6 text-accent hover:underline"
          >
            <Trans>Usage of the team</Trans>
          </Link>
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}

interface SplitProps {
  workspace: Workspace;
  costs: WorkspaceCosts;
  spent: number;
  idle: number | null;
  now: number;
}

function Split({ workspace: w, costs: c, spent, idle, now }: SplitProps) {
  const sessions = useQuery(sessionsQuery(w.id));
  const nameOf = (id: string, agent: string) => sessions.data?.find((x) => x.id === id)?.agent_name ?? agent;
  const sandbox = spent - c.tokens_cost_nano;
  const rows: [string, string, string?][] = [
    [t`Sandboxes`, usd(sandbox), exactUsd(c.cost_nano)],
    [t`Models`, modelWords(c), exactUsd(c.tokens_cost_nano)],
  ];
  return (
    <>
      <h2 className="font-medium">
        <Trans>Costs of this workspace</Trans>
      </h2>
      <dl className="mt-1">
        {rows.map(([label, value, title]) => (
          <div key={label} className="flex justify-between gap-4 border-t border-hairline py-1 first:border-t-0">
            <dt className="text-fg2">{label}</dt>
            <dd className="tabular-nums" title={title}>
              {value}
            </dd>
          </div>
        ))}
        <div className="flex justify-between gap-4 border-t border-control py-1 font-medium">
          <dt>
            <Trans>Total</Trans>
          </dt>
          <dd className="tabular-nums">{usd(spent)}</dd>
        </div>
      </dl>
      {c.tokens_unknown > 0 && <p className="text-meta text-fg2">{unknownWords(c.tokens_unknown)}</p>}
      <ul className="mt-1 text-fg2">
        {c.rate_nano_per_hour > 0 && (
          <li>
            <Trans>{hourly(c.rate_nano_per_hour)} an hour while it runs</Trans>
          </li>
        )}
        {idle && idle > now ? (
          <li>
            <Trans>Falls asleep {until(idle, now)} if idle</Trans>
          </li>
        ) : null}
        {c.exhausted_at !== null && (
          <li className={cx(c.exhausted_at <= now && "text-failed")}>
            {c.exhausted_at <= now
              ? t`Its budget or quota is used up.`
              : t`Its budget or quota is used up ${whenWords(c.exhausted_at, now)}.`}
          </li>
        )}
      </ul>
      {c.by_session.length > 0 && (
        <table className="mt-2 w-full text-left text-meta">
          <caption className="sr-only">
            <Trans>By session</Trans>
          </caption>
          <thead className="text-fg3">
            <tr>
              <th scope="col" className="py-1 font-normal">
                <Trans>Session</Trans>
              </th>
              <th scope="col" className="py-1 text-right font-normal">
                <Trans>Sandbox</Trans>
              </th>
              <th scope="col" className="py-1 text-right font-normal">
                <Trans>Tokens</Trans>
              </th>
              <th scope="col" className="py-1 text-right font-normal">
                <Trans>Model</Trans>
              </th>
            </tr>
          </thead>
          <tbody>
            {c.by_session.map((s) => (
              <tr key={s.session_id} className="border-t border-hairline">
                <th scope="row" className="max-w-36 truncate py-1 pr-2 font-normal">
                  {nameOf(s.session_id, s.agent) || t`No session`}
                </th>
                <td className="py-1 text-right">{usd(s.cost_nano)}</td>
                <td className="py-1 text-right">{tokenCount(s.input_tokens + s.output_tokens)}</td>
                <td className="py-1 text-right">{modelWords(s)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}
