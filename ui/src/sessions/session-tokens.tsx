import { plural, t as tr } from "@lingui/core/macro";
import type { Schemas } from "@/api/client";
import { usd } from "@/format/money";
import { locale } from "@/language/locale";

type Tokens = Schemas["SessionTokens"];

const short = new Intl.NumberFormat(locale(), { notation: "compact", maximumFractionDigits: 1 });

/** What a session asked of models, in a line: "12K tokens, $0.04". Unknown is said, never shown as nothing. */
export function tokensLine(t: Tokens): string {
  const all = t.input + t.output + t.cache_read + t.cache_write;
  const parts = [tr`${short.format(all)} tokens`];
  if (t.cost_nano !== null) parts.push(usd(t.cost_nano));
  if (t.unknown_requests > 0) parts.push(t.cost_nano === null ? tr`cost unknown` : tr`${t.unknown_requests} unknown`);
  if (t.included_requests > 0) parts.push(tr`on your own login`);
  return parts.join(", ");
}

/** The same with everything that is known, for a tooltip. */
export function tokensDetail(t: Tokens): string {
  const n = (v: number) => v.toLocaleString(locale());
  const lines = [
    tr`${n(t.input)} in, ${n(t.output)} out, ${n(t.cache_read)} read from cache, ${n(t.cache_write)} written to cache`,
    `${plural(t.requests, { one: "# request", other: "# requests" })}, ${t.source === "gateway" ? tr`counted by the model gateway` : tr`from the agent's own record`}`,
  ];
  if (t.unknown_requests > 0) lines.push(tr`${n(t.unknown_requests)} of unknown cost`);
  if (t.included_requests > 0) lines.push(tr`${n(t.included_requests)} covered by a subscription`);
  return lines.join("\n");
}

export function SessionTokens({ tokens }: { tokens: Tokens }) {
  return (
    <span className="tabular-nums" data-testid="session-tokens" title={tokensDetail(tokens)}>
      {tokensLine(tokens)}
      <span className="sr-only">: {tokensDetail(tokens)}</span>
    </span>
  );
}
