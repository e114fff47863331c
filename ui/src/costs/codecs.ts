import { t } from "@lingui/core/macro";
import type { Codec } from "@/kit/settings/schema";
import { readUsd, usdField } from "./amounts";
import { readThresholds } from "./words";

/** Nano-dollars typed as dollars; an empty field is null. */
export const dollars: Codec<number | null> = {
  format: usdField,
  parse: readUsd,
  message: t`Dollars, such as 500 or 12.50.`,
};

/** Nano-dollars typed as dollars; nothing is an empty field. */
export const dollarsOrNothing = (wrong: string): Codec<number> => ({
  format: (nano) => (nano === 0 ? "" : usdField(nano)),
  parse: (text) => {
    const nano = readUsd(text);
    return nano === null ? 0 : nano;
  },
  message: wrong,
});

/** Seconds typed as minutes. */
export const secondsInMinutes: Codec<number> = {
  format: (seconds) => String(seconds / 60),
  parse: (text) => (/^\d{1,4}(\.\d)?$/.test(text.trim()) ? Math.round(Number(text) * 60) : undefined),
  message: t`Minutes, such as 5.`,
};

/** Percents, typed one after the other. */
export const percents: Codec<number[]> = {
  format: (list) => list.join(", "),
  parse: readThresholds,
  message: t`Whole percents from 1 to 100, such as 80, 90, 100.`,
};
