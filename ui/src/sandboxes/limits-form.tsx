import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useState } from "react";
import type { Schemas } from "@/api/client";
import { fieldError } from "@/api/problem";
import { mb } from "@/format/size";
import { minutes } from "@/format/time";
import { Button } from "@/kit/button";
import { TextField } from "@/kit/field";
import { FormError } from "@/kit/states";
import { limitsInWords } from "./words";

type Limits = Required<Schemas["ResourceLimits"]>;

const FIELDS: readonly { name: keyof Limits; label: string; most: (n: number) => string }[] = [
  { name: "cpus", label: t`CPU cores`, most: String },
  { name: "memory_mb", label: t`Memory in MB`, most: mb },
  { name: "processes", label: t`Processes`, most: String },
  { name: "disk_mb", label: t`Disk in MB`, most: mb },
  { name: "wall_minutes", label: t`Minutes to live`, most: minutes },
];

interface Props {
  value: Limits;
  /** What holds where a field is empty. */
  inherited?: Limits;
  maximum?: Limits;
  /** Limits that something else decides here. */
  without?: readonly (keyof Limits)[];
  /** Where the inherited value comes from, for people. */
  from: string;
  readOnly: boolean;
  saving: boolean;
  error: unknown;
  onSave: (l: Limits) => void;
}

/** Limits of a project or a workspace: an empty field takes what stands above it. */
export function LimitsForm({ value, inherited, maximum, without, from, readOnly, saving, error, onSave }: Props) {
  const [text, setText] = useState(() =>
    Object.fromEntries(FIELDS.map((f) => [f.name, value[f.name] ? String(value[f.name]) : ""])),
  );
  const parsed = (name: keyof Limits): number => Number((text[name] ?? "").replace(",", ".").trim() || 0);
  const bad = (name: keyof Limits): string | undefined => {
    const n = parsed(name);
    if (!Number.isFinite(n) || n < 0) return t`Enter a number.`;
    if (name !== "cpus" && !Number.isInteger(n)) return t`Enter a whole number.`;
    return undefined;
  };
  const wrong = FIELDS.some((f) => bad(f.name));
  const named = FIELDS.some((f) => fieldError(error, f.name));
  return (
    <form
      className="flex flex-col gap-3"
      onSubmit={(e) => {
        e.preventDefault();
        if (!wrong) onSave(Object.fromEntries(FIELDS.map((f) => [f.name, parsed(f.name)])) as Limits);
      }}
    >
      <fieldset disabled={readOnly} className="grid grid-cols-2 gap-3 sm:grid-cols-3">
        {FIELDS.filter((f) => !without?.includes(f.name)).map((f) => (
          <TextField
            key={f.name}
            label={f.label}
            inputMode={f.name === "cpus" ? "decimal" : "numeric"}
            value={text[f.name]}
            placeholder={inherited ? (inherited[f.name] > 0 ? String(inherited[f.name]) : t`no limit`) : undefined}
            hint={maximum && maximum[f.name] > 0 ? t`At most ${f.most(maximum[f.name])}.` : undefined}
            error={bad(f.name) ?? fieldError(error, f.name)}
            onChange={(e) => setText({ ...text, [f.name]: e.target.value })}
          />
        ))}
      </fieldset>
      <p className="text-meta text-fg3">
        <Trans>
          An empty field uses the value from {from}
          {inherited ? `: ${limitsInWords(inherited)}` : ""}.
        </Trans>
      </p>
      {error && !named ? <FormError error={error} /> : null}
      {!readOnly && (
        <Button type="submit" className="self-start" disabled={wrong} busy={saving && t`Saving`}>
          <Trans>Save the limits</Trans>
        </Button>
      )}
    </form>
  );
}
