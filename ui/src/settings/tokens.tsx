import { t as tr } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
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
import { locale } from "@/language/locale";
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
        <Trans>
          A token lets a script act as you:{" "}
          <code className="rounded-sm bg-bg3 px-1">Authorization: Bearer pw_user_…</code>.{" "}
          <a href="/api/docs" target="_blank" rel="noreferrer" className="text-accent underline">
            API documentation
          </a>
        </Trans>
      </p>
      {made && (
        <Once title={made.token.name} text={made.value} label={tr`the token`} onDone={() => setMade(undefined)} />
      )}
      <NewTokenForm onMade={setMade} />
      {list.isPending ? (
        <Skeleton rows={3} label={tr`Loading your tokens`} />
      ) : list.isError && !list.data ? (
        <Failure what={tr`Your tokens could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
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
        <p className="text-fg3">
          <Trans>No tokens yet.</Trans>
        </p>
      ) : (
        <ul aria-label={tr`Your tokens`} className="divide-y divide-hairline border-y border-hairline">
          {tokens.map((t) => (
            <TokenRow key={t.id} token={t} heirs={heirsOf(t.id, all)} />
          ))}
        </ul>
      )}
      {apps.length > 0 && (
        <section>
          <h3 className="mb-1 font-medium">
            <Trans>Connected applications</Trans>
          </h3>
          <p className="mb-2 text-fg2">
            <Trans>
              You allowed these to act as you. An application that is not used for 30 days has to ask again.
            </Trans>
          </p>
          <ul aria-label={tr`Connected applications`} className="divide-y divide-hairline border-y border-hairline">
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
              label: tr`Name`,
              type: "text",
              placeholder: tr`Nightly build`,
              className: "min-w-48 flex-1",
              input: { required: true, maxLength: 100 },
            },
            {
              name: "team",
              label: tr`Team`,
              type: "choice",
              className: "w-40",
              options: [
                { value: "", label: tr`all your teams` },
                ...teams.map((t) => ({ value: t.slug, label: tr`${t.name} only` })),
              ],
            },
            { name: "days", label: tr`Expires`, type: "choice", className: "w-32", options: ENDS },
          ],
        },
        {
          name: "scopes",
          label: tr`What it may do`,
          type: "custom",
          check: (scopes) => (scopes.length === 0 ? tr`Choose at least one.` : undefined),
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
      button={tr`Create token`}
      busy={tr`Creating`}
    />
  );
}

const NEW = { name: "", team: "", days: "90", scopes: ["workspaces:write", "sessions:attach"] as Scope[] };

const ENDS = [
  { value: "7", label: tr`in 7 days` },
  { value: "30", label: tr`in 30 days` },
  { value: "90", label: tr`in 90 days` },
  { value: "365", label: tr`in a year` },
  { value: "0", label: tr`never` },
];

function Scopes({ scopes, onChange }: { scopes: Scope[]; onChange: (scopes: Scope[]) => void }) {
  return (
    <fieldset>
      <legend className="mb-1 font-medium">
        <Trans>What it may do</Trans>
      </legend>
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
      title: app ? tr`Revoke the access of ${t.name}?` : tr`Revoke the token ${t.name}?`,
      body:
        heirs > 0
          ? tr`Everything that uses it stops working immediately. ${heirs === 1 ? tr`A token` : tr`${heirs} tokens`} made by it ${heirs === 1 ? tr`ends` : tr`end`}, too.`
          : tr`Everything that uses it stops working immediately.`,
      action: tr`Revoke`,
      danger: true,
    },
    refresh: [tokensKey],
    failed: app ? tr`The access was not revoked` : tr`The token was not revoked`,
  });
  return (
    <li className="flex flex-wrap items-center gap-x-4 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-48">
        <p className="truncate font-medium">{t.name}</p>
        <p className="text-meta break-words text-fg2">
          <Trans>
            {scopeWords(t.scopes)}, in{" "}
            {t.team ? (teams.find((x) => x.slug === t.team)?.name ?? t.team) : tr`all your teams`}
          </Trans>
        </p>
        <p className="text-meta break-words text-fg3">
          <span title={exact(t.created_at)}>
            {app ? tr`connected` : tr`made`} {ago(t.created_at, now)}
            {t.parent && (t.parent.kind === "token" ? tr` by the token ${t.parent.name}` : tr` in ${t.parent.name}`)}
          </span>{" "}
          ·{" "}
          {t.last_used_at ? (
            <span title={exact(t.last_used_at)}>
              <Trans>used {ago(t.last_used_at, now)}</Trans>
              {t.last_used_ip && tr` from ${t.last_used_ip}`}
            </span>
          ) : (
            tr`never used`
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
        aria-label={app ? tr`Revoke the access of ${t.name}` : tr`Revoke the token ${t.name}`}
      >
        <Trans>Revoke</Trans>
      </Button>
    </li>
  );
}

function Expiry({ at, now }: { at: number | null; now: number }) {
  if (!at) return tr`never ends`;
  if (at < now)
    return (
      <span className="text-failed">
        <Trans>ended</Trans>
      </span>
    );
  return (
    <span title={exact(at)}>
      <Trans>ends {new Intl.DateTimeFormat(locale(), { dateStyle: "medium" }).format(at)}</Trans>
    </span>
  );
}
