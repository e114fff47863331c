import { t } from "@lingui/core/macro";
import { api, data } from "@/api/client";
import { SettingsForm } from "@/kit/settings/form";
import type { Codec, Entry, Typed } from "@/kit/settings/schema";
import { type Kind, type Owner, type Secret, useRefreshSecrets } from "./queries";
import { agentsOf } from "./words";

interface Props {
  owner: Owner;
  /** The one to change; none: a new one. */
  secret?: Secret;
  onSaved: () => void;
  onCancel: () => void;
}

interface Values {
  kind: Kind;
  name: string;
  value: string;
  target: string;
  username: string;
  in_sandbox: boolean;
  agents: string;
}

/** Adds or changes a secret. Stored values are never shown: an empty field leaves the value unchanged. */
export function SecretForm({ owner, secret, onSaved, onCancel }: Props) {
  const refresh = useRefreshSecrets();
  return (
    <SettingsForm<Values, unknown>
      label={secret ? t`Change ${secret.name}` : t`New secret`}
      className="gap-3 rounded-md bg-bg2 p-3"
      create={!secret}
      loaded={{
        kind: secret?.kind ?? "env",
        name: secret?.name ?? "",
        value: "",
        target: secret?.target ?? "",
        username: secret?.username ?? "",
        in_sandbox: secret?.kind === "git" && secret.in_sandbox,
        agents: secret?.agents.join(", ") ?? "",
      }}
      fields={(typed) => fieldsOf(owner, secret, typed)}
      save={(_, all) => send(owner, secret, all)}
      onSaved={async () => {
        await refresh();
        onSaved();
      }}
      button={secret ? t`Save` : t`Add`}
      cancel={onCancel}
    />
  );
}

function send(owner: Owner, secret: Secret | undefined, v: Values): Promise<unknown> {
  const body = {
    name: v.name || v.target,
    ...(v.kind === "env" ? {} : { target: v.target }),
    ...(v.kind === "git" ? { username: v.username, in_sandbox: v.in_sandbox } : { agents: agentsOf(v.agents) }),
  };
  if (secret)
    return data(
      api.PATCH("/secrets/{id}", {
        params: { path: { id: secret.id } },
        body: { ...body, ...(v.value ? { value: v.value } : {}) },
      }),
    );
  const made = { kind: v.kind, value: v.value, ...body };
  if (owner.scope === "personal") return data(api.POST("/me/secrets", { body: made }));
  return data(
    api.POST("/teams/{team}/secrets", {
      params: { path: { team: owner.team } },
      body: owner.scope === "project" ? { ...made, project_id: owner.project } : made,
    }),
  );
}

function fieldsOf(owner: Owner, secret: Secret | undefined, typed: Typed<Values>): Entry<Values>[] {
  const { kind } = typed;
  const personal = owner.scope === "personal";
  const moved = kind === "git" && secret !== undefined && typed.target.trim() !== secret.target;
  const value = {
    name: "value",
    placeholder: secret?.last_four ? `…${secret.last_four}` : "",
    hint:
      secret &&
      (moved
        ? t`Enter the secret again, because the host changed.`
        : t`Leave empty to keep the current value. Running sessions use their value until they end.`),
    mono: true,
  } as const;
  const required = !secret || moved;
  const hidden: Entry<Values> = {
    ...value,
    label: kind === "git" ? t`Token` : t`Value`,
    type: "text",
    // Environment variable or a token loses the spaces and line ends around it, which nobody means.
    codec: { format: (v: string) => v, parse: (text: string) => text.trim(), message: "" },
    input: { type: "password", autoComplete: "off", required },
  };
  const target = { name: "target", type: "text", mono: true, input: { required: true, maxLength: 255 } } as const;
  return [
    ...(secret ? [] : [kindField(personal)]),
    {
      className: "grid gap-3 sm:grid-cols-2",
      fields: [
        {
          name: "name",
          label: t`Name`,
          type: "text",
          mono: kind === "env",
          placeholder: kind === "env" ? "NPM_TOKEN" : kind === "file" ? t`Settings` : "GitHub",
          errors: ["kind"],
          input: { required: kind === "env", maxLength: 100, autoComplete: "off", spellCheck: false },
        },
        ...(kind === "file"
          ? [
              {
                ...target,
                label: t`Path`,
                placeholder: personal ? "~/.npmrc" : ".env",
                hint: personal
                  ? t`Relative to the home directory of your sessions (~/).`
                  : t`Relative to the worktree, or to the home directory (~/).`,
              },
            ]
          : []),
        ...(kind === "git" ? [{ ...target, label: t`Host`, placeholder: "github.com" }, USER_NAME] : []),
        ...(kind === "file" ? [] : [hidden]),
      ],
    },
    ...(kind === "file"
      ? [{ ...value, label: t`Content`, type: "area", rows: 6, codec: AS_PASTED, input: { required } } as const]
      : []),
    ...(kind === "git" && owner.scope === "project" ? [IN_SANDBOX] : []),
    ...(kind === "git" ? [] : [AGENTS]),
  ];
}

const kindField = (personal: boolean): Entry<Values> => ({
  name: "kind",
  label: t`Type`,
  type: "radio",
  options: [
    { value: "env", label: t`Environment variable`, hint: t`Set in the environment of sessions and commands.` },
    { value: "file", label: t`File`, hint: t`Present while a session runs. Git never sees it.` },
    {
      value: "git",
      label: t`Git credential`,
      hint: personal
        ? t`Used to push and open pull requests on one host. It is never sent to another host.`
        : t`Used by the server to fetch from one host. It is never sent to another host.`,
    },
  ],
});

/** What was pasted keeps its line ends. */
const AS_PASTED: Codec<string> = { format: (v) => v, parse: (text) => text, message: "" };

const USER_NAME: Entry<Values> = {
  name: "username",
  label: t`User name`,
  type: "text",
  mono: true,
  hint: t`Leave empty if the host needs only a token.`,
  input: { maxLength: 255, autoComplete: "off" },
};

const IN_SANDBOX: Entry<Values> = {
  name: "in_sandbox",
  label: t`Also give it to sandboxes of this project`,
  type: "boolean",
  hint: t`Agents can then fetch and push with it, and anyone who can type in their sessions could read it.`,
};

const AGENTS: Entry<Values> = {
  name: "agents",
  label: t`Only for`,
  type: "text",
  mono: true,
  placeholder: t`All sessions and commands`,
  hint: t`Agent names separated by commas, such as claude-code, setup. Use commands for commands run through the API.`,
};
