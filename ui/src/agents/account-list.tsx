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
        <ul aria-label={`Accounts of ${name}`} className="flex flex-col">
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
          {accounts.length > 0 ? "Add another account" : "Add an account"}
          <span className="sr-only"> for {name}</span>
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
            Cancel
          </Button>
        </div>
      )}
    </div>
  );
}

const RESULTS: Record<"ok" | "refused" | "unreachable" | "unclear" | "untestable", [MarkKind, string]> = {
  ok: ["done", "Works"],
  refused: ["failed", "Refused"],
  unreachable: ["failed", "Not reachable"],
  unclear: ["idle", "Unclear"],
  untestable: ["idle", "Cannot be tested"],
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
    failed: `${a.name} was not changed`,
  });
  const n = a.running_sessions;
  const remove = useAction({
    act: () =>
      data(api.DELETE("/agent-accounts/{id}", { params: { ...path.params, query: n > 0 ? { force: true } : {} } })),
    confirm: {
      title: `Delete ${a.name}?`,
      body: `${
        n === 0
          ? "No session uses it now."
          : `${n} running ${n === 1 ? "session uses" : "sessions use"} it: ${n === 1 ? "it keeps using its" : "they keep using their"} key until it ends, but a login made in the terminal is lost immediately.`
      } The ${a.kind === "api_key" ? "key" : "login"} is deleted from the server. Conversations remain and can continue with another account.`,
      action: "Delete",
      danger: true,
    },
    done: refresh,
    failed: `${a.name} was not deleted`,
  });
  const [mark, word] = tested ? RESULTS[tested.result] : (["idle", ""] as const);
  return (
    <li className="border-t border-hairline py-2 first:border-t-0">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <div className="min-w-0 flex-1 basis-56">
          <p className="flex flex-wrap items-baseline gap-x-2">
            <span className="break-words">{a.name}</span>
            {a.default && <Mark kind="done" word="Default" className="text-meta" />}
            {a.running_sessions > 0 && (
              <span className="text-meta text-fg3">
                {a.running_sessions} running {a.running_sessions === 1 ? "session" : "sessions"}
              </span>
            )}
          </p>
          <p className="text-meta break-words text-fg3">{accountWords(a)}</p>
        </div>
        {manage && (
          <div className="flex flex-wrap gap-1">
            <Button look="quiet" busy={test.busy && "Testing"} onClick={() => void test.run()}>
              Test<span className="sr-only"> {a.name}</span>
            </Button>
            {(!alone || !a.default) && (
              <Button
                look="quiet"
                busy={setDefault.busy}
                aria-pressed={a.default}
                onClick={() => void setDefault.run(!a.default)}
              >
                {a.default ? "Unset as default" : "Make default"}
                <span className="sr-only"> {a.name}</span>
              </Button>
            )}
            <Button look="quiet" aria-expanded={editing} onClick={() => setEditing((e) => !e)}>
              {editing ? "Close" : "Edit"}
              <span className="sr-only"> {a.name}</span>
            </Button>
            <Button look="quiet" busy={remove.busy && "Deleting"} onClick={() => void remove.run()}>
              Delete<span className="sr-only"> {a.name}</span>
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
