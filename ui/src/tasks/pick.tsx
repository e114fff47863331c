import { Field, inputClass } from "@/kit/field";

/** A choice from a short list. */
export function Pick({
  label,
  value,
  onChange,
  options,
}: {
  label: string;
  value: string;
  onChange: (v: string) => void;
  options: readonly (readonly [string, string])[];
}) {
  return (
    <Field label={label}>
      {(ids) => (
        <select {...ids} className={inputClass} value={value} onChange={(e) => onChange(e.target.value)}>
          {options.map(([v, word]) => (
            <option key={v} value={v}>
              {word}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
