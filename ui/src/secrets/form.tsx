import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "@/api/client";
import { fieldError } from "@/api/problem";
import { Button } from "@/kit/button";
import { Check, Choice, TextArea, TextField } from "@/kit/field";
import { FormError } from "@/kit/states";
import { type Kind, type Owner, type Secret, useRefreshSecrets } from "./queries";
import { agentsOf } from "./words";

interface Props {
  owner: Owner;
  /** The one to change; none: a new one. */
  secret?: Secret;
  onSaved: () => void;
  onCancel: () => void;
}

const FIELDS = ["name", "value", "target", "username", "agents", "kind", "in_sandbox"];

/** Adds a secret, or changes one. A value that is kept is never shown: an empty field leaves it as it is. */
export function SecretForm({ owner, secret, onSaved, onCancel }: Props) {
  const refresh = useRefreshSecrets();
  const [kind, setKind] = useState<Kind>(secret?.kind ?? "env");
  const [name, setName] = useState(secret?.name ?? "");
  const [value, setValue] = useState("");
  const [target, setTarget] = useState(secret?.target ?? "");
  const [username, setUsername] = useState(secret?.username ?? "");
  const [inside, setInside] = useState(secret?.kind === "git" && secret.in_sandbox);
  const [agents, setAgents] = useState(secret?.agents.join(", ") ?? "");
  const moved = kind === "git" && secret !== undefined && target.trim() !== secret.target;
  const save = useMutation({
    mutationFn: () => {
      const body = {
        name: name.trim() || target.trim(),
        ...(kind === "env" ? {} : { target: target.trim() }),
        ...(kind === "git" ? { username: username.trim(), in_sandbox: inside } : { agents: agentsOf(agents) }),
      };
      // What was pasted keeps its line ends; a variable or a token loses those around it, which nobody means.
      const text = kind === "file" ? value : value.trim();
      if (secret) {
        return data(
          api.PATCH("/secrets/{id}", {
            params: { path: { id: secret.id } },
            body: { ...body, ...(text ? { value: text } : {}) },
          }),
        );
      }
      const made = { kind, value: text, ...body };
      return owner.scope === "personal"
        ? data(api.POST("/me/secrets", { body: made }))
        : data(
            api.POST("/teams/{team}/secrets", {
              params: { path: { team: owner.team } },
              body: owner.scope === "project" ? { ...made, project_id: owner.project } : made,
            }),
          );
    },
    onSuccess: async () => {
      setValue("");
      await refresh();
      onSaved();
    },
  });
  const error = (field: string) => fieldError(save.error, field);
  const keep = secret
    ? moved
      ? "Enter it again: it would be sent to another host."
      : "Empty keeps the one that is kept. Sessions that run keep theirs until they end."
    : undefined;
  const needed = !secret || moved;

  return (
    <form
      aria-label={secret ? `Change ${secret.name}` : "New secret"}
      className="flex flex-col gap-3 rounded-md border border-hairline bg-bg2 p-3"
      onSubmit={(e) => {
        e.preventDefault();
        save.mutate();
      }}
    >
      {!secret && (
        <Choice<Kind>
          name="secret-kind"
          legend="What is it?"
          value={kind}
          onChange={(k) => {
            setKind(k);
            save.reset();
          }}
          options={[
            { value: "env", label: "A variable", hint: "Sessions and commands get it in their environment." },
            { value: "file", label: "A file", hint: "It is there while a session runs, and git never sees it." },
            {
              value: "git",
              label: "A git credential",
              hint:
                owner.scope === "personal"
                  ? "You push and open pull requests with it on one host. It is sent to no other."
                  : "The server fetches with it from one host. It is sent to no other.",
            },
          ]}
        />
      )}
      <div className="grid gap-3 sm:grid-cols-2">
        <TextField
          label="Name"
          mono={kind === "env"}
          required={kind === "env"}
          value={name}
          maxLength={100}
          autoComplete="off"
          spellCheck={false}
          error={error("name") ?? error("kind")}
          placeholder={kind === "env" ? "NPM_TOKEN" : kind === "file" ? "Settings" : "GitHub"}
          onChange={(e) => setName(e.target.value)}
        />
        {kind === "file" && (
          <TextField
            label="Path"
            mono
            required
            value={target}
            maxLength={255}
            spellCheck={false}
            error={error("target")}
            placeholder={owner.scope === "personal" ? "~/.npmrc" : ".env"}
            hint={
              owner.scope === "personal"
                ? "Below the home of your sessions (~/)."
                : "In the worktree, or below the home (~/)."
            }
            onChange={(e) => setTarget(e.target.value)}
          />
        )}
        {kind === "git" && (
          <TextField
            label="Host"
            mono
            required
            value={target}
            maxLength={255}
            spellCheck={false}
            error={error("target")}
            placeholder="github.com"
            onChange={(e) => setTarget(e.target.value)}
          />
        )}
        {kind === "git" && (
          <TextField
            label="User name"
            mono
            value={username}
            maxLength={255}
            autoComplete="off"
            spellCheck={false}
            error={error("username")}
            hint="Empty where the host asks for a token alone."
            onChange={(e) => setUsername(e.target.value)}
          />
        )}
        {kind === "git" && (
          <TextField
            label="Token"
            type="password"
            mono
            required={needed}
            value={value}
            autoComplete="off"
            spellCheck={false}
            error={error("value")}
            placeholder={secret?.last_four ? `…${secret.last_four}` : ""}
            hint={keep}
            onChange={(e) => setValue(e.target.value)}
          />
        )}
        {kind === "env" && (
          <TextField
            label="Value"
            type="password"
            mono
            required={needed}
            value={value}
            autoComplete="off"
            spellCheck={false}
            error={error("value")}
            placeholder={secret?.last_four ? `…${secret.last_four}` : ""}
            hint={keep}
            onChange={(e) => setValue(e.target.value)}
          />
        )}
      </div>
      {kind === "file" && (
        <TextArea
          label="Content"
          mono
          rows={6}
          required={needed}
          value={value}
          autoComplete="off"
          spellCheck={false}
          error={error("value")}
          hint={keep}
          onChange={(e) => setValue(e.target.value)}
        />
      )}
      {kind === "git" && owner.scope === "project" && (
        <Check
          label="Sandboxes of this project get it too"
          hint="Agents can then fetch and push with it, and whoever can type in their sessions could read it."
          checked={inside}
          onChange={(e) => setInside(e.target.checked)}
        />
      )}
      {kind !== "git" && (
        <TextField
          label="Only for"
          mono
          value={agents}
          spellCheck={false}
          error={error("agents")}
          placeholder="Every session and command"
          hint="Names of agents by commas, such as claude-code, setup; commands are those the API runs."
          onChange={(e) => setAgents(e.target.value)}
        />
      )}
      <FormError error={save.error && !FIELDS.some(error) ? save.error : null} />
      <div className="flex flex-wrap gap-2">
        <Button type="submit" look="primary" busy={save.isPending && "Saving"}>
          {secret ? "Save" : "Add"}
        </Button>
        <Button look="quiet" onClick={onCancel}>
          Cancel
        </Button>
      </div>
    </form>
  );
}
