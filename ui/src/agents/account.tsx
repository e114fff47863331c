import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { fieldError } from "@/api/problem";
import { keys } from "@/api/queries";
import { useTeam } from "@/app/team";
import { Button } from "@/kit/button";
import { Check, Choice, TextField } from "@/kit/field";
import { FormError } from "@/kit/states";

type Account = Schemas["AgentAccount"];
type Kind = Account["kind"];

/** Which account an agent uses, in words. */
export function accountWords(a: Account): string {
  switch (a.kind) {
    case "api_key":
      return `Your API key${a.last_four ? ` ending in ${a.last_four}` : ""}${a.base_url ? ` at ${a.base_url}` : ""}`;
    case "terminal":
      return "You log in inside the terminal";
    case "existing_login":
      return "The login of the server's own user";
  }
}

interface Props {
  agent: string;
  name: string;
  current: Account | undefined;
  /** Whether this person may use the server user's own login. */
  existingLogin: boolean;
  onSaved: () => void;
}

/** Chooses the account an agent works with for this person. */
export function AccountForm({ agent, name, current, existingLogin, onSaved }: Props) {
  const team = useTeam();
  const client = useQueryClient();
  const [kind, setKind] = useState<Kind>(current?.kind ?? "api_key");
  const [key, setKey] = useState("");
  const [baseUrl, setBaseUrl] = useState(current?.base_url ?? "");
  const [consent, setConsent] = useState(false);
  const save = useMutation({
    mutationFn: () =>
      data(
        api.PUT("/me/agent-accounts/{agent}", {
          params: { path: { agent } },
          body: {
            kind,
            ...(kind === "api_key"
              ? { api_key: key.trim(), ...(baseUrl.trim() ? { base_url: baseUrl.trim() } : {}) }
              : {}),
            ...(kind === "existing_login" ? { consent } : {}),
          },
        }),
      ),
    onSuccess: async () => {
      setKey("");
      await Promise.all([
        client.invalidateQueries({ queryKey: keys.agents(team.slug) }),
        client.invalidateQueries({ queryKey: keys.accounts }),
      ]);
      onSaved();
    },
  });
  const ready = kind === "api_key" ? key.trim() !== "" : kind === "existing_login" ? consent : true;
  const keyError = fieldError(save.error, "api_key");
  const urlError = fieldError(save.error, "base_url");

  // Not a form of its own: it stands inside others, and forms do not nest.
  return (
    <div
      role="group"
      aria-label={`Account of ${name}`}
      className="flex flex-col gap-3 rounded-md border border-hairline bg-bg2 p-3"
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
      <Choice<Kind>
        name={`account-${agent}`}
        legend={`Which account should ${name} use for you?`}
        value={kind}
        onChange={setKind}
        options={[
          {
            value: "api_key",
            label: "An API key",
            hint: "Kept encrypted; given to your sessions only and never shown again.",
          },
          {
            value: "terminal",
            label: "Log in inside the terminal",
            hint: `${name} asks when it starts. The login stays in your own home on the server.`,
          },
          {
            value: "existing_login",
            label: "Use my existing login",
            hint: existingLogin
              ? "The login of the user this server runs as, copied read only."
              : "For operators of this server only.",
            disabled: !existingLogin,
          },
        ]}
      />
      {kind === "api_key" && (
        <div className="grid gap-3 sm:grid-cols-2">
          <TextField
            label="API key"
            type="password"
            mono
            autoComplete="off"
            spellCheck={false}
            value={key}
            error={keyError}
            placeholder={current?.kind === "api_key" && current.last_four ? `…${current.last_four}` : ""}
            onChange={(e) => setKey(e.target.value)}
          />
          <TextField
            label="Address of the API"
            type="url"
            mono
            value={baseUrl}
            error={urlError}
            placeholder="The usual one"
            onChange={(e) => setBaseUrl(e.target.value)}
          />
        </div>
      )}
      {kind === "existing_login" && (
        <Check
          label="I agree that Parawork copies this login"
          hint={`It reads the credentials ${name} keeps in the home of the server's own user and gives a copy to your sessions. The originals are never changed. Whoever can type in your sessions could use the copy.`}
          checked={consent}
          onChange={(e) => setConsent(e.target.checked)}
        />
      )}
      <FormError error={save.error && !keyError && !urlError ? save.error : null} />
      <Button className="self-start" disabled={!ready} busy={save.isPending && "Saving"} onClick={() => save.mutate()}>
        Use this account
      </Button>
    </div>
  );
}
