import { t } from "@lingui/core/macro";
import type { Schemas } from "@/api/client";
import { usd } from "@/format/money";
import { locale } from "@/language/locale";

const short = new Intl.NumberFormat(locale(), { notation: "compact", maximumFractionDigits: 1 });

/** Tokens in words: "Tokens: 12.3K in, 1.1K out, 45K from the cache". */
export function spent(u: Schemas["TokenUsage"]): string {
  const parts = [t`${short.format(u.input)} in`, t`${short.format(u.output)} out`];
  if (u.cache_read > 0) parts.push(t`${short.format(u.cache_read)} from the cache`);
  if (u.cache_write > 0) parts.push(t`${short.format(u.cache_write)} to the cache`);
  const cost =
    u.cost_nano_usd === undefined ? "" : ` · ${money({ nano: u.cost_nano_usd, estimated: u.estimated ?? false })}`;
  return t`Tokens: ${parts.join(", ")}${cost}`;
}

/** What something cost, or about that. */
export const money = (c: { nano: number; estimated: boolean }): string =>
  c.estimated ? t`about ${usd(c.nano)}` : usd(c.nano);
