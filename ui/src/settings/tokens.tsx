import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { fieldError } from "@/api/problem";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Check, Field, inputClass, TextField } from "@/kit/field";
import { Once } from "@/kit/once";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { endToken, makeToken, type Scope, type Token } from "@/signin/calls";
import { tokensKey, tokensQuery } from "@/signin/queries";
import { ALL_SCOPES, heldBy, narrowed, SCOPES, scopeWords } from "@/signin/scopes";
import { confirm } from "@/state/confirm";
import { useMe } from "@/state/team";
import { toastError } from "@/state/toasts";

const DAY = 86_400_000;

/** Tokens for scripts: made here, shown once, ended here. */
export default function TokensSettings() {
  const list = useQuery(tokensQuery());
  const [made, setMade] = useState<{ token: Token; value: string } | undefined>();
  return (
    <div className="flex flex-col gap-5">
      <p className="text-fg2">
        A token lets a script act as you:{" "}
        <code className="rounded-sm bg-bg3 px-1">Authorization: Bearer pw_user_…</code>.{" "}
        <a href="/api/docs" target="_blank" rel="noreferrer" className="text-accent underline">
          API documentation
        </a>
      </p>
      {made && <Once title={made.token.name} text={made.value} label="the token" onDone={() => setMade(undefined)} />}
      <NewTokenForm onMade={setMade} />
      {list.isPending ? (
        <Skeleton rows={3} label="Loading your tokens" />
      ) : list.isError && !list.data ? (
        <Failure what="Your tokens could not be loaded." error={list.error} retry={() => void list.refetch()} />
      ) : list.data.length === 0 ? (
        <p className="text-fg3">No tokens yet.</p>
      ) : (
        <ul aria-label="Your tokens" className="divide-y divide-hairline border-y border-hairline">
          {list.data.map((t) => (
            <TokenRow key={t.id} token={t} heirs={heirsOf(t.id, list.data)} />
          ))}
        </ul>
      )}
    </div>
  );
}

function NewTokenForm({ onMade }: { onMade: (made: { token: Token; value: string }) => void }) {
  const { teams } = useMe();
  const client = useQueryClient();
  const [name, setName] = useState("");
  const [days, setDays] = useState("90");
  const [team, setTeam] = useState("");
  const [scopes, setScopes] = useState<Scope[]>(["workspaces:write", "sessions:attach"]);
  const create = useMutation({
    mutationFn: () =>
      makeToken({
        name: name.trim(),
        expires_at: days === "0" ? null : Date.now() + Number(days) * DAY,
        scopes: narrowed(scopes),
        team: team || null,
      }),
    onSuccess: (made) => {
      onMade(made);
      setName("");
      void client.invalidateQueries({ queryKey: tokensKey });
    },
  });
  const nameError = fieldError(create.error, "name");
  return (
    <form
      className="flex flex-col gap-3.5"
      onSubmit={(e) => {
        e.preventDefault();
        create.mutate();
      }}
    >
      <div className="flex flex-wrap items-start gap-3">
        <TextField
          fieldClass="min-w-48 flex-1"
          label="What it is for"
          required
          maxLength={100}
          placeholder="Nightly build"
          value={name}
          error={nameError}
          onChange={(e) => setName(e.target.value)}
        />
        <Field label="Works in" className="w-40">
          {(ids) => (
            <select {...ids} value={team} onChange={(e) => setTeam(e.target.value)} className={inputClass}>
              <option value="">all your teams</option>
              {teams.map((t) => (
                <option key={t.id} value={t.slug}>
                  {t.name} only
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label="Ends" className="w-32">
          {(ids) => (
            <select {...ids} value={days} onChange={(e) => setDays(e.target.value)} className={inputClass}>
              <option value="7">in 7 days</option>
              <option value="30">in 30 days</option>
              <option value="90">in 90 days</option>
              <option value="365">in a year</option>
              <option value="0">never</option>
            </select>
          )}
        </Field>
      </div>
      <fieldset>
        <legend className="mb-1 font-medium">What it may do</legend>
        <div className="grid gap-x-6 sm:grid-cols-2">
          {ALL_SCOPES.map((s) => (
            <Check
              key={s}
              label={SCOPES[s].label}
              hint={SCOPES[s].hint}
              checked={scopes.includes(s) || heldBy(scopes, s)}
              disabled={heldBy(scopes, s)}
              onChange={(e) => setScopes(e.target.checked ? [...scopes, s] : scopes.filter((x) => x !== s))}
            />
          ))}
        </div>
      </fieldset>
      <FormError error={nameError ? null : create.error} />
      <Button
        type="submit"
        look="primary"
        className="self-start"
        disabled={scopes.length === 0}
        busy={create.isPending && "Making"}
      >
        Make a token
      </Button>
    </form>
  );
}

/** How many tokens end with one: those it made, and those they made. */
function heirsOf(id: string, all: Token[]): number {
  const made = all.filter((t) => t.parent?.kind === "token" && t.parent.id === id);
  return made.reduce((sum, t) => sum + 1 + heirsOf(t.id, all), 0);
}

function TokenRow({ token: t, heirs }: { token: Token; heirs: number }) {
  const { teams } = useMe();
  const client = useQueryClient();
  const now = useNow();
  const end = useMutation({
    mutationFn: () => endToken(t.id),
    onSuccess: () => client.invalidateQueries({ queryKey: tokensKey }),
    onError: (error) => toastError("The token was not ended", error),
  });
  const ask = async () => {
    if (
      await confirm({
        title: `End the token ${t.name}?`,
        body:
          heirs > 0
            ? `What uses it stops working at once. ${heirs === 1 ? "A token" : `${heirs} tokens`} made by it ${heirs === 1 ? "ends" : "end"}, too.`
            : "What uses it stops working at once.",
        action: "End it",
        danger: true,
      })
    )
      end.mutate();
  };
  return (
    <li className="flex flex-wrap items-center gap-x-4 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-48">
        <p className="truncate font-medium">{t.name}</p>
        <p className="text-meta break-words text-fg2">
          {scopeWords(t.scopes)}, in{" "}
          {t.team ? (teams.find((x) => x.slug === t.team)?.name ?? t.team) : "all your teams"}
        </p>
        <p className="text-meta break-words text-fg3">
          <span title={exact(t.created_at)}>
            made {ago(t.created_at, now)}
            {t.parent && (t.parent.kind === "token" ? ` by the token ${t.parent.name}` : ` in ${t.parent.name}`)}
          </span>{" "}
          ·{" "}
          {t.last_used_at ? (
            <span title={exact(t.last_used_at)}>
              used {ago(t.last_used_at, now)}
              {t.last_used_ip && ` from ${t.last_used_ip}`}
            </span>
          ) : (
            "never used"
          )}{" "}
          ·{" "}
          {t.expires_at ? (
            t.expires_at < now ? (
              <span className="text-failed">ended</span>
            ) : (
              <span title={exact(t.expires_at)}>
                ends {new Intl.DateTimeFormat(undefined, { dateStyle: "medium" }).format(t.expires_at)}
              </span>
            )
          ) : (
            "never ends"
          )}
        </p>
      </div>
      <Button busy={end.isPending} onClick={() => void ask()} aria-label={`End the token ${t.name}`}>
        End
      </Button>
    </li>
  );
}
