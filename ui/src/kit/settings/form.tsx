import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import type { ReactNode } from "react";
import { Button } from "../button";
import { cx } from "../cx";
import { Mark } from "../mark";
import { FormError } from "../states";
import { SettingField } from "./field";
import type { AnyField, Entry, Group } from "./schema";
import { type Form, type Saving, useSave } from "./use-save";

export interface FormProps<V extends object, R> extends Saving<V, R> {
  /** The form's name for screen readers, or the id of its heading. */
  label?: string;
  labelledBy?: string;
  /** What the button says, and while it works; without words there is none. */
  button: string;
  busy?: string;
  look?: "primary" | "plain" | "danger";
  cancel?: () => void;
  /** The button stands in the row of the fields. */
  inline?: boolean;
  className?: string;
  /** What stands above the fields, such as a heading. */
  children?: ReactNode;
  /** What stands beside the button. */
  beside?: (form: Form<V>) => ReactNode;
  /** What stands below a field, such as a button that tries it. */
  below?: (name: string, form: Form<V>) => ReactNode;
}

/** A form rendered from a list of fields. It sends the changed values and shows each error below its field. */
export function SettingsForm<V extends object, R>(props: FormProps<V, R>) {
  const { label, labelledBy, button, busy = t`Saving`, look = "primary", cancel, inline, className, children } = props;
  const form = useSave(props);
  const submit = button && (
    <Button
      type="submit"
      look={look}
      className={inline ? "mt-6" : undefined}
      disabled={form.wrong || !(form.dirty || props.create)}
      busy={form.saving && busy}
    >
      {button}
    </Button>
  );
  const cancels = cancel && (
    <Button className={inline ? "mt-6" : undefined} onClick={cancel}>
      <Trans>Cancel</Trans>
    </Button>
  );
  const saved = !props.create && (
    <span role="status" className={inline ? "mt-7" : "self-center"}>
      {form.saved && <Mark kind="done" word={t`Saved`} />}
    </span>
  );
  return (
    <form
      aria-label={label}
      aria-labelledby={labelledBy}
      className={cx(inline ? "flex flex-wrap items-start" : "flex flex-col", className ?? (inline ? "gap-2" : "gap-4"))}
      onSubmit={(e) => {
        e.preventDefault();
        form.submit();
      }}
    >
      {children}
      <Entries entries={form.entries} form={form} below={props.below} />
      {inline ? (
        <>
          {submit}
          {cancels}
          {saved}
          <div className="w-full empty:hidden">
            <FormError error={form.error} />
          </div>
        </>
      ) : (
        <>
          <FormError error={form.error} />
          <div className="flex flex-wrap gap-2">
            {submit}
            {cancels}
            {props.beside?.(form)}
            {saved}
          </div>
        </>
      )}
    </form>
  );
}

interface EntriesProps<V extends object> {
  entries: readonly Entry<V>[];
  form: Form<V>;
  below: FormProps<V, unknown>["below"];
}

function Entries<V extends object>({ entries, form, below }: EntriesProps<V>) {
  return entries.map((e, i) => {
    if ("fields" in e) return <GroupPart key={i} group={e} form={form} below={below} />;
    if ("note" in e) return <Note key={i}>{e.note(form.values)}</Note>;
    const f = e as unknown as AnyField;
    const extra = below?.(f.name, form);
    const field = <SettingField key={f.name} field={f} form={form as unknown as Form<object>} />;
    return extra ? (
      <div key={f.name}>
        {field}
        {extra}
      </div>
    ) : (
      field
    );
  });
}

const Note = ({ children }: { children: ReactNode }) => children;

function GroupPart<V extends object>({
  group: g,
  form,
  below,
}: { group: Group<V> } & Omit<EntriesProps<V>, "entries">) {
  const fields = <Entries entries={g.fields} form={form} below={below} />;
  if (g.summary)
    return (
      <details>
        <summary className="w-fit cursor-pointer text-accent">{g.summary}</summary>
        <div className={cx("mt-3", g.className ?? "flex flex-col gap-4")}>{fields}</div>
      </details>
    );
  if (g.legend === undefined && g.disabled === undefined) return <div className={g.className}>{fields}</div>;
  return (
    <fieldset disabled={g.disabled} className={g.legend === undefined ? "contents" : undefined}>
      {g.legend !== undefined && <legend className={cx("font-medium", !g.hint && "mb-1")}>{g.legend}</legend>}
      {g.hint && <p className="mb-2 text-meta text-fg3">{g.hint}</p>}
      {g.className ? <div className={g.className}>{fields}</div> : fields}
    </fieldset>
  );
}
