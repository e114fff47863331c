import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useState } from "react";
import { nounWithin } from "@/format/text";
import { cx } from "@/kit/cx";
import { locale } from "@/language/locale";
import { clockSpell, spell, tokenCount } from "./amounts";
import type { UsageFigures, UsageGroup, UsageItem } from "./api";
import { columnOf, modelWords, moneyOf, nameOf, type SortBy, sorted, whole } from "./usage";

const MOST = 100;

interface Column {
  by: SortBy;
  title: string;
  cell: (f: UsageFigures, exact: boolean) => string;
  /** Left out on a phone. */
  wide?: boolean;
}

const COLUMNS: readonly Column[] = [
  { by: "run_ms", title: t`Sandbox time`, cell: (f, e) => (e ? clockSpell(f.run_ms) : spell(f.run_ms)), wide: true },
  { by: "cost_nano", title: t`Sandboxes`, cell: (f, e) => moneyOf(e)(f.cost_nano) },
  {
    by: "tokens",
    title: t`Tokens in / out`,
    cell: (f, e) => {
      const n = e ? (v: number) => v.toLocaleString(locale()) : tokenCount;
      return `${n(f.input_tokens)} / ${n(f.output_tokens)}`;
    },
    wide: true,
  },
  { by: "tokens_cost_nano", title: t`Models`, cell: (f, e) => modelWords(f, moneyOf(e)) },
  {
    by: "whole",
    title: t`Total`,
    cell: (f, e) => {
      const known = moneyOf(e)(whole(f));
      return f.tokens_unknown > 0 ? t`${known} + unknown` : known;
    },
  },
];

/** Usage as a table with totals. Exact amounts are to the nano-dollar and the second. */
export function UsageTable({
  items,
  totals,
  group,
  exact,
  onOpen,
}: {
  items: readonly UsageItem[];
  totals: UsageFigures;
  group: UsageGroup;
  exact: boolean;
  onOpen?: (item: UsageItem) => void;
}) {
  const [by, setBy] = useState<SortBy | undefined>();
  const [all, setAll] = useState(false);
  const rows = sorted(items, group, by);
  const shown = all ? rows : rows.slice(0, MOST);
  const order = (c: SortBy) => (by === c ? (c === "name" ? "ascending" : "descending") : undefined);
  return (
    <>
      <div
        className="overflow-x-auto"
        role="region"
        aria-label={t`Usage in figures`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
      >
        <table className="w-full text-left">
          <caption className="sr-only">
            <Trans>Usage by {nounWithin(columnOf(group))}</Trans>
          </caption>
          <thead>
            <tr className="text-meta text-fg3">
              <Head
                title={columnOf(group)}
                sorted={order("name")}
                onSort={() => setBy(by === "name" ? undefined : "name")}
              />
              {COLUMNS.map((c) => (
                <Head
                  key={c.by}
                  title={c.title}
                  right
                  wide={c.wide}
                  sorted={order(c.by)}
                  onSort={() => setBy(by === c.by ? undefined : c.by)}
                />
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((i) => (
              <tr key={i.key} className="border-t border-hairline hover:bg-bg2">
                <th scope="row" className="py-1.5 pr-4 font-normal break-words">
                  {onOpen ? (
                    <button
                      type="button"
                      onClick={() => onOpen(i)}
                      className="min-h-6 text-left text-accent hover:underline"
                    >
                      {nameOf(i, group)}
                    </button>
                  ) : (
                    nameOf(i, group)
                  )}
                </th>
                {COLUMNS.map((c) => (
                  <td
                    key={c.by}
                    className={cx(
                      "py-1.5 pl-4 text-right whitespace-nowrap",
                      c.wide && "max-md:hidden",
                      c.by === "tokens_cost_nano" && i.tokens_unknown > 0 && "text-fg2",
                    )}
                    title={
                      c.by === "tokens_cost_nano" && i.tokens_unknown > 0 ? unknownWords(i.tokens_unknown) : undefined
                    }
                  >
                    {c.cell(i, exact)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
          <tfoot>
            <tr className="border-t border-control font-medium">
              <th scope="row" className="py-1.5 pr-4 font-medium">
                <Trans>All</Trans>
              </th>
              {COLUMNS.map((c) => (
                <td key={c.by} className={cx("py-1.5 pl-4 text-right whitespace-nowrap", c.wide && "max-md:hidden")}>
                  {c.cell(totals, exact)}
                </td>
              ))}
            </tr>
          </tfoot>
        </table>
      </div>
      {rows.length > shown.length && (
        <button type="button" onClick={() => setAll(true)} className="mt-1 min-h-6 text-accent hover:underline">
          <Trans>Show all {rows.length.toLocaleString(locale())} rows</Trans>
        </button>
      )}
    </>
  );
}

export const unknownWords = (n: number): string =>
  n === 1
    ? t`1 model response has no known price and is not included in these totals.`
    : t`${n.toLocaleString(locale())} model responses have no known price and are not included in these totals.`;

function Head({
  title,
  right,
  wide,
  sorted: order,
  onSort,
}: {
  title: string;
  right?: boolean;
  wide?: boolean;
  sorted: "ascending" | "descending" | undefined;
  onSort: () => void;
}) {
  return (
    <th
      scope="col"
      aria-sort={order}
      className={cx("py-1 font-normal whitespace-nowrap", right ? "pl-4 text-right" : "pr-4", wide && "max-md:hidden")}
    >
      <button type="button" onClick={onSort} className="min-h-6 hover:text-fg">
        {title}
        {order && <span aria-hidden> {order === "descending" ? "↓" : "↑"}</span>}
      </button>
    </th>
  );
}
