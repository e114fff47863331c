import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import type { ReactNode } from "react";
import { Button } from "../button";
import { Check, Choice, Field, inputClass, TextArea, TextField } from "../field";
import { Lock } from "./lock";
import type { AnyField } from "./schema";
import type { Form } from "./use-save";

/** One setting of a form, by its type. */
export function SettingField({ field: f, form }: { field: AnyField; form: Form<object> }) {
  const typed = form.typed(f);
  const set = (value: unknown) => form.set(f, value);
  const error = form.errorOf(f);
  const hint = typeof f.hint === "function" ? f.hint((form.values as Record<string, unknown>)[f.name]) : f.hint;
  const disabled = f.locked || f.disabled;
  const lock = f.locked && <Lock />;
  const text = {
    label: f.label,
    hint,
    error,
    aside: lock,
    mono: f.mono,
    disabled,
    placeholder: f.placeholder,
    fieldClass: f.className,
    ...(f.mono && { spellCheck: false, autoCapitalize: "none" }),
    ...f.input,
    value: String(typed ?? ""),
    onChange: (e: { target: { value: string } }) => set(e.target.value),
  };
  switch (f.type) {
    case "custom":
      return f.render?.({ value: typed, set, error, locked: Boolean(f.locked) });
    case "boolean":
      return (
        <CheckRow lock={lock} error={error}>
          <Check
            label={f.label}
            hint={hint}
            className={f.className}
            checked={typed === true}
            disabled={disabled}
            onChange={(e) => set(e.target.checked)}
          />
        </CheckRow>
      );
    case "choice":
      return (
        <Field label={f.label} hint={hint} error={error} aside={lock} className={f.className}>
          {(ids) => (
            <select
              {...ids}
              className={inputClass}
              disabled={disabled}
              value={String(typed)}
              onChange={(e) => set(e.target.value)}
            >
              {!f.options?.some((o) => o.value === typed) && <option value={String(typed)}>{String(typed)}</option>}
              {f.options?.map((o) => (
                <option key={o.value} value={o.value} disabled={o.disabled}>
                  {o.label}
                </option>
              ))}
            </select>
          )}
        </Field>
      );
    case "radio":
      return (
        <div className="min-w-0">
          <Choice
            name={f.name}
            legend={f.label}
            value={String(typed)}
            onChange={set}
            options={(f.options ?? []).map((o) => ({ ...o, disabled: o.disabled || disabled }))}
          />
          {error && (
            <p role="alert" className="mt-1 text-meta text-failed">
              {error}
            </p>
          )}
        </div>
      );
    case "secret":
      return (
        <div className={f.className}>
          <TextField
            {...text}
            type="password"
            autoComplete="off"
            mono
            fieldClass=""
            placeholder={f.set ? t`stored, ends in ${f.last_four ?? ""}` : f.placeholder}
          />
          {f.set && !f.locked && (
            <Button
              look="danger"
              className="mt-2"
              busy={form.removing === f.name && t`Removing`}
              onClick={() => form.remove(f)}
            >
              <Trans>Remove</Trans>
              <span className="sr-only">
                {" "}
                <Trans>the {f.label}</Trans>
              </span>
            </Button>
          )}
        </div>
      );
    case "area":
      return (
        <TextArea
          label={f.label}
          hint={hint}
          error={error}
          aside={lock}
          mono={f.mono}
          disabled={disabled}
          placeholder={f.placeholder}
          maxLength={f.input?.maxLength}
          required={f.input?.required}
          {...(f.mono && { spellCheck: false, autoComplete: "off" })}
          rows={f.rows}
          value={String(typed ?? "")}
          onChange={(e) => set(e.target.value)}
        />
      );
    default:
      return (
        <TextField
          {...(f.type === "number" && { inputMode: "numeric" as const })}
          {...text}
          {...(f.unit && { label: <WithUnit label={f.label} unit={f.unit} /> })}
        />
      );
  }
}

const WithUnit = ({ label, unit }: { label: string; unit: string }) => (
  <>
    {label}, <span className="font-normal">{unit}</span>
  </>
);

/** A check with its lock beside it and what is wrong with it below. */
function CheckRow({ lock, error, children }: { lock: ReactNode; error: string | undefined; children: ReactNode }) {
  if (!lock && !error) return children;
  return (
    <div className="flex flex-wrap items-baseline justify-between gap-x-3">
      {children}
      {lock}
      {error && (
        <p role="alert" className="w-full text-meta text-failed">
          {error}
        </p>
      )}
    </div>
  );
}
