import { t as tr } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { COMMAND, SHELL } from "@/agents/built-in";
import { OWN, OWN_START, type OwnStart } from "@/agents/own";
import { OwnOptions } from "@/agents/own-options";
import type { Agent } from "@/api/client";
import { Button, IconButton } from "@/kit/button";
import { inputClass } from "@/kit/field";
import { Icon } from "@/kit/icon";
import { MAX_ATTEMPTS } from "@/runs/runs";

export interface Try {
  agent: string;
  accountId: string;
  own?: OwnStart; // of Parawork's own agent
}

/** Agents that can take a prompt now. */
const usable = (agents: readonly Agent[] | undefined): Agent[] =>
  (agents ?? []).filter((a) => a.enabled && a.installed && !a.needs_account && a.agent !== COMMAND);

/** Which agents try it, each in a workspace of its own; the same one may try more than once. */
export function Several({
  agents,
  tries,
  onChange,
}: {
  agents: readonly Agent[] | undefined;
  tries: Try[];
  onChange: (t: Try[]) => void;
}) {
  const can = usable(agents);
  const set = (i: number, t: Try) => onChange(tries.map((x, j) => (j === i ? t : x)));
  return (
    <fieldset className="min-w-0">
      <legend className="mb-1 font-medium">
        <Trans>Agents</Trans>
      </legend>
      <ul className="flex flex-col gap-2">
        {tries.map((t, i) => {
          const accounts = can.find((a) => a.agent === t.agent)?.accounts ?? [];
          return (
            <li key={i} className="flex flex-wrap items-center gap-2">
              <select
                aria-label={tr`Agent of attempt ${i + 1}`}
                value={t.agent}
                onChange={(e) => set(i, { agent: e.target.value, accountId: "" })}
                className={`${inputClass} flex-1 basis-40`}
              >
                {can.map((a) => (
                  <option key={a.agent} value={a.agent}>
                    {a.name}
                  </option>
                ))}
              </select>
              {accounts.length > 1 && (
                <select
                  aria-label={tr`Account of attempt ${i + 1}`}
                  value={t.accountId}
                  onChange={(e) => set(i, { ...t, accountId: e.target.value })}
                  className={`${inputClass} flex-1 basis-40`}
                >
                  <option value="">
                    <Trans>The default account</Trans>
                  </option>
                  {accounts.map((a) => (
                    <option key={a.id} value={a.id}>
                      {a.name}
                    </option>
                  ))}
                </select>
              )}
              <IconButton
                label={tr`Remove attempt ${i + 1}`}
                disabled={tries.length <= 1}
                onClick={() => onChange(tries.filter((_, j) => j !== i))}
              >
                <Icon name="close" size={14} />
              </IconButton>
              {t.agent === OWN && (
                <OwnOptions
                  start={t.own ?? OWN_START}
                  onChange={(own) => set(i, { ...t, own })}
                  account={t.accountId}
                  of={tr` of attempt ${i + 1}`}
                />
              )}
            </li>
          );
        })}
      </ul>
      <Button
        className="mt-2"
        disabled={tries.length >= MAX_ATTEMPTS || can.length === 0}
        onClick={() => onChange([...tries, { agent: can[tries.length % can.length]!.agent, accountId: "" }])}
      >
        <Icon name="plus" size={14} />
        <Trans>Add an attempt</Trans>
      </Button>
      <p className="mt-1 text-meta text-fg3">
        {can.length === 0
          ? tr`No agent can start yet. Choose an account for one first.`
          : tr`Each attempt gets its own workspace, ${MAX_ATTEMPTS} at most. Compare the results and keep one.`}
      </p>
    </fieldset>
  );
}

/** What several agents begin with: each that can be started, the chosen one first; two of the only one. */
export function firstTries(agents: readonly Agent[] | undefined, chosen: string): Try[] {
  const can = usable(agents).filter((a) => a.agent !== SHELL);
  const order = [...can.filter((a) => a.agent === chosen), ...can.filter((a) => a.agent !== chosen)].slice(0, 3);
  const list = order.length === 1 ? [order[0]!, order[0]!] : order;
  return list.map((a) => ({ agent: a.agent, accountId: "" }));
}
