import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { Button } from "@/kit/button";
import { Mark, type MarkKind } from "@/kit/mark";
import { useAction } from "@/kit/use-action";
import { type Account, AccountForm, accountWords, useRefreshAccounts } from "./account";

interface Props {
  agent: string;
  name: string;
  scope: Account["scope"];
  accounts: Account[];
  /** Whether this person may change them. */
  manage: boolean;
  existingLogin: boolean;
}

/** Lists one agent's accounts, of a person or of the team, with their actions. */
export function AccountList({ agent, name, scope, accounts, manage, existingLogin }: Props) {
  const [adding, setAdding] = useState(false);
  return (
    <div className="mt-1 flex flex-col gap-2">
      {accounts.length > 0 && (
        <ul aria-label={t`Accounts of ${name}`} className="flex flex-col">
          {accounts.map((a) => (
            <AccountRow
              key={a.id}
              account={a}
              agent={name}
              manage={manage}
              alone={accounts.length === 1}
              existingLogin={existingLogin}
            />
          ))}
        </ul>
      )}
      {manage && !adding && (
        <Button className="self-start" onClick={() => setAdding(true)}>
          {accounts.length > 0 ? t`Add another account` : t`Add an account`}
          <span className="sr-only">
            {" "}
            <Trans>for {name}</Trans>
          </span>
        </Button>
      )}
      {adding && (
        <div>
          <AccountForm
            agent={agent}
            name={name}
            scope={scope}
            existingLogin={existingLogin}
            onSaved={() => setAdding(false)}
          />
          <Button look="quiet" className="mt-2" onClick={() => setAdding(false)}>
            <Trans>Cancel</Trans>
          </Button>
        </div>
      )}
    </div>
  );
}

const RESULTS: Record<"ok" | "refused" | "unreachable" | "unclear" | "untestable", [MarkKind, string]> = {
  ok: ["done", t`Works`],
  refused: ["failed", t`Refused`],
  unreachable: ["failed", t`Not reachable`],
  unclear: ["idle", t`Unclear`],
  untestable: ["idle", t`Cannot be tested`],
};

interface RowProps {
  account: Account;
  agent: string;
  manage: boolean;
  alone: boolean;
  existingLogin: boolean;
}

function AccountRow({ account: a, agent, manage, alone, existingLogin }: RowProps) {
  const refresh = useRefreshAccounts();
  const [editing, setEditing] = useState(false);
  const [tested, setTested] = useState<Schemas["AgentAccountTest"] | undefined>();
  const path = { params: { path: { id: a.id } } };
  const test = useAction({ act: () => data(api.POST("/agent-accounts/{id}/test", path)), done: setTested });
  const setDefault = useAction({
    act: (on: boolean) => data(api.PATCH("/agent-accounts/{id}", { ...path, body: { default: on } })),
    done: refresh,
    failed: t`${a.name} was not changed`,
  });
  const n = a.running_sessions;
  const remove = useAction({
    act: () =>
      data(api.DELETE("/agent-accounts/{id}", { params: { ...path.params, query: n > 0 ? { force: true } : {} } })),
    confirm: {
      title: t`Delete ${a.name}?`,
      body: t`${
        n === 0
          ? t`No session uses it now.`
          : t`${n} running ${n === 1 ? t`session uses` : t`sessions use`} it: ${n === 1 ? t`it keeps using its` : t`they keep using their`} key until it ends, but a login made in the terminal is lost immediately.`
      } The ${a.kind === "api_key" ? t`key` : t`login`} is deleted from the server. Conversations remain and can continue with another account.`,
      action: t`Delete`,
      danger: true,
    },
    done: refresh,
    failed: t`${a.name} was not deleted`,
  });
  const [mark, word] = tested ? RESULTS[tested.result] : (["idle", ""] as const);
  return (
    <li className="border-t border-hairline py-2 first:border-t-0">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <div className="min-w-0 flex-1 basis-56">
          <p className="flex flex-wrap items-baseline gap-x-2">
            <span className="break-words">{a.name}</span>
            {a.default && <Mark kind="done" word={t`Default`} className="text-meta" />}
            {a.running_sessions > 0 && (
              <span className="text-meta text-fg3">
                <Trans>
                  {a.running_sessions} running {a.running_sessions === 1 ? t`session` : t`sessions`}
                </Trans>
              </span>
            )}
          </p>
          <p className="text-meta break-words text-fg3">{accountWords(a)}</p>
        </div>
        {manage && (
          <div className="flex flex-wrap gap-1">
            <Button look="quiet" busy={test.busy && t`Testing`} onClick={() => void test.run()}>
              <Trans>Test</Trans>
              <span className="sr-only"> {a.name}</span>
            </Button>
            {(!alone || !a.default) && (
              <Button
                look="quiet"
                busy={setDefault.busy}
                aria-pressed={a.default}
                onClick={() => void setDefault.run(!a.default)}
              >
                {a.default ? t`Unset as default` : t`Make default`}
                <span className="sr-only"> {a.name}</span>
              </Button>
            )}
            <Button look="quiet" aria-expanded={editing} onClick={() => setEditing((e) => !e)}>
              {editing ? t`Close` : t`Edit`}
              <span className="sr-only"> {a.name}</span>
            </Button>
            <Button look="quiet" busy={remove.busy && t`Deleting`} onClick={() => void remove.run()}>
              <Trans>Delete</Trans>
              <span className="sr-only"> {a.name}</span>
            </Button>
          </div>
        )}
      </div>
      <div role="status" className="text-meta empty:hidden">
        {tested && (
          <p className="mt-1 flex flex-wrap gap-x-2">
            <Mark kind={mark} word={word} />
            <span className="min-w-0 break-words text-fg2">{tested.detail}</span>
          </p>
        )}
        {test.error && <p className="mt-1 text-failed">{test.error.message}</p>}
      </div>
      {editing && (
        <div className="mt-2">
          <AccountForm
            agent={a.agent}
            name={agent}
            scope={a.scope}
            account={a}
            existingLogin={existingLogin}
            onSaved={() => setEditing(false)}
          />
        </div>
      )}
    </li>
  );
}
