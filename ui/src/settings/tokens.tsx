import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Check } from "@/kit/field";
import { Once } from "@/kit/once";
import { SettingsForm } from "@/kit/settings/form";
import { Failure, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { endToken, makeToken, type Scope, type Token } from "@/signin/calls";
import { tokensKey, tokensQuery } from "@/signin/queries";
import { ALL_SCOPES, heldBy, narrowed, SCOPES, scopeWords } from "@/signin/scopes";
import { useMe } from "@/state/team";

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
      ) : (
        <Lists all={list.data} />
      )}
    </div>
  );
}

function Lists({ all }: { all: Token[] }) {
  const apps = all.filter((t) => t.client_id);
  const tokens = all.filter((t) => !t.client_id);
  return (
    <>
      {tokens.length === 0 ? (
        <p className="text-fg3">No tokens yet.</p>
      ) : (
        <ul aria-label="Your tokens" className="divide-y divide-hairline border-y border-hairline">
          {tokens.map((t) => (
            <TokenRow key={t.id} token={t} heirs={heirsOf(t.id, all)} />
          ))}
        </ul>
      )}
      {apps.length > 0 && (
        <section>
          <h3 className="mb-1 font-medium">Connected applications</h3>
          <p className="mb-2 text-fg2">
            You allowed these to act as you. An application that is not used for 30 days has to ask again.
          </p>
          <ul aria-label="Connected applications" className="divide-y divide-hairline border-y border-hairline">
            {apps.map((t) => (
              <TokenRow key={t.id} token={t} heirs={0} />
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

function NewTokenForm({ onMade }: { onMade: (made: { token: Token; value: string }) => void }) {
  const { teams } = useMe();
  return (
    <SettingsForm
      className="gap-3.5"
      create
      preserve={["days", "team", "scopes"]}
      loaded={NEW}
      fields={[
        {
          className: "flex flex-wrap items-start gap-3",
          fields: [
            {
              name: "name",
              label: "Name",
              type: "text",
              placeholder: "Nightly build",
              className: "min-w-48 flex-1",
              input: { required: true, maxLength: 100 },
            },
            {
              name: "team",
              label: "Team",
              type: "choice",
              className: "w-40",
              options: [
                { value: "", label: "all your teams" },
                ...teams.map((t) => ({ value: t.slug, label: `${t.name} only` })),
              ],
            },
            { name: "days", label: "Expires", type: "choice", className: "w-32", options: ENDS },
          ],
        },
        {
          name: "scopes",
          label: "What it may do",
          type: "custom",
          check: (scopes) => (scopes.length === 0 ? "Choose at least one." : undefined),
          render: ({ value, set }) => <Scopes scopes={value} onChange={set} />,
        },
      ]}
      save={(_, t) =>
        makeToken({
          name: t.name,
          expires_at: t.days === "0" ? null : Date.now() + Number(t.days) * DAY,
          scopes: narrowed(t.scopes),
          team: t.team || null,
        })
      }
      refresh={[tokensKey]}
      onSaved={onMade}
      button="Create token"
      busy="Creating"
    />
  );
}

const NEW = { name: "", team: "", days: "90", scopes: ["workspaces:write", "sessions:attach"] as Scope[] };

const ENDS = [
  { value: "7", label: "in 7 days" },
  { value: "30", label: "in 30 days" },
  { value: "90", label: "in 90 days" },
  { value: "365", label: "in a year" },
  { value: "0", label: "never" },
];

function Scopes({ scopes, onChange }: { scopes: Scope[]; onChange: (scopes: Scope[]) => void }) {
  return (
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
            onChange={(e) => onChange(e.target.checked ? [...scopes, s] : scopes.filter((x) => x !== s))}
          />
        ))}
      </div>
    </fieldset>
  );
}

/** How many tokens end with one: those it made, and those they made. */
function heirsOf(id: string, all: Token[]): number {
  const made = all.filter((t) => t.parent?.kind === "token" && t.parent.id === id);
  return made.reduce((sum, t) => sum + 1 + heirsOf(t.id, all), 0);
}

function TokenRow({ token: t, heirs }: { token: Token; heirs: number }) {
  const { teams } = useMe();
  const now = useNow();
  const app = t.client_id !== null;
  const end = useAction({
    act: () => endToken(t.id),
    confirm: {
      title: app ? `Revoke the access of ${t.name}?` : `Revoke the token ${t.name}?`,
      body:
        heirs > 0
          ? `Everything that uses it stops working immediately. ${heirs === 1 ? "A token" : `${heirs} tokens`} made by it ${heirs === 1 ? "ends" : "end"}, too.`
          : "Everything that uses it stops working immediately.",
      action: "Revoke",
      danger: true,
    },
    refresh: [tokensKey],
    failed: app ? "The access was not revoked" : "The token was not revoked",
  });
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
            {app ? "connected" : "made"} {ago(t.created_at, now)}
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
          )}
          {!app && (
            <>
              {" "}
              · <Expiry at={t.expires_at} now={now} />
            </>
          )}
        </p>
      </div>
      <Button
        busy={end.busy}
        onClick={() => void end.run()}
        aria-label={app ? `Revoke the access of ${t.name}` : `Revoke the token ${t.name}`}
      >
        Revoke
      </Button>
    </li>
  );
}

function Expiry({ at, now }: { at: number | null; now: number }) {
  if (!at) return "never ends";
  if (at < now) return <span className="text-failed">ended</span>;
  return <span title={exact(at)}>ends {new Intl.DateTimeFormat(undefined, { dateStyle: "medium" }).format(at)}</span>;
}
