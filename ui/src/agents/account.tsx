import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { fieldError } from "@/api/problem";
import { agentsQuery, keys } from "@/api/queries";
import { Button } from "@/kit/button";
import { Check, Choice, Field, inputClass, TextField } from "@/kit/field";
import { FormError } from "@/kit/states";
import { useTeam } from "@/state/team";
import { APIS, OWN } from "./own";

export type Account = Schemas["AgentAccount"];
type Kind = Account["kind"];
export type Scope = Account["scope"];

/** What kind of account it is, in words; gateway: keys of its agent stay on the server. */
export function accountWords(a: Account, gateway = false): string {
  switch (a.kind) {
    case "api_key":
      return t`${a.scope === "team" ? t`The team's` : t`Your`} API key${a.last_four ? t` ending in ${a.last_four}` : ""}${a.base_url ? t` at ${a.base_url}` : ""}${gateway ? t`, through the gateway` : ""}`;
    case "terminal":
      return t`You log in inside the terminal`;
    case "existing_login":
      return t`The login of the server's own user`;
  }
}

/** Invalidates the queries that depend on an account. */
export function useRefreshAccounts(): () => Promise<unknown> {
  const team = useTeam();
  const client = useQueryClient();
  return () =>
    Promise.all([
      client.invalidateQueries({ queryKey: keys.agents(team.slug) }),
      client.invalidateQueries({ queryKey: keys.accounts }),
      client.invalidateQueries({ queryKey: keys.teamAccounts(team.slug) }),
    ]);
}

interface Props {
  agent: string;
  name: string;
  scope?: Scope;
  /** The account to change; without one a new one is added. */
  account?: Account | undefined;
  /** Whether this person may use the server user's own login. */
  existingLogin: boolean;
  /** Only what is needed is shown; the rest is behind a line. */
  brief?: boolean;
  onSaved: (a: Account) => void;
}

