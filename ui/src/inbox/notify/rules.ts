import type { InboxItem } from "@/inbox/api";
import { Store } from "@/state/store";

export type Kind = InboxItem["kind"];
export type Show = "off" | "toast" | "system";

/** This browser's notification settings, per kind. */
export interface Rule {
  show: Show;
  sound: boolean;
}

export interface Rules {
  kinds: Record<Kind, Rule>;
  /** 0 to 1. */
  volume: number;
}

export const KIND_LIST = [
  "question",
  "failed",
  "stuck",
  "limited",
  "budget",
  "review",
  "finished",
] as const satisfies readonly Kind[];

export const DEFAULT: Rules = {
  kinds: {
    question: { show: "toast", sound: false },
    failed: { show: "toast", sound: false },
    stuck: { show: "toast", sound: false },
    limited: { show: "toast", sound: false },
    budget: { show: "toast", sound: false },
    review: { show: "toast", sound: false },
    finished: { show: "toast", sound: false },
  },
  volume: 0.4,
};

const KEY = "parawork.notify"; // per person of this browser: the id follows

let person = "";
export const rules = new Store<Rules>(DEFAULT);

/** Loads the rules of the signed-in user: one browser may have several users. */
export function loadRules(user: string): void {
  if (user === person) return;
  person = user;
  rules.set(read());
}

function read(): Rules {
  try {
    return checked(JSON.parse(localStorage.getItem(`${KEY}.${person}`) ?? "{}"));
  } catch {
    return DEFAULT;
  }
}

/** Reads the known fields of stored rules and uses defaults for the rest. */
export function checked(v: unknown): Rules {
  const o = object(v);
  const kinds = object(o.kinds);
  const rule = (kind: Kind): Rule => {
    const r = object(kinds[kind]);
    const old = DEFAULT.kinds[kind];
    return {
      show: r.show === "off" || r.show === "toast" || r.show === "system" ? r.show : old.show,
      sound: typeof r.sound === "boolean" ? r.sound : old.sound,
    };
  };
  const volume = typeof o.volume === "number" && o.volume >= 0 && o.volume <= 1 ? o.volume : DEFAULT.volume;
  return {
    kinds: {
      question: rule("question"),
      failed: rule("failed"),
      stuck: rule("stuck"),
      limited: rule("limited"),
      budget: rule("budget"),
      review: rule("review"),
      finished: rule("finished"),
    },
    volume,
  };
}

const object = (v: unknown): Record<string, unknown> =>
  typeof v === "object" && v !== null ? (v as Record<string, unknown>) : {};

export function setRule(kind: Kind, change: Partial<Rule>): void {
  const now = rules.get();
  save({ ...now, kinds: { ...now.kinds, [kind]: { ...now.kinds[kind], ...change } } });
}

export function setVolume(volume: number): void {
  save({ ...rules.get(), volume });
}

function save(next: Rules): void {
  rules.set(next);
  try {
    localStorage.setItem(`${KEY}.${person}`, JSON.stringify(next));
  } catch {
    // no storage: it holds until the page is reloaded
  }
}

/** Other tabs of this browser follow a change made in one. Returns what stops it. */
export function followRules(): () => void {
  const changed = (e: StorageEvent) => {
    if (e.key === `${KEY}.${person}`) rules.set(read());
  };
  addEventListener("storage", changed);
  return () => removeEventListener("storage", changed);
}
