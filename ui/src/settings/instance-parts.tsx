import type { useMutation } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { fieldError } from "@/api/problem";
import { FormError } from "@/kit/states";
import type { InstancePatch, InstancePlaces } from "./instance-api";

export type Save = ReturnType<typeof useMutation<InstancePlaces, Error, InstancePatch>>;

export interface PartProps {
  settings: InstancePlaces;
  save: Save;
}

/** The field a refusal names belongs to the part that was sent. */
export const errorOf = (save: Save, part: keyof InstancePatch | undefined, field: string): string | undefined =>
  fieldError(save.error, part ? `${part}.${field}` : field) ?? fieldError(save.error, field);

/** A part's own error: one that names none of its fields. */
export function PartError({ save, mine, named }: { save: Save; mine: boolean; named: boolean }) {
  return mine && save.error && !named ? <FormError error={save.error} /> : null;
}

/** Which form was sent last: its error and its waiting belong to it alone. */
export const sent = (save: Save, ...parts: (keyof InstancePatch)[]): boolean =>
  save.variables !== undefined && parts.some((p) => p in save.variables);

export function Lock({ on }: { on: boolean }) {
  if (!on) return null;
  return (
    <span className="text-meta text-fg3">
      <svg aria-hidden viewBox="0 0 10 12" width="9" height="11" className="mr-1 inline-block -translate-y-px">
        <path d="M2.2 5V3.4a2.8 2.8 0 0 1 5.6 0V5" fill="none" stroke="currentColor" strokeWidth="1.3" />
        <rect x="1" y="5" width="8" height="6.4" rx="1" fill="currentColor" />
      </svg>
      set in config.json
    </span>
  );
}

/** A check with its lock beside it. */
export function Locked({ on, children }: { on: boolean; children: ReactNode }) {
  return (
    <div className="flex flex-wrap items-baseline justify-between gap-x-3">
      {children}
      <Lock on={on} />
    </div>
  );
}
