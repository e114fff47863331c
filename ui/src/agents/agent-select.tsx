import { t } from "@lingui/core/macro";
import type { Agent } from "@/api/client";
import { Field, inputClass } from "@/kit/field";
import { COMMAND, SHELL } from "./built-in";

/** The agents that can be started where no person is asked. */
export const startableAgents = (agents: readonly Agent[] | undefined): Agent[] =>
  (agents ?? []).filter((a) => a.enabled && a.installed && a.agent !== SHELL && a.agent !== COMMAND);

interface Props {
  agents: readonly Agent[];
  value: string;
  onChange: (agent: string) => void;
  hint?: string;
}

/** Chooses one of these agents by its name. One that was chosen earlier stays among them. */
export function AgentSelect({ agents, value, onChange, hint }: Props) {
  return (
    <Field label={t`Agent`} hint={hint}>
      {(ids) => (
        <select {...ids} className={inputClass} value={value} onChange={(e) => onChange(e.target.value)}>
          {[...new Set([...agents.map((a) => a.agent), ...(value ? [value] : [])])].map((a) => (
            <option key={a} value={a}>
              {agents.find((u) => u.agent === a)?.name ?? a}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
