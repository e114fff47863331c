import type { Schemas } from "@/api/client";

const short = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

/** Tokens in words: "Tokens: 12.3K in, 1.1K out, 45K from the cache". */
export function spent(u: Schemas["TokenUsage"]): string {
  const parts = [`${short.format(u.input)} in`, `${short.format(u.output)} out`];
  if (u.cache_read > 0) parts.push(`${short.format(u.cache_read)} from the cache`);
  if (u.cache_write > 0) parts.push(`${short.format(u.cache_write)} to the cache`);
  return `Tokens: ${parts.join(", ")}`;
}
