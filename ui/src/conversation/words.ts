import type { Schemas } from "@/api/client";
import { usd } from "@/format/money";

const short = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

/** Tokens in words: "Tokens: 12.3K in, 1.1K out, 45K from the cache". */
export function spent(u: Schemas["TokenUsage"]): string {
  const parts = [`${short.format(u.input)} in`, `${short.format(u.output)} out`];
  if (u.cache_read > 0) parts.push(`${short.format(u.cache_read)} from the cache`);
  if (u.cache_write > 0) parts.push(`${short.format(u.cache_write)} to the cache`);
  const money = u.cost_nano_usd === undefined ? "" : ` · ${u.estimated ? "about " : ""}${usd(u.cost_nano_usd)}`;
  return `Tokens: ${parts.join(", ")}${money}`;
}
