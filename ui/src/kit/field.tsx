import { type ComponentProps, type ReactNode, useId } from "react";
import { inputClass } from "./classes";
import { cx } from "./cx";

export { inputClass };

interface FieldProps {
  label: ReactNode;
  hint?: ReactNode;
  error?: string;
  className?: string;
  /** Something beside the label, such as a link. */
  aside?: ReactNode;
  children: (ids: {
    id: string;
    "aria-describedby": string | undefined;
    "aria-invalid": true | undefined;
  }) => ReactNode;
}

/** A label above a control, a hint or an error below it, tied together for screen readers. */
export function Field({ label, hint, error, className, aside, children }: FieldProps) {
  const id = useId();
  const below = error || hint ? `${id}-below` : undefined;
  return (
    <div className={className}>
      <div className="mb-1 flex items-baseline justify-between gap-2">
        <label htmlFor={id} className="font-medium">
          {label}
        </label>
        {aside}
      </div>
      {children({ id, "aria-describedby": below, "aria-invalid": error ? true : undefined })}
      {(error || hint) && (
        <p id={below} className={cx("mt-1 text-meta break-words", error ? "text-failed" : "text-fg3")}>
          {error || hint}
        </p>
      )}
    </div>
  );
}

interface TextProps extends Omit<ComponentProps<"input">, "children"> {
  label: ReactNode;
  hint?: ReactNode;
  error?: string;
  aside?: ReactNode;
  mono?: boolean;
  fieldClass?: string;
}

export function TextField({ label, hint, error, aside, mono, className, fieldClass, ...rest }: TextProps) {
  return (
    <Field label={label} hint={hint} error={error} aside={aside} className={fieldClass}>
      {(ids) => <input {...ids} {...rest} className={cx(inputClass, mono && "font-mono text-code", className)} />}
    </Field>
  );
}

interface AreaProps extends Omit<ComponentProps<"textarea">, "children"> {
  label: ReactNode;
  hint?: ReactNode;
  error?: string;
  aside?: ReactNode;
  mono?: boolean;
}

export function TextArea({ label, hint, error, aside, mono, className, rows = 3, ...rest }: AreaProps) {
  return (
    <Field label={label} hint={hint} error={error} aside={aside}>
      {(ids) => (
        <textarea
          {...ids}
          rows={rows}
          {...rest}
          className={cx(inputClass, "h-auto resize-y py-1.5 leading-5", mono && "font-mono text-code", className)}
        />
      )}
    </Field>
  );
}

export function Check({
  label,
  hint,
  className,
  ...rest
}: ComponentProps<"input"> & { label: ReactNode; hint?: ReactNode }) {
  return (
    <label className={cx("flex min-h-6 items-start gap-2 py-0.5", className)}>
      <input type="checkbox" {...rest} className="mt-[calc((1lh-(--spacing(3.5)))/2)] size-3.5 shrink-0 accent-fill" />
      <span className="min-w-0">
        {label}
        {hint && <span className="block text-meta text-fg3">{hint}</span>}
      </span>
    </label>
  );
}

interface ChoiceProps<T extends string> {
  name: string;
  legend: ReactNode;
  value: T | undefined;
  onChange: (v: T) => void;
  options: { value: T; label: ReactNode; hint?: ReactNode; disabled?: boolean; aside?: ReactNode }[];
  hideLegend?: boolean;
  /** Explanations stand beside the labels instead of below them. */
  inline?: boolean;
}

/** One of a few, each with its explanation in the row. */
export function Choice<T extends string>({
  name,
  legend,
  value,
  onChange,
  options,
  hideLegend,
  inline,
}: ChoiceProps<T>) {
  return (
    <fieldset className="min-w-0">
      <legend className={cx("mb-1 font-medium", hideLegend && "sr-only")}>{legend}</legend>
      <div className="divide-y divide-hairline overflow-hidden rounded-md border border-hairline">
        {options.map((o) => (
          <label
            key={o.value}
            className={cx(
              "flex items-start gap-2.5 px-3 py-1.5 has-checked:bg-bg2 has-focus-visible:outline-2 has-focus-visible:-outline-offset-2 has-focus-visible:outline-accent",
              o.disabled && "cursor-default",
            )}
          >
            <input
              type="radio"
              name={name}
              value={o.value}
              checked={value === o.value}
              disabled={o.disabled}
              onChange={() => onChange(o.value)}
              className="mt-1 size-3 shrink-0 accent-fill outline-none"
            />
            <span className={cx("min-w-0 flex-1", inline && "flex flex-wrap items-baseline gap-x-3")}>
              <span className={cx("flex flex-wrap items-baseline gap-x-2", o.disabled ? "text-fg3" : "text-fg")}>
                {o.label}
              </span>
              {o.hint && (
                <span className={cx("text-meta break-words text-fg3", inline ? "sm:ml-auto sm:text-right" : "block")}>
                  {o.hint}
                </span>
              )}
            </span>
            {o.aside}
          </label>
        ))}
      </div>
    </fieldset>
  );
}

/** Two or three settings side by side, one of them on. */
export function Segmented<T extends string>({
  label,
  value,
  onChange,
  options,
}: {
  label: string;
  value: T;
  onChange: (v: T) => void;
  options: readonly (readonly [T, ReactNode])[];
}) {
  return (
    <div role="group" aria-label={label} className="inline-flex gap-0.5 rounded-md bg-bg3 p-0.5">
      {options.map(([v, text]) => (
        <button
          key={v}
          type="button"
          aria-pressed={v === value}
          onClick={() => onChange(v)}
          className="h-[calc(var(--control-h)-4px)] rounded-sm px-2.5 text-fg2 hover:text-fg aria-pressed:bg-bg1 aria-pressed:font-medium aria-pressed:text-fg aria-pressed:shadow-raised forced-colors:aria-pressed:underline"
        >
          {text}
        </button>
      ))}
    </div>
  );
}
