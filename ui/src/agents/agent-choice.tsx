import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { type UseQueryResult, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { Agent } from "@/api/client";
import { refreshAgents } from "@/api/queries";
import { Button } from "@/kit/button";
import { Choice, Field, inputClass } from "@/kit/field";
import { CopyLine, Failure, Skeleton } from "@/kit/states";
import { useMe, useTeam } from "@/state/team";
import { toastError } from "@/state/toasts";
import { AccountForm, accountWords } from "./account";
import { COMMAND, SHELL } from "./built-in";
import { OWN } from "./own";

export interface ChosenAgent {
  /** Name of the agent; "" starts none. */
  agent: string;
  set: (agent: string) => void;
  info: Agent | undefined;
  /** Account id; "" is the server's default account. */
  account: string;
  setAccount: (id: string) => void;
  /** The agent can start now. */
  ready: boolean;
}

/** Installed on the server, or possibly in the image of a place that has its own programs. */
const startable = (a: Agent) => a.installed || a.in_images;

/** Remembers the chosen agent: the one used last, else the first that can start. */
export function useAgentChoice(
  agents: Agent[] | undefined,
  last: string | undefined,
  lastAccount: (agent: string) => string | undefined = () => undefined,
): ChosenAgent {
  const [picked, setPicked] = useState<string | undefined>(undefined);
  const [account, setAccount] = useState<string | undefined>(undefined);
  const usable = (agents ?? []).filter((a) => a.enabled && startable(a) && a.agent !== SHELL && a.agent !== COMMAND);
  // Parawork's own agent is always there and comes last: it needs a key, where a program that is installed may need nothing.
  const first =
    usable.find((a) => a.agent === last) ??
    usable.find((a) => !a.needs_account) ??
    usable.find((a) => a.agent !== OWN) ??
    usable[0];
  const agent = picked ?? (last === SHELL || last === COMMAND ? last : first?.agent) ?? SHELL;
  const info = agents?.find((a) => a.agent === agent);
  const plain = agent === "" || agent === SHELL || agent === COMMAND;
  const wanted = account ?? lastAccount(agent);
  return {
    agent,
    set: (a) => {
      setPicked(a);
      setAccount(undefined);
    },
    account: info?.accounts.find((a) => a.id === wanted)?.id ?? "",
    setAccount,
    info,
    ready: agents !== undefined && (plain || (info?.enabled === true && startable(info) && !info.needs_account)),
  };
}

interface Props {
  query: UseQueryResult<Agent[]>;
  choice: ChosenAgent;
  withShell?: boolean;
  /** Offers to start nothing yet. */
  withNone?: boolean;
  /** An account that is needed is asked for elsewhere. */
  accountElsewhere?: boolean;
}

/** Lists the agents. Each row says what is installed and what is missing. */
export function AgentChoice({ query, choice, withShell, withNone, accountElsewhere }: Props) {
  const team = useTeam();
  const me = useMe();
  const client = useQueryClient();
  const [looking, setLooking] = useState(false);
  const [changing, setChanging] = useState(false);
  if (query.isPending) return <Skeleton rows={3} label={t`Loading the agents`} />;
  if (query.isError && !query.data)
    return <Failure what={t`The agents could not be listed.`} error={query.error} retry={() => void query.refetch()} />;

  const agents = query.data.filter((a) => a.agent !== SHELL && a.agent !== COMMAND);
  const missing = agents.filter((a) => a.enabled && !a.installed && a.install);
  const refresh = async () => {
    setLooking(true);
    try {
      await refreshAgents(client, team.slug);
    } catch (error) {
      toastError(t`The agents could not be checked again`, error);
    } finally {
      setLooking(false);
    }
  };
  const { info } = choice;
  const usable = info?.enabled && startable(info) ? info : undefined;
  const asks = usable && ((usable.needs_account && !accountElsewhere) || changing);
  const inUse = info?.accounts.find((a) => a.id === choice.account) ?? info?.account;

  return (
    <div className="flex flex-col gap-3">
      <Choice
        name="agent"
        inline
        legend={t`Agent`}
        value={choice.agent}
        onChange={(v) => {
          setChanging(false);
          choice.set(v);
        }}
        options={[
          ...agents.map((a) => ({
            value: a.agent,
            label: (
              <>
                <span>{a.name}</span>
                {a.version && <span className="font-mono text-micro text-fg3">{a.version}</span>}
              </>
            ),
            disabled: !a.enabled || !startable(a),
            hint: !a.enabled
              ? t`Turned off in the server's config.json.`
              : !a.installed
                ? a.in_images
                  ? t`Not installed on the server. A container image may have it.`
                  : t`Not installed on the server.`
                : a.needs_account
                  ? a.agent === OWN
                    ? t`A key is enough: of Anthropic, OpenAI or any compatible server.`
                    : t`No account chosen yet.`
                  : a.account
                    ? accountWords((a.agent === choice.agent && inUse) || a.account, a.gateway)
                    : undefined,
            aside:
              a.agent === choice.agent && a.account && !a.needs_account ? (
                <button
                  type="button"
                  onClick={() => setChanging((c) => !c)}
                  aria-expanded={changing}
                  className="min-h-6 text-meta text-accent hover:underline"
                >
                  {changing ? t`Keep it` : t`Add an account`}
                </button>
              ) : undefined,
          })),
          ...(withShell ? [{ value: SHELL, label: t`Shell`, hint: t`A shell in the workspace's folder.` }] : []),
          { value: COMMAND, label: t`A command`, hint: t`Any program, in a terminal of its own.` },
          ...(withNone
            ? [{ value: "", label: t`None`, hint: t`Create the workspace and start a session later.` }]
            : []),
        ]}
      />
      {usable && usable.accounts.length > 1 && (
        <Field label={t`Account`} className="max-w-sm" hint={t`Remembered for this project.`}>
          {(ids) => (
            <select
              {...ids}
              className={inputClass}
              value={inUse?.id ?? ""}
              onChange={(e) => choice.setAccount(e.target.value)}
            >
              {usable.accounts.map((a) => (
                <option key={a.id} value={a.id}>
                  {a.name}
                  {a.scope === "team" ? t` (team)` : ""}
                  {a.id === usable.account?.id ? t`, default` : ""}
                </option>
              ))}
            </select>
          )}
        </Field>
      )}
      {asks && (
        <AccountForm
          key={usable.agent}
          agent={usable.agent}
          name={usable.name}
          existingLogin={me.limits.existing_login}
          onSaved={(a) => {
            setChanging(false);
            choice.setAccount(a.id);
          }}
        />
      )}
      {missing.length > 0 && (
        <details className="text-fg2">
          <summary className="w-fit cursor-pointer text-meta text-accent">
            <Trans>How to install {missing.map((a) => a.name).join(", ")}</Trans>
          </summary>
          <div className="mt-2 flex flex-col gap-2">
            <p className="text-meta text-fg3">
              <Trans>On the server, as the user that runs Parawork:</Trans>
            </p>
            {missing.map((a) => (
              <CopyLine key={a.agent} text={a.install} label={t`the command that installs ${a.name}`} />
            ))}
            <Button className="self-start" busy={looking && t`Looking`} onClick={() => void refresh()}>
              <Trans>Check again</Trans>
            </Button>
          </div>
        </details>
      )}
    </div>
  );
}
