import { t } from "@lingui/core/macro";
import type { Quota, QuotaChange, QuotaField, QuotaRow } from "./api";

/** The value of a cell: a number, null for no limit, "plan" to inherit from the plan. */
export type Said = number | null | "plan";

export interface Column {
  field: QuotaField;
  title: string;
  /** In the head, below the title. */
  unit: string;
  most: number;
}

export const COLUMNS: readonly Column[] = [
  { field: "hours_month", title: t`Hours`, unit: t`a month`, most: 100_000 },
  { field: "concurrent", title: t`At once`, unit: t`sandboxes`, most: 10_000 },
  { field: "cpus", title: t`Cores`, unit: t`largest size`, most: 1024 },
  { field: "memory_mb", title: t`Memory`, unit: t`GB, largest size`, most: 4 * 1024 * 1024 },
  { field: "session_minutes", title: t`Longest run`, unit: t`minutes`, most: 527_040 },
];

const noLimit = () => t`no limit`;

const NONE = /^(∞|none|no limit|unlimited)$/i;

/** Parses a cell's text; undefined if it is invalid. */
export function read(c: Column, text: string): Said | undefined {
  const t = text.trim();
  if (t === "" || /^plan$/i.test(t)) return "plan";
  if (NONE.test(t) || t.toLowerCase() === noLimit().toLowerCase()) return null;
  let n: number;
  if (c.field === "memory_mb") {
    const found = /^(\d{1,7}(?:\.\d{1,3})?)\s*(gb|g|mb|m)?$/i.exec(t);
    if (!found) return undefined;
    n = Number(found[1]) * (found[2]?.toLowerCase().startsWith("m") ? 1 : 1024);
  } else {
    if (!/^[\d,]{1,9}$/.test(t)) return undefined;
    n = Number(t.replaceAll(",", ""));
  }
  return Number.isInteger(n) && n <= c.most ? n : undefined;
}

/** A value as a cell shows it. */
export function show(c: Column, v: Said | undefined): string {
  if (v === "plan" || v === undefined) return "";
  if (v === null) return noLimit();
  return c.field === "memory_mb" ? String(v / 1024) : String(v);
}

/** The inherited value from the plan, shown in grey. */
export const fromPlan = (c: Column, plan: Quota): string => show(c, plan[c.field]);

export const cellKey = (user: string, field: QuotaField): string => `${user} ${field}`;

/** What was typed and not yet saved, by cellKey. */
export type Edits = Readonly<Record<string, string>>;

export const kept = (row: QuotaRow, c: Column): Said =>
  row.override[c.field] ?? (row.override[c.field] === null ? null : "plan");

/** The current text of a cell. */
export const textOf = (row: QuotaRow, c: Column, edits: Edits): string =>
  edits[cellKey(row.user.id, c.field)] ?? show(c, kept(row, c));

/** The edits after a cell's text changed; an unchanged value is not an edit. */
export function edit(edits: Edits, row: QuotaRow, c: Column, text: string): Edits {
  const key = cellKey(row.user.id, c.field);
  const { [key]: _, ...rest } = edits;
  return read(c, text) === kept(row, c) ? rest : { ...rest, [key]: text };
}

/** The edits after a block from a spreadsheet was pasted with its first cell at this one. What lies beyond the grid is dropped. */
export function paste(edits: Edits, rows: readonly QuotaRow[], atRow: number, atColumn: number, text: string): Edits {
  const lines = text.replace(/\r\n?/g, "\n").replace(/\n$/, "").split("\n");
  let now = edits;
  lines.forEach((line, i) => {
    const row = rows[atRow + i];
    if (!row) return;
    line.split("\t").forEach((cell, j) => {
      const c = COLUMNS[atColumn + j];
      if (c) now = edit(now, row, c, cell);
    });
  });
  return now;
}

/** The same value for several people. */
export const setAll = (edits: Edits, rows: readonly QuotaRow[], c: Column, text: string): Edits =>
  rows.reduce((now, row) => edit(now, row, c, text), edits);

/** Resets several people to the plan. */
export const asPlan = (edits: Edits, rows: readonly QuotaRow[]): Edits =>
  COLUMNS.reduce((now, c) => setAll(now, rows, c, ""), edits);

/** The edits in the API's form; undefined while a cell is invalid. */
export function changes(edits: Edits, rows: readonly QuotaRow[]): QuotaChange[] | undefined {
  const list: QuotaChange[] = [];
  for (const row of rows) {
    const change: QuotaChange = { user_id: row.user.id };
    const inherit: QuotaField[] = [];
    for (const c of COLUMNS) {
      const text = edits[cellKey(row.user.id, c.field)];
      if (text === undefined) continue;
      const said = read(c, text);
      if (said === undefined) return undefined;
      if (said === "plan") inherit.push(c.field);
      else change[c.field] = said;
    }
    if (inherit.length > 0) change.inherit = inherit;
    if (Object.keys(change).length > 1) list.push(change);
  }
  return list;
}
