import { plural, t } from "@lingui/core/macro";
import type { Schemas } from "@/api/client";
import { ApiError } from "@/api/problem";

export type Edit = Schemas["Edit"];

const OPERATIONS: Record<string, string> = {
  edit: t`file editor`,
  restore: t`restore`,
  discard: t`discard`,
  update: t`update`,
  take: t`taken over`,
  undo: t`undo`,
};

/** Who made an edit and with what, as far as it is known. */
export function madeBy(e: Pick<Edit, "by" | "agent" | "tool" | "operation" | "calls" | "evidence">): string {
  const who = e.by?.name || e.agent || t`Unknown`;
  const how = e.operation ? (OPERATIONS[e.operation] ?? e.operation) : e.tool;
  const doubt =
    !how && e.calls.length > 1 ? t`one of ${plural(e.calls.length, { one: "# call", other: "# calls" })}` : "";
  return [who, how || doubt].filter(Boolean).join(" · ");
}

/** A place where later changes contradict an edit. */
export interface Conflict {
  line: number;
  /** The text there now. */
  present: string;
  /** What the edit had made of it. */
  edited: string;
  /** What was there before the edit. */
  before: string;
}

/** The places that stop an undo and how many there are, or undefined if the undo failed for another reason. */
export function conflictsOf(error: unknown): { places: Conflict[]; total: number } | undefined {
  if (!(error instanceof ApiError) || error.code !== "edit_conflict") return undefined;
  const given = error.details.conflicts;
  const places = (Array.isArray(given) ? given : []).filter(isConflict);
  const total = Number(error.details.total);
  return { places, total: Math.max(places.length, Number.isFinite(total) ? total : 0) };
}

/** Reads a place of the API. */
export function isConflict(v: unknown): v is Conflict {
  const c = v as Partial<Conflict> | null;
  return (
    typeof c === "object" &&
    c !== null &&
    typeof c.line === "number" &&
    [c.present, c.edited, c.before].every((text) => typeof text === "string")
  );
}
