import { t as tr } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { usd } from "@/format/money";
import { useNow } from "@/format/now";
import { buttonClass, IconButton } from "@/kit/button";
import { Check, Segmented } from "@/kit/field";
import { Icon } from "@/kit/icon";
import { Failure, Skeleton } from "@/kit/states";
import { locale } from "@/language/locale";
import { dayLong, daySpan, monthAfter, monthName, monthOf, monthSpan, spell } from "./amounts";
import { type Budget, type Usage, type UsageGroup, usageFile, usageQuery, type Whose } from "./api";
import { BarChart } from "./chart";
import { bars, basisWords, beginOf, GROUPS, modelWords, moneyOf, spanOf, whole } from "./usage";
import type { UsageSearch } from "./usage-search";
import { UsageTable, unknownWords } from "./usage-table";

/** What sandboxes and models cost in a month or a day: a chart of time and a table by whom or what. */
export function UsageView({
  whose,
  search,
  onSearch,
  budget,
}: {
  whose: Whose;
  search: UsageSearch;
  onSearch: (s: UsageSearch) => void;
  budget?: Budget;
}) {
  const now = useNow(60_000);
  const thisMonth = monthOf(now);
  const month = search.month ?? thisMonth;
  const day = search.day?.startsWith(month) ? search.day : undefined;
  const span = spanOf(monthSpan(month), day);
  const time = day ? "hour" : "day";
  const by: UsageGroup = search.by && search.by !== "day" ? search.by : time;
  const chart = useQuery(usageQuery(whose, span, time));
  const rows = useQuery(usageQuery(whose, span, by));
  const exact = search.exact === true;
  const to = (s: Partial<UsageSearch>) => onSearch({ ...search, month: month === thisMonth ? undefined : month, ...s });
  const groups = GROUPS.filter((g) => g.value !== "team" || "instance" in whose);

  return (
    <div className="flex flex-col gap-5">
      <div className="flex flex-wrap items-center gap-2">
        <div role="group" aria-label={tr`Month`} className="flex items-center">
          <IconButton
            label={tr`Back to ${monthName(monthAfter(month, -1))}`}
            onClick={() => to(monthTo(monthAfter(month, -1), thisMonth))}
          >
            <Icon name="chevronLeft" />
          </IconButton>
          <select
            aria-label={tr`Month`}
            value={month}
            onChange={(e) => to(monthTo(e.target.value, thisMonth))}
            className="control-h rounded-md border border-control bg-bg1 px-2 pointer-coarse:text-touch"
          >
            {monthsUpTo(thisMonth, month).map((m) => (
              <option key={m} value={m}>
                {monthName(m)}
              </option>
            ))}
          </select>
          <IconButton
            label={tr`Forward to ${monthName(monthAfter(month, 1))}`}
            disabled={month >= thisMonth}
            onClick={() => to(monthTo(monthAfter(month, 1), thisMonth))}
          >
            <Icon name="chevronRight" />
          </IconButton>
        </div>
        {day && (
          <button
            type="button"
            onClick={() => to({ day: undefined })}
            className="control-h rounded-md px-2 text-accent hover:underline"
          >
            <Trans>{dayLong(daySpan(day).from)}: show the whole month</Trans>
          </button>
        )}
        <span className="text-meta text-fg3">
          <Trans>Days and months are UTC.</Trans>
        </span>
      </div>
      {chart.isPending ? (
        <Skeleton rows={6} label={tr`Loading`} />
      ) : chart.isError && !chart.data ? (
        <Failure what={tr`The usage could not be loaded.`} error={chart.error} retry={() => void chart.refetch()} />
      ) : (
        <>
          <Figures
            usage={chart.data}
            budget={month === thisMonth && !day ? budget : undefined}
            now={month === thisMonth && !day}
          />
          {chart.data.totals.tokens_unknown > 0 && (
            <p className="text-fg2">
              <span aria-hidden className="text-needs">
                ◆{" "}
              </span>
              <Trans>
                {unknownWords(chart.data.totals.tokens_unknown)} An operator can set prices for these models.
              </Trans>
            </p>
          )}
          <section aria-label={tr`Chart`} className="panel p-3 md:p-4">
            <BarChart
              label={tr`Costs by ${time}, ${day ? dayLong(daySpan(day).from) : monthName(month)}`}
              series={[tr`Sandboxes`, tr`Models`]}
              bars={bars(chart.data.items, span, time, now)}
              axis={axis}
              value={moneyOf(exact)}
              open={
                day
                  ? undefined
                  : {
                      words: () => tr`Show its hours`,
                      act: (b) => to({ day: new Date(Number(b.key)).toISOString().slice(0, 10) }),
                    }
              }
            />
          </section>
        </>
      )}
      <section aria-label={tr`Breakdown`}>
        <div className="mb-2 flex flex-wrap items-center gap-x-4 gap-y-2">
          <div className="max-w-full overflow-x-auto">
            <Segmented<UsageGroup>
              label={tr`By`}
              value={by === "hour" ? "day" : by}
              onChange={(v) => to({ by: v === "day" || v === "hour" ? undefined : v })}
              options={groups.map((g) => [g.value, g.value === "day" && day ? tr`Hour` : g.name] as const)}
            />
          </div>
          <Check
            label={tr`Exact amounts`}
            checked={exact}
            onChange={(e) => to({ exact: e.target.checked ? true : undefined })}
          />
          <a href={usageFile(whose, span, by)} download className={buttonClass("plain", "md:ml-auto")}>
            <Trans>Download CSV</Trans>
          </a>
        </div>
        {rows.isPending ? (
          <Skeleton rows={5} label={tr`Loading`} />
        ) : rows.isError && !rows.data ? (
          <Failure what={tr`The table could not be loaded.`} error={rows.error} retry={() => void rows.refetch()} />
        ) : rows.data.items.length === 0 ? (
          <p className="text-fg2">
            <Trans>
              Nothing ran in {day ? tr`this day` : monthName(month)}. Usage appears after a sandbox has run or a model
              has answered.
            </Trans>
          </p>
        ) : (
          <UsageTable
            key={by}
            items={rows.data.items}
            totals={rows.data.totals}
            group={rows.data.group as UsageGroup}
            exact={exact}
            onOpen={by === "day" ? (i) => to({ day: new Date(beginOf(i)).toISOString().slice(0, 10) }) : undefined}
          />
        )}
      </section>
    </div>
  );
}

