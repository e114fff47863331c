import { type QueryKey, useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError, fieldError } from "@/api/problem";
import { type AnyField, type Entry, fieldsOf, formatted, isEqual, parse, type Typed } from "./schema";
import { useUnsaved } from "./unsaved";

export interface Saving<V extends object, R> {
  /** The values as the server has them, or those a new thing begins with. */
  loaded: V;
  /** The fields; what is shown may depend on what is typed. */
  fields: readonly Entry<V>[] | ((typed: Typed<V>) => readonly Entry<V>[]);
  /** Sends what was changed; `all` has the other values, too. */
  save: (changed: Partial<V>, all: V) => Promise<R>;
  /** What follows once it is saved. The form shows the loaded values again when this has ended. */
  onSaved?: (answer: R, all: V) => unknown;
  /** Queries that are read again then. */
  refresh?: readonly QueryKey[];
  /** Something new is made: it may be sent as it is, and nobody is asked before it is left. */
  create?: boolean;
  /** Which values stay typed for the next thing that is made. */
  preserve?: readonly (keyof V)[];
}

export interface Form<V extends object> {
  entries: readonly Entry<V>[];
  /** The values by name; those that cannot be read are missing. */
  values: Partial<V>;
  /** Those of them that differ from what was loaded. */
  changed: Partial<V>;
  dirty: boolean;
  /** Something typed is no value. */
  wrong: boolean;
  saving: boolean;
  /** It was saved, and nothing was changed since. */
  saved: boolean;
  /** Why it was not saved, where that is about none of the fields shown. */
  error: Error | null;
  typed: (f: AnyField) => unknown;
  set: (f: AnyField, typed: unknown) => void;
  errorOf: (f: AnyField) => string | undefined;
  submit: () => void;
  /** Takes a secret away, by itself. */
  remove: (f: AnyField) => void;
  removing: string | undefined;
}

type Edits = Record<string, unknown>;

interface Sent<V> {
  changed: Partial<V>;
  all: V;
  /** What stood in the fields that were sent. */
  edits: Edits;
  removes?: string;
}

/**
 * The state of a form: what is typed over what was loaded. Only what was typed is held here, so values that others change meanwhile
 * show up in the other fields, and what the server refuses stays where it was typed.
 */
export function useSave<V extends object, R>(o: Saving<V, R>): Form<V> {
  const client = useQueryClient();
  const [edits, setEdits] = useState<Edits>({});
  const loaded = o.loaded as Record<string, unknown>;
  const entries = typeof o.fields === "function" ? o.fields({ ...loaded, ...edits } as Typed<V>) : o.fields;
  const fields = fieldsOf(entries);

  const values: Record<string, unknown> = {};
  const changed: Record<string, unknown> = {};
  const wrong: Record<string, string> = {};
  for (const f of fields) {
    if (!(f.name in edits) || f.locked) {
      values[f.name] = loaded[f.name];
      continue;
    }
    const got = parse(f, edits[f.name]);
    if (got.wrong !== undefined) wrong[f.name] = got.wrong;
    else {
      values[f.name] = got.value;
      if (!isEqual(got.value, loaded[f.name])) changed[f.name] = got.value;
    }
  }
  for (const f of fields) {
    const why = f.disabled || f.name in wrong ? undefined : f.check?.(values[f.name], values);
    if (why !== undefined) wrong[f.name] = why;
  }
  const isWrong = Object.keys(wrong).length > 0;
  const dirty = isWrong || Object.keys(changed).length > 0;
  useUnsaved(dirty && !o.create);

  const mutation = useMutation({
    mutationFn: ({ changed, all }: Sent<V>) => o.save(changed, all),
    onSuccess: async (answer, sent) => {
      await o.onSaved?.(answer, sent.all);
      await Promise.all((o.refresh ?? []).map((queryKey) => client.invalidateQueries({ queryKey })));
      // What was typed while it was saved stays.
      const ended = (k: string, v: unknown) =>
        k in sent.edits && isEqual(v, sent.edits[k]) && !o.preserve?.includes(k as keyof V);
      setEdits((now) => Object.fromEntries(Object.entries(now).filter(([k, v]) => !ended(k, v))));
    },
  });

  const errorOf = (f: AnyField) =>
    wrong[f.name] ?? [f.name, ...(f.errors ?? [])].map((name) => refusal(mutation.error, name)).find(Boolean);
  const all = { ...loaded, ...values } as V;
  return {
    entries,
    values: values as Partial<V>,
    changed: changed as Partial<V>,
    dirty,
    wrong: isWrong,
    saving: mutation.isPending && !mutation.variables.removes,
    saved: mutation.isSuccess && !dirty,
    error: fields.some((f) => !(f.name in wrong) && errorOf(f)) ? null : mutation.error,
    typed: (f) => (f.name in edits && !f.locked ? edits[f.name] : formatted(f, loaded[f.name])),
    set: (f, typed) => setEdits((now) => ({ ...now, [f.name]: typed, ...f.derive?.(typed) })),
    errorOf,
    submit: () => {
      if (isWrong || mutation.isPending || !(dirty || o.create)) return;
      mutation.mutate({ changed: changed as Partial<V>, all, edits });
    },
    remove: (f) =>
      mutation.mutate({
        changed: { [f.name]: "" } as Partial<V>,
        all,
        edits: { [f.name]: edits[f.name] },
        removes: f.name,
      }),
    removing: mutation.isPending ? mutation.variables.removes : undefined,
  };
}

/** What the server refused, where that is about a field of this name or has this code. */
const refusal = (error: unknown, name: string): string | undefined =>
  error instanceof ApiError && error.code === name ? error.message : fieldError(error, name);
