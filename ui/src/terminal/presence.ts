import { plural, t } from "@lingui/core/macro";
import { listed } from "@/format/text";
import type { Seat } from "./state";

/** A person at a terminal, on however many screens. */
export interface Person {
  userId: string;
  name: string;
  writer: boolean;
}

/** The people behind the seats, each once, in the order they came. */
export function people(seats: readonly Seat[]): Person[] {
  const found = new Map<string, Person>();
  for (const s of seats) {
    const known = found.get(s.userId);
    if (known) known.writer ||= s.writer;
    else found.set(s.userId, { userId: s.userId, name: s.name, writer: s.writer });
  }
  return [...found.values()];
}

/** What to say about who came and who left since `before`; "" for nothing, and for oneself. */
export function arrivals(before: readonly Person[], now: readonly Person[], me: string): string {
  const had = new Set(before.map((p) => p.userId));
  const has = new Set(now.map((p) => p.userId));
  const came = now.filter((p) => !had.has(p.userId) && p.userId !== me).map((p) => p.name);
  const left = before.filter((p) => !has.has(p.userId) && p.userId !== me).map((p) => p.name);
  const said: string[] = [];
  if (came.length > 0) said.push(came.length > 1 ? t`${names(came)} are watching` : t`${names(came)} is watching`);
  if (left.length > 0) said.push(t`${names(left)} left`);
  return said.join(". ");
}

const names = (all: string[]): string =>
  all.length > 3 ? plural(all.length, { one: "# person", other: "# people" }) : listed(all);