/** Two years of months, newest first, and the one that is shown. */
function monthsUpTo(current: string, shown: string): string[] {
  const list = Array.from({ length: 24 }, (_, i) => monthAfter(current, -i));
  return list.includes(shown) ? list : [...list, shown].sort().reverse();
}

const monthTo = (month: string, current: string): Partial<UsageSearch> => ({
  month: month === current ? undefined : month,
  day: undefined,
});

const dollars = (digits: Intl.NumberFormatOptions) =>
  new Intl.NumberFormat(locale(), { style: "currency", currency: "USD", minimumFractionDigits: 0, ...digits });
const many = dollars({ notation: "compact", maximumFractionDigits: 1 });
const some = dollars({ maximumFractionDigits: 0 });
const few = dollars({ maximumFractionDigits: 2 });
const least = dollars({ maximumSignificantDigits: 1 });

/** Short enough for the chart's edge: "$0.05", "$12", "$12.5K". */
function axis(nano: number): string {
  const d = nano / 1e9;
  return (d >= 10_000 ? many : d === 0 || d >= 10 ? some : d >= 0.01 ? few : least).format(d);
}

function Figures({ usage, budget, now }: { usage: Usage; budget: Budget | undefined; now: boolean }) {
  const t = usage.totals;
  const limit = budget?.limit_nano ?? null;
  const f = now ? usage.forecast : null;
  const forecast = f ? f.cost_nano + f.tokens_cost_nano : 0;
  const counted = f ? f.cost_nano + (budget?.count_tokens ? f.tokens_cost_nano : 0) : 0;
  const over = limit === null ? 0 : counted - limit;
  return (
    <dl className="flex flex-wrap gap-x-9 gap-y-3">
      <Figure
        name={tr`Spent`}
        more={
          t.tokens_cost_nano > 0 || t.tokens_unknown > 0
            ? tr`sandboxes ${usd(t.cost_nano)}, models ${modelWords(t)}`
            : undefined
        }
      >
        {usd(whole(t))}
      </Figure>
      {budget && limit !== null && (
        <Figure
          name={tr`Budget left`}
          more={budget.count_tokens ? tr`sandboxes and models count` : tr`only sandboxes count`}
          warn={budget.status.spent_nano >= limit}
        >
          {usd(Math.max(0, limit - budget.status.spent_nano))}
        </Figure>
      )}
      <Figure
        name={tr`Sandbox time`}
        more={t.metered_ms < t.run_ms ? tr`${spell(t.metered_ms)} of it counts in quotas` : undefined}
      >
        {spell(t.run_ms)}
      </Figure>
      {f && (
        <Figure name={tr`Forecast for the month`} more={basisWords(f)} warn={over > 0}>
          {usd(forecast)}
          {over > 0 && tr`, over by ${usd(over)}`}
        </Figure>
      )}
    </dl>
  );
}

function Figure({ name, more, warn, children }: { name: string; more?: string; warn?: boolean; children: ReactNode }) {
  return (
    <div className="min-w-0">
      <dt className="text-meta text-fg3">{name}</dt>
      <dd className={warn ? "text-needs" : undefined}>
        <span className="text-figure font-semibold tabular-nums">
          {warn && <span aria-hidden>◆ </span>}
          {children}
        </span>
        {more && <span className="block max-w-60 text-meta break-words text-fg3">{more}</span>}
      </dd>
    </div>
  );
}
