import { t } from "@lingui/core/macro";
import type { ComponentProps, ReactNode } from "react";

/** How a value that is no text stands in a field: nano-dollars as 12.50. */
export interface Codec<T> {
  format: (value: T) => string;
  /** The value of what was typed; undefined when it is none. */
  parse: (text: string) => T | undefined;
  /** What is said of text that is no value. */
  message: string;
}

/** What a control of a field's own is given. */
export interface Control<T> {
  value: T;
  set: (value: T) => void;
  error: string | undefined;
  locked: boolean;
}

/** One setting: how it is called, what it may be, and whether it may be changed. */
export interface FieldOf<K, T> {
  name: K;
  label: string;
  type: "text" | "number" | "boolean" | "choice" | "radio" | "secret" | "area" | "custom";
  hint?: ReactNode | ((value: T | undefined) => ReactNode);
  placeholder?: string;
  /** Of a number. */
  unit?: string;
  min?: number;
  max?: number;
  /** Of a choice. */
  options?: readonly Option[];
  /** Of a secret: whether the server has one, and its last four characters. */
  set?: boolean;
  last_four?: string;
  /** config.json or the environment says it. */
  locked?: boolean;
  disabled?: boolean;
  codec?: Codec<T>;
  /** What is wrong with a value beside the others; undefined when nothing is. */
  check?: (value: T, all: Partial<Record<string, unknown>>) => string | undefined;
  /** Values of other fields that follow from this one. */
  derive?: (value: T) => Record<string, unknown>;
  /** Further names the server uses for this field in errors, and error codes that are about it. */
  errors?: readonly string[];
  /** Attributes of the input. */
  input?: Omit<ComponentProps<"input">, "value" | "onChange">;
  mono?: boolean;
  /** Lines of an area. */
  rows?: number;
  /** Classes of the whole field. */
  className?: string;
  /** The control of a field of type "custom". */
  render?: (control: Control<T>) => ReactNode;
}

export interface Option {
  value: string;
  label: ReactNode;
  hint?: ReactNode;
  disabled?: boolean;
}

export type Field<V> = { [K in keyof V]-?: FieldOf<K, V[K]> }[keyof V];

/** Fields that belong together, under a legend or folded behind a summary. */
export interface Group<V> {
  legend?: string;
  /** The group is folded, and this opens it. */
  summary?: string;
  hint?: ReactNode;
  className?: string;
  disabled?: boolean;
  fields: readonly Entry<V>[];
}

/** What a form is made of, from top to bottom; words between fields may depend on the values. */
export type Entry<V> = Field<V> | Group<V> | { note: (values: Partial<V>) => ReactNode };

/** What is typed, by field: text where the field has a codec, else the value itself. */
export type Typed<V> = { [K in keyof V]: V[K] | string };

// Within the form fields are handled without their types: a schema may come from the server.
export type AnyField = FieldOf<string, unknown>;

/** The fields of a schema, without groups and words. */
export function fieldsOf<V>(entries: readonly Entry<V>[]): AnyField[] {
  return entries.flatMap((e) => ("fields" in e ? fieldsOf(e.fields) : "note" in e ? [] : [e as unknown as AnyField]));
}

const WHOLE = t`Enter a whole number.`;

/** What a field shows of a value. */
export function formatted(f: AnyField, value: unknown): unknown {
  if (f.codec) return f.codec.format(value);
  if (f.type === "number") return String(value);
  return value;
}

/** The value of what was typed into a field, or what is wrong with it. */
export function parse(f: AnyField, typed: unknown): { value?: unknown; wrong?: string } {
  if (f.codec) {
    const value = f.codec.parse(String(typed));
    return value === undefined ? { wrong: f.codec.message } : { value };
  }
  if (f.type === "number") return parseNumber(f, String(typed).trim());
  if (typeof typed !== "string" || f.type === "secret" || f.input?.type === "password") return { value: typed };
  return { value: typed.trim() };
}

function parseNumber({ min = 0, max }: AnyField, text: string): { value?: number; wrong?: string } {
  if (!/^-?\d{0,15}$/.test(text) || text === "-") return { wrong: WHOLE };
  const value = Number(text);
  if (value < min) return { wrong: text === "" ? WHOLE : t`At least ${min}.` };
  if (max !== undefined && value > max) return { wrong: t`At most ${max}.` };
  return { value };
}

/** Whether two values are the same, lists and records by what is in them. */
export function isEqual(a: unknown, b: unknown): boolean {
  return Object.is(a, b) || JSON.stringify(a) === JSON.stringify(b);
}
