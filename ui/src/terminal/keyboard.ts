import { t } from "@lingui/core/macro";
/** The keyboard of a terminal in one person's hands. */
export interface Keyboard {
  userId: string;
  name: string;
  since: number;
  mine: boolean;
  asking: Asking[];
}

export interface Asking {
  userId: string;
  name: string;
}

/** What one can do about a keyboard; `give` and `decline` name a user. */
export type KeyboardWish = { do: "hold" | "release" | "ask" | "unask" } | { do: "give" | "decline"; to: string };

/** Reads the keyboard of a state frame; undefined: everybody who may type types. */
export function parseKeyboard(json: unknown): Keyboard | undefined {
  const o = object(json);
  if (typeof o.user_id !== "string") return undefined;
  const asking = Array.isArray(o.asking) ? o.asking : [];
  return {
    userId: o.user_id,
    name: string(o.name) || t`Somebody`,
    since: typeof o.since === "number" ? o.since : 0,
    mine: o.mine === true,
    asking: asking.map(object).flatMap((a) => {
      const userId = string(a.user_id);
      return userId ? [{ userId, name: string(a.name) || t`Somebody` }] : [];
    }),
  };
}

const object = (v: unknown): Record<string, unknown> =>
  typeof v === "object" && v !== null ? (v as Record<string, unknown>) : {};
const string = (v: unknown): string => (typeof v === "string" ? v : "");
