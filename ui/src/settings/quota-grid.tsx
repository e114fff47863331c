import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { spell } from "@/costs/amounts";
import { costKeys, type QuotaList, type QuotaRow, type QuotasOf, quotasKey, saveQuotas } from "@/costs/api";
import {
  asPlan,
  COLUMNS,
  type Column,
  cellKey,
  changes,
  type Edits,
  edit,
  fromPlan,
  paste,
  read,
  setAll,
  textOf,
} from "@/costs/grid";
import { Meter } from "@/costs/meter";
import { whenWords } from "@/costs/words";
import { useNow } from "@/format/now";
import { Button } from "@/kit/button";
import { cx } from "@/kit/cx";
import { inputClass } from "@/kit/field";
import { useUnsaved } from "@/kit/settings/unsaved";
import { FormError } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { useMe } from "@/state/team";
import { toast } from "@/state/toasts";

/** People in rows, what they may use in columns: typed, pasted, or set for several at once. */
export function QuotaGrid({ list, of, may }: { list: QuotaList; of: QuotasOf; may: boolean }) {
  const me = useMe();
  const client = useQueryClient();
  const [edits, setEdits] = useState<Edits>({});
  const [marked, setMarked] = useState<ReadonlySet<string>>(new Set());
  const table = useRef<HTMLTableElement>(null);
  const rows = list.items;
  const selected = rows.filter((r) => marked.has(r.user.id));
  const ready = changes(edits, rows);
  const count = Object.keys(edits).length;
  useUnsaved(count > 0);
  const save = useAction({
    act: (sent: Edits) => saveQuotas(of, changes(sent, rows) ?? []),
    done: (now, sent) => {
      client.setQueryData(quotasKey(of), now);
      // What was typed while it was saved stays.
      setEdits((all) => Object.fromEntries(Object.entries(all).filter(([cell, text]) => sent[cell] !== text)));
      toast({ kind: "good", title: t`Quotas saved`, text: t`They apply from now on.` });
    },
    refresh: [["team"], costKeys.mine],
  });

  const focusCell = (row: number, column: number) =>
    table.current?.querySelector<HTMLInputElement>(`[data-cell="${row} ${column}"]`)?.focus();

  return (
    <div className="flex flex-col gap-3">
      {may && selected.length > 0 && (
        <Bulk
          count={selected.length}
          onSet={(c, text) => setEdits(setAll(edits, selected, c, text))}
          onPlan={() => setEdits(asPlan(edits, selected))}
        />
      )}
      <div
        className="overflow-x-auto"
        role="region"
        aria-label={t`Quotas of each person`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
      >
        <table ref={table} className="w-full text-left">
          <thead>
            <tr className="align-bottom text-meta text-fg3">
              {may && (
                <th scope="col" className="w-8 py-1">
                  <input
                    type="checkbox"
                    aria-label={t`Select everyone`}
                    checked={rows.length > 0 && selected.length === rows.length}
                    ref={(el) => {
                      if (el) el.indeterminate = selected.length > 0 && selected.length < rows.length;
                    }}
                    onChange={(e) => setMarked(new Set(e.target.checked ? rows.map((r) => r.user.id) : []))}
                    className="block size-6 scale-60 accent-fill"
                  />
                </th>
              )}
              <th scope="col" className="py-1 pr-4 font-normal">
                <Trans>Person</Trans>
              </th>
              <th scope="col" className="py-1 pr-4 font-normal">
                <Trans>Used this month</Trans>
              </th>
              {COLUMNS.map((c) => (
                <th key={c.field} scope="col" className="py-1 pr-2 font-normal whitespace-nowrap">
                  <span className="block text-fg2">{c.title}</span>
                  {c.unit}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((r, i) => (
              <tr key={r.user.id} className={cx("border-t border-hairline", marked.has(r.user.id) && "bg-bg2")}>
                {may && (
                  <td className="py-1">
                    <input
                      type="checkbox"
                      aria-label={t`Choose ${r.user.name}`}
                      checked={marked.has(r.user.id)}
                      onChange={(e) => {
                        const next = new Set(marked);
                        if (e.target.checked) next.add(r.user.id);
                        else next.delete(r.user.id);
                        setMarked(next);
                      }}
                      className="block size-6 scale-60 accent-fill"
                    />
                  </td>
                )}
                <th scope="row" className="max-w-48 min-w-28 py-1 pr-4 font-normal break-words">
                  {r.user.name}
                  {r.user.id === me.user.id && (
                    <span className="text-fg3">
                      {" "}
                      <Trans>(you)</Trans>
                    </span>
                  )}
                </th>
                <td className="min-w-36 py-1 pr-4">
                  <Used row={r} />
                </td>
                {COLUMNS.map((c, j) => (
                  <td key={c.field} className="py-1 pr-2">
                    {may ? (
                      <Cell
                        row={r}
                        column={c}
                        at={`${i} ${j}`}
                        edits={edits}
                        onText={(text) => setEdits(edit(edits, r, c, text))}
                        onRevert={() => {
                          const { [cellKey(r.user.id, c.field)]: _, ...rest } = edits;
                          setEdits(rest);
                        }}
                        onPaste={(text) => setEdits(paste(edits, rows, i, j, text))}
                        onMove={(by) => focusCell(i + by, j)}
                      />
                    ) : (
                      <span className={r.override[c.field] === undefined ? "text-fg2" : "font-medium"}>
                        {textOf(r, c, {}) || fromPlan(c, r.plan)}
                      </span>
                    )}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {may ? (
        <p className="text-meta text-fg3">
          <Trans>
            Enter a number or “no limit”. Enter and the arrow keys move up and down, Escape restores a cell, and a block
            pasted from a spreadsheet fills the cells from here.
          </Trans>
        </p>
      ) : (
        <p className="text-meta text-fg3">
          <Trans>Owners and admins of the team can change this.</Trans>
        </p>
      )}
      <FormError error={save.error} />
      {count > 0 && (
        <div className="sticky bottom-0 flex flex-wrap items-center gap-3 border-t border-hairline bg-bg0 py-2">
          <span role="status">
            {ready === undefined ? (
              <span className="text-failed">
                <Trans>A cell is invalid: enter a whole number or “no limit”.</Trans>
              </span>
            ) : (
              t`${plural(count, { one: "# change", other: "# changes" })}, unsaved`
            )}
          </span>
          <Button
            look="primary"
            disabled={ready === undefined}
            busy={save.busy && t`Saving`}
            onClick={() => void save.run(edits)}
          >
            <Trans>Save</Trans>
          </Button>
          <Button
            onClick={() => {
              setEdits({});
              save.reset();
            }}
          >
            <Trans>Discard</Trans>
          </Button>
        </div>
      )}
    </div>
  );
}

/** What somebody used, in words and as a bar. */
function Used({ row: r }: { row: QuotaRow }) {
  const now = useNow(60_000);
  const hours = r.effective.hours_month;
  const most = r.effective.concurrent;
  return (
    <>
      <span className="flex flex-wrap gap-x-2 whitespace-nowrap tabular-nums">
        <span className={cx((r.percent ?? 0) >= 100 && "text-failed", (r.percent ?? 0) >= 80 && "font-medium")}>
          {(r.percent ?? 0) >= 100 && <span aria-hidden>▲ </span>}
          {spell(r.used.hours_ms)}
          {hours !== null && t` of ${hours} h`}
        </span>
        {r.used.running > 0 && (
          <span className="text-fg3">
            <Trans>
              {r.used.running}
              {most !== null && t` of ${most}`} running
            </Trans>
          </span>
        )}
      </span>
      {hours !== null && <Meter percent={r.percent ?? 0} className="mt-0.5 max-w-32" />}
      {r.exhausted_at !== null && (
        <span className="block text-meta text-needs">
          <Trans>used up {whenWords(r.exhausted_at, now)}</Trans>
        </span>
      )}
    </>
  );
}

function Cell({
  row,
  column: c,
  at,
  edits,
  onText,
  onRevert,
  onPaste,
  onMove,
}: {
  row: QuotaRow;
  column: Column;
  at: string;
  edits: Edits;
  onText: (text: string) => void;
  onRevert: () => void;
  onPaste: (text: string) => void;
  onMove: (by: number) => void;
}) {
  const text = textOf(row, c, edits);
  const changed = cellKey(row.user.id, c.field) in edits;
  const wrong = read(c, text) === undefined;
  return (
    <input
      data-cell={at}
      aria-label={t`${c.title} of ${row.user.name}, ${c.unit}${changed ? t`, changed` : ""}`}
      aria-invalid={wrong || undefined}
      inputMode="decimal"
      value={text}
      placeholder={fromPlan(c, row.plan)}
      onFocus={(e) => e.target.select()}
      onChange={(e) => onText(e.target.value)}
      onPaste={(e) => {
        const block = e.clipboardData.getData("text/plain");
        if (!/[\t\n\r]/.test(block.trim())) return;
        e.preventDefault();
        onPaste(block);
      }}
      onKeyDown={(e) => {
        const by =
          e.key === "ArrowDown" || (e.key === "Enter" && !e.shiftKey)
            ? 1
            : e.key === "ArrowUp" || e.key === "Enter"
              ? -1
              : 0;
        if (by) {
          e.preventDefault();
          onMove(by);
        } else if (e.key === "Escape" && changed) {
          e.stopPropagation();
          onRevert();
        }
      }}
      className={cx(inputClass, "w-22! px-2! tabular-nums", text !== "" && "font-medium", changed && "border-needs!")}
    />
  );
}

/** One value for everybody who is chosen. */
function Bulk({
  count,
  onSet,
  onPlan,
}: {
  count: number;
  onSet: (c: Column, text: string) => void;
  onPlan: () => void;
}) {
  const [field, setField] = useState(COLUMNS[0]!.field);
  const [text, setText] = useState("");
  const column = COLUMNS.find((c) => c.field === field) ?? COLUMNS[0]!;
  const wrong = read(column, text) === undefined;
  return (
    <form
      aria-label={t`Set for all selected`}
      className="flex flex-wrap items-center gap-2 panel px-3 py-2"
      onSubmit={(e) => {
        e.preventDefault();
        if (!wrong) onSet(column, text);
      }}
    >
      <span>
        <Trans>For {count === 1 ? t`1 person` : t`${count} people`} set</Trans>
      </span>
      <select
        aria-label={t`What to set`}
        value={field}
        onChange={(e) => setField(e.target.value as typeof field)}
        className={cx(inputClass, "w-auto!")}
      >
        {COLUMNS.map((c) => (
          <option key={c.field} value={c.field}>
            {c.title}, {c.unit}
          </option>
        ))}
      </select>
      <span>
        <Trans>to</Trans>
      </span>
      <input
        aria-label={t`The value`}
        aria-invalid={wrong || undefined}
        value={text}
        placeholder={t`plan default`}
        onChange={(e) => setText(e.target.value)}
        className={cx(inputClass, "w-28!")}
      />
      <Button type="submit" disabled={wrong}>
        <Trans>Set</Trans>
      </Button>
      <Button onClick={onPlan}>
        <Trans>Reset all to the plan</Trans>
      </Button>
    </form>
  );
}
