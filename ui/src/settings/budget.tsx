import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { keys, membersQuery } from "@/api/queries";
import { type Budget, budgetQuery, costKeys, saveBudget } from "@/costs/api";
import { dollars, percents, secondsInMinutes } from "@/costs/codecs";
import { Meter } from "@/costs/meter";
import { alertWords, budgetStatus, graceWords, rateWords, whenWords } from "@/costs/words";
import { usd } from "@/format/money";
import { useNow } from "@/format/now";
import { exact } from "@/format/time";
import { Mark } from "@/kit/mark";
import { SettingsForm } from "@/kit/settings/form";
import type { Entry, Typed } from "@/kit/settings/schema";
import { Failure, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";
import { toast } from "@/state/toasts";

/** What the team may spend in a month, how it stands, and what happens at the end of it. */
export default function BudgetSettings() {
  const team = useTeam();
  const budget = useQuery({ ...budgetQuery(team.slug), refetchInterval: 30_000 });
  if (budget.isPending) return <Skeleton rows={6} label={t`Loading the budget`} />;
  if (budget.isError && !budget.data)
    return (
      <Failure what={t`The budget could not be loaded.`} error={budget.error} retry={() => void budget.refetch()} />
    );
  const b = budget.data;
  return (
    <div className="flex flex-col gap-7">
      <Standing budget={b} />
      {team.can("quotas.manage") ? (
        <BudgetForm budget={b} />
      ) : (
        <p className="text-fg2">
          <Trans>
            {b.limit_nano === null ? t`No budget is set.` : limitWords(b)} Owners and admins of the team can change
            this.
          </Trans>
        </p>
      )}
      <Alerts budget={b} />
    </div>
  );
}

function limitWords(b: Budget): string {
  const end = b.overage
    ? t`Beyond ${usd(b.limit_nano ?? 0)} work continues${b.overage_cap_nano === null ? "" : t`, up to ${usd(b.overage_cap_nano)} more`}.`
    : t`At ${usd(b.limit_nano ?? 0)} paid work pauses ${graceWords(b.grace_seconds)}; nothing is lost.`;
  return `${end} ${b.count_tokens ? t`Models count.` : t`Only sandboxes count.`}`;
}

function Standing({ budget: b }: { budget: Budget }) {
  const team = useTeam();
  const now = useNow(1000);
  const s = b.status;
  const said = budgetStatus(s);
  const rate = rateWords(s, now);
  return (
    <section aria-labelledby="budget-now">
      <h2 id="budget-now" className="text-title font-semibold">
        <Trans>This month</Trans>
      </h2>
      <p className="mt-2 flex flex-wrap items-baseline gap-x-3">
        <span className="text-figure font-semibold tabular-nums">{usd(s.spent_nano)}</span>
        <span className="text-fg2 tabular-nums">
          {b.limit_nano === null ? t`spent, without a budget` : t`of ${usd(b.limit_nano)} spent`}
        </span>
        {b.limit_nano !== null && <Mark kind={said.mark} word={said.word} className="whitespace-normal" />}
      </p>
      {b.limit_nano !== null && <Meter percent={s.percent ?? 0} marks={b.thresholds} className="mt-1.5 max-w-md" />}
      <dl className="mt-3 grid grid-cols-2 gap-x-6 gap-y-3 sm:grid-cols-3">
        <Fact label={t`Sandboxes`}>{usd(s.sandbox_nano)}</Fact>
        <Fact
          label={b.count_tokens ? t`Models` : t`Models, not counted`}
          more={
            s.tokens_unknown > 0 &&
            (b.count_tokens && s.tokens_estimate_nano > 0
              ? t`${s.tokens_unknown} responses of unknown cost are not included; the budget counts an estimate of ${usd(s.tokens_estimate_nano)} for them`
              : t`${s.tokens_unknown} responses without a known price are not included`)
          }
        >
          {s.tokens_unknown > 0 && s.tokens_nano === 0 ? t`unknown` : usd(s.tokens_nano)}
        </Fact>
        {s.reserved_nano > 0 && (
          <Fact label={t`Reserved`} more={t`for sandboxes that are starting`}>
            {usd(s.reserved_nano)}
          </Fact>
        )}
        {rate && <Fact label={t`Rate`}>{rate}</Fact>}
        <Fact label={t`Resets`}>{whenWords(s.resets_at, now)}</Fact>
      </dl>
      <Link
        to="/$team/usage"
        params={{ team: team.slug }}
        className="mt-2 inline-block min-h-6 leading-6 text-accent hover:underline"
      >
        <Trans>Breakdown</Trans>
      </Link>
    </section>
  );
}

function Fact({ label, more, children }: { label: string; more?: ReactNode; children: ReactNode }) {
  return (
    <div className="min-w-0">
      <dt className="text-meta text-fg3">{label}</dt>
      <dd className="tabular-nums">
        {children}
        {more && <span className="block text-meta break-words text-fg3">{more}</span>}
      </dd>
    </div>
  );
}

type Form = ReturnType<typeof valuesOf>;

const valuesOf = (b: Budget) => ({
  limit_nano: b.limit_nano,
  count_tokens: b.count_tokens,
  thresholds: b.thresholds,
  // Not for translation: values of the choice below.
  overage: b.overage ? "on" : "stop",
  overage_cap_nano: b.overage_cap_nano,
  grace_seconds: b.grace_seconds,
  ...b.notify,
});

const budgetFields = (typed: Typed<Form>): Entry<Form>[] => [
  {
    name: "limit_nano",
    label: t`Monthly budget in dollars`,
    type: "text",
    codec: dollars,
    placeholder: t`no budget`,
    hint: (amount) => (amount === 0 ? t`Nothing paid can start.` : t`Empty: no limit. Months begin at 00:00 UTC.`),
    input: DECIMAL,
  },
  {
    name: "count_tokens",
    label: t`Include model costs`,
    type: "boolean",
    hint: t`For agents that use the gateway. Responses without a known price cannot be counted.`,
  },
  {
    name: "thresholds",
    label: t`Warn at`,
    type: "text",
    codec: percents,
    hint: t`Percent of the budget. Each warns once a month, and again after the budget is raised.`,
    input: { className: "max-w-48" },
  },
  {
    className: "flex flex-col gap-2",
    fields: [
      {
        name: "overage",
        label: t`When the budget is spent`,
        type: "radio",
        options: [
          {
            value: "stop",
            label: t`Stop`,
            hint: t`Work is saved, then sandboxes pause. Work continues automatically when you raise the budget or a new month begins.`,
          },
          {
            value: "on",
            label: t`Continue`,
            hint: t`Work continues and may exceed the budget, up to the cap below.`,
          },
        ],
      },
      ...(typed.overage === "on" ? [CAP] : []),
      {
        name: "grace_seconds",
        label: t`Minutes until work pauses`,
        type: "text",
        codec: secondsInMinutes,
        hint: t`Users see the countdown and can finish a step.`,
        input: DECIMAL,
      },
    ],
  },
  {
    legend: t`Who gets warnings`,
    fields: [
      { name: "app", label: t`In the app`, type: "boolean", hint: t`Everyone in the team, in the inbox.` },
      { name: "mail", label: t`By e-mail`, type: "boolean", hint: t`Owners and admins.` },
      {
        name: "webhooks",
        label: t`By webhook`,
        type: "boolean",
        hint: t`The team's webhooks with this event selected.`,
      },
    ],
  },
];

const DECIMAL = { inputMode: "decimal", className: "max-w-48" } as const;

const CAP: Entry<Form> = {
  name: "overage_cap_nano",
  label: t`Cap beyond the budget, in dollars`,
  type: "text",
  codec: dollars,
  placeholder: t`no cap`,
  hint: t`Empty: no cap.`,
  input: DECIMAL,
};

function BudgetForm({ budget: b }: { budget: Budget }) {
  const team = useTeam();
  const client = useQueryClient();
  return (
    <SettingsForm
      label={t`Budget`}
      className="gap-5"
      loaded={valuesOf(b)}
      fields={budgetFields}
      save={(_, { app, mail, webhooks, overage, ...rest }) =>
        saveBudget(team.slug, { ...rest, overage: overage === "on", notify: { app, mail, webhooks } })
      }
      onSaved={(now) => {
        client.setQueryData(costKeys.budget(team.slug), now);
        toast({
          kind: "good",
          title: t`Budget saved`,
          text:
            b.status.state === "stopped" && now.status.state !== "stopped"
              ? t`Paused work continues automatically.`
              : "",
        });
      }}
      refresh={[keys.executors(team.slug)]}
      button={t`Save the budget`}
    />
  );
}

function Alerts({ budget: b }: { budget: Budget }) {
  const team = useTeam();
  const people = b.alerts.some((a) => a.scope === "user_hours");
  const members = useQuery({ ...membersQuery(team.slug), enabled: people });
  const nameOf = (id: string) => members.data?.find((m) => m.user.id === id)?.user.name;
  if (b.alerts.length === 0) return null;
  return (
    <section aria-labelledby="budget-alerts">
      <h2 id="budget-alerts" className="mb-2 text-title font-semibold">
        <Trans>Warnings this month</Trans>
      </h2>
      <ul className="divide-y divide-hairline border-y border-hairline">
        {b.alerts.map((a) => (
          <li
            key={`${a.scope} ${a.scope_id} ${a.percent} ${a.noted_at}`}
            className="flex flex-wrap justify-between gap-x-4 py-1.5"
          >
            <span>{alertWords(a, nameOf(a.scope_id))}</span>
            <time className="text-fg3" dateTime={new Date(a.noted_at).toISOString()}>
              {exact(a.noted_at)}
            </time>
          </li>
        ))}
      </ul>
    </section>
  );
}