/** Adds an account an agent works with, for this person or for the team, or changes one. */
export function AccountForm({ agent, name, scope = "user", account, existingLogin, brief, onSaved }: Props) {
  const team = useTeam();
  const gateway = useQuery(agentsQuery(team.slug)).data?.find((a) => a.agent === agent)?.gateway;
  const refresh = useRefreshAccounts();
  const [kind, setKind] = useState<Kind>(account?.kind ?? "api_key");
  const [title, setTitle] = useState(account?.name ?? "");
  const [key, setKey] = useState("");
  const [baseUrl, setBaseUrl] = useState(account?.base_url ?? "");
  const [spoken, setSpoken] = useState(account?.api ?? "");
  const own = agent === OWN;
  const [consent, setConsent] = useState(false);
  const moved = account !== undefined && baseUrl.trim() !== account.base_url;
  const save = useMutation({
    mutationFn: () => {
      const secret = kind === "api_key" && key.trim() ? { api_key: key.trim() } : {};
      if (account) {
        return data(
          api.PATCH("/agent-accounts/{id}", {
            params: { path: { id: account.id } },
            body: {
              name: title.trim(),
              ...secret,
              ...(moved ? { base_url: baseUrl.trim() } : {}),
              ...(own ? { api: spoken } : {}),
            },
          }),
        );
      }
      const body = {
        agent,
        kind,
        ...(title.trim() ? { name: title.trim() } : {}),
        ...secret,
        ...(kind === "api_key" && baseUrl.trim() ? { base_url: baseUrl.trim() } : {}),
        ...(own && spoken ? { api: spoken } : {}),
        ...(kind === "existing_login" ? { consent: consent || brief } : {}),
      };
      return data(
        scope === "team"
          ? api.POST("/teams/{team}/agent-accounts", { params: { path: { team: team.slug } }, body })
          : api.POST("/me/agent-accounts", { body }),
      );
    },
    onSuccess: async (a) => {
      setKey("");
      await refresh();
      onSaved(a);
    },
  });
  const again = moved && account.last_four !== "";
  const ready =
    (account === undefined || title.trim() !== "") &&
    (kind === "api_key"
      ? (account !== undefined && !again) || key.trim() !== ""
      : kind !== "existing_login" || account !== undefined || consent || brief === true);
  const errors = {
    name: fieldError(save.error, "name"),
    key: fieldError(save.error, "api_key"),
    url: fieldError(save.error, "base_url"),
  };
  const placed = errors.name || errors.key || errors.url || fieldError(save.error, "api");

  const copies = t`Parawork reads the credentials ${name} stores in the home directory of the server's user and gives your sessions a copy. It never changes the originals. Anyone who can type in your sessions could use the copy.`;
  const nameField = (
    <TextField
      label={t`Name`}
      value={title}
      maxLength={100}
      error={errors.name}
      placeholder={scope === "team" ? t`Team account` : t`My account`}
      onChange={(e) => setTitle(e.target.value)}
    />
  );
  const keyField = kind === "api_key" && (
    <TextField
      label={t`API key`}
      type="password"
      mono
      autoComplete="off"
      spellCheck={false}
      value={key}
      error={errors.key}
      placeholder={account?.last_four ? `…${account.last_four}` : ""}
      hint={
        again
          ? t`Enter the key again, because the address changed.`
          : account
            ? t`Leave empty to keep the current key.`
            : undefined
      }
      onChange={(e) => setKey(e.target.value)}
    />
  );
  const serverFields = kind === "api_key" && (
    <>
      <TextField
        label={own ? t`Base URL` : t`API address`}
        type="url"
        mono
        value={baseUrl}
        error={errors.url}
        placeholder={own ? t`That of Anthropic or OpenAI` : t`Default`}
        hint={own ? t`Of another server, such as OpenRouter, Ollama or vLLM. Often it ends with /v1.` : undefined}
        onChange={(e) => setBaseUrl(e.target.value)}
      />
      {own && (
        <Field label="API" error={fieldError(save.error, "api")}>
          {(ids) => (
            <select
              {...ids}
              className={inputClass}
              value={spoken}
              onChange={(e) => setSpoken(e.target.value as typeof spoken)}
            >
              {APIS.map((a) => (
                <option key={a.api} value={a.api}>
                  {a.name}
                </option>
              ))}
            </select>
          )}
        </Field>
      )}
    </>
  );

  // Not a <form>: it renders inside other forms, and forms do not nest.
  return (
    <div
      role="group"
      aria-label={account ? t`Account ${account.name} of ${name}` : t`New account of ${name}`}
      className="flex flex-col gap-3 rounded-md bg-bg2 p-3"
      onKeyDown={(e) => {
        if (
          e.key === "Enter" &&
          !e.ctrlKey &&
          !e.metaKey &&
          e.target instanceof HTMLInputElement &&
          e.target.type !== "radio"
        ) {
          e.preventDefault();
          e.stopPropagation();
          if (ready) save.mutate();
        }
      }}
    >
      {!account && own && (
        <p className="text-meta text-fg3">
          <Trans>
            A key is enough. It is stored encrypted on this server, which asks the model itself: no sandbox ever holds
            it.
          </Trans>
        </p>
      )}
      {!account && scope === "user" && !own && (
        <Choice<Kind>
          name={`account-${agent}`}
          legend={t`Which account should ${name} use for you?`}
          value={kind}
          onChange={setKind}
          options={[
            {
              value: "api_key",
              label: t`An API key`,
              hint: gateway
                ? t`Stored encrypted on the server, which calls the model on the agent's behalf: no sandbox ever holds the key. A subscription token (sk-ant-oat…) is passed to the agent unchanged.`
                : t`Stored encrypted, given only to your sessions, and never shown again.`,
            },
            {
              value: "terminal",
              label: t`Log in inside the terminal`,
              hint: t`${name} asks when it starts. The login is stored in your home directory on the server.`,
            },
            {
              value: "existing_login",
              label: t`Use my existing login`,
              hint: existingLogin
                ? t`A read-only copy of the login of the user this server runs as.`
                : t`For operators of this server only.`,
              disabled: !existingLogin,
            },
          ]}
        />
      )}
      {scope === "team" && !own && (
        <p className="text-meta text-fg3">
          {gateway
            ? t`Members can start sessions with it but never see the key: the server calls the model on the agent's behalf, and no sandbox ever holds it.`
            : t`Members can start sessions with it but never see the key. Anyone who can type in such a session could extract it: use a key with its own budget for the team.`}
        </p>
      )}
      {brief ? (
        <>
          {keyField}
          {kind === "api_key" && (
            <details open={Boolean(errors.name || errors.url)}>
              <summary className="w-fit cursor-pointer text-meta text-accent">
                <Trans>Another server, or a name for it</Trans>
              </summary>
              <div className="mt-2 grid gap-3 sm:grid-cols-2">
                {serverFields}
                {nameField}
              </div>
            </details>
          )}
        </>
      ) : (
        <>
          {nameField}
          {kind === "api_key" && (
            <div className="grid gap-3 sm:grid-cols-2">
              {keyField}
              {serverFields}
            </div>
          )}
        </>
      )}
      {kind === "existing_login" &&
        !account &&
        (brief ? (
          <p className="text-meta text-fg2">{copies}</p>
        ) : (
          <Check
            label={t`I agree that Parawork copies this login`}
            hint={copies}
            checked={consent}
            onChange={(e) => setConsent(e.target.checked)}
          />
        ))}
      <FormError error={save.error && !placed ? save.error : null} />
      <Button className="self-start" disabled={!ready} busy={save.isPending && t`Saving`} onClick={() => save.mutate()}>
        {brief && kind === "existing_login"
          ? t`Agree and use this login`
          : account
            ? t`Save`
            : scope === "team"
              ? t`Add for the team`
              : own
                ? t`Use this key`
                : t`Use this account`}
      </Button>
    </div>
  );
}
