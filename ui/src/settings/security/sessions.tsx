import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNow } from "@/format/now";
import { visible } from "@/format/text";
import { ago, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Check } from "@/kit/field";
import { Mark } from "@/kit/mark";
import { Failure, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { locale } from "@/language/locale";
import { endLoginSession, endOtherLoginSessions, type LoginSession, type Provider } from "@/signin/calls";
import { loginSessionsKey, loginSessionsQuery, tokensKey, tokensQuery } from "@/signin/queries";
import { factorWords } from "@/signin/words";
import { confirm } from "@/state/confirm";
import { toast } from "@/state/toasts";
import { Part } from "./part";

/** Every browser one is signed in with. */
export function LoginSessions({ providers }: { providers: Provider[] }) {
  const client = useQueryClient();
  const list = useQuery(loginSessionsQuery());
  const tokens = useQuery(tokensQuery()).data ?? [];
  const others = useAction({
    act: endOtherLoginSessions,
    done: (_, kept) => {
      const all = tokens.length > 0 && !kept ? t`All other sign-ins and your API tokens` : t`All other sign-ins`;
      toast({ kind: "good", title: t`${all} were ended` });
    },
    refresh: [loginSessionsKey, tokensKey],
    failed: t`The other sign-ins were not ended`,
  });
  const ask = async () => {
    const own = await client.ensureQueryData(tokensQuery()).catch(() => tokens);
    const keep = await asksToKeep({
      title: t`End all other sign-ins?`,
      body: t`Their pages and terminals close immediately. This browser stays signed in.`,
      action: t`End them`,
      tokens: own.length,
    });
    if (keep !== undefined) void others.run(keep);
  };
  return (
    <Part title={t`Where you are signed in`} about={t`If you do not recognize one, end it, then change your password.`}>
      {list.isPending ? (
        <Skeleton rows={3} label={t`Loading your sign-ins`} />
      ) : !list.data ? (
        <Failure what={t`Your sign-ins could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
      ) : (
        <>
          <ul aria-label={t`Your sign-ins`} className="divide-y divide-hairline border-y border-hairline">
            {list.data.map((s) => (
              <Row
                key={s.id}
                session={s}
                providers={providers}
                tokens={tokens.filter((t) => t.parent?.kind === "session" && t.parent.id === s.id).length}
              />
            ))}
          </ul>
          {list.data.length > 1 && (
            <Button className="mt-3" busy={others.busy && t`Ending`} onClick={() => void ask()}>
              <Trans>End all others</Trans>
            </Button>
          )}
        </>
      )}
    </Part>
  );
}

interface RowProps {
  session: LoginSession;
  providers: Provider[];
  /** How many API tokens were made in it. */
  tokens: number;
}

/** Asks before sign-ins end, and whether API tokens stay; undefined when nothing is to end. */
async function asksToKeep(q: {
  title: string;
  body: string;
  action: string;
  tokens: number;
}): Promise<boolean | undefined> {
  let keep = false;
  const yes = await confirm({
    ...q,
    body: (
      <>
        <p>{q.body}</p>
        {q.tokens > 0 && (
          <Check
            className="mt-2 text-fg"
            label={q.tokens === 1 ? t`Keep the API token` : t`Keep the ${q.tokens} API tokens`}
            hint={t`Otherwise ${q.tokens === 1 ? t`it ends` : t`they end`}, too, and scripts with ${q.tokens === 1 ? t`it` : t`them`} stop working.`}
            onChange={(e) => {
              keep = e.target.checked;
            }}
          />
        )}
      </>
    ),
    danger: true,
  });
  return yes ? keep : undefined;
}

function Row({ session: s, providers, tokens }: RowProps) {
  const now = useNow();
  const end = useAction({
    act: (keep: boolean) => endLoginSession(s.id, keep),
    refresh: [tokensKey, loginSessionsKey],
    failed: t`The sign-in was not ended`,
  });
  const browser = visible(s.browser) || t`Unknown browser`;
  const ask = async () => {
    if (tokens === 0) return end.run(false);
    const keep = await asksToKeep({
      title: t`End the sign-in of ${browser}?`,
      body: tokens === 1 ? t`An API token was made in it.` : t`${tokens} API tokens were made in it.`,
      action: t`End it`,
      tokens,
    });
    if (keep !== undefined) void end.run(keep);
  };
  const by = factorWords(s.factors, (id) => providers.find((p) => p.id === id)?.name ?? id, s.provider ?? "");
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-48">
        <p className="flex flex-wrap items-baseline gap-x-2">
          <span className="font-medium break-words" title={visible(s.user_agent)}>
            {browser}
          </span>
          {s.current && <Mark kind="running" word={t`This one`} className="text-meta" />}
        </p>
        <p className="text-meta break-words text-fg3">
          <Trans>
            {s.ip} · by {by} <span title={exact(s.created_at)}>{ago(s.created_at, now)}</span> ·{" "}
            {s.current ? (
              t`in use`
            ) : (
              <span title={exact(s.seen_at)}>
                <Trans>seen {ago(s.seen_at, now)}</Trans>
              </span>
            )}{" "}
            ·{" "}
            <span title={exact(s.expires_at)}>
              ends {new Intl.DateTimeFormat(locale(), { dateStyle: "medium" }).format(s.expires_at)}
            </span>
          </Trans>
        </p>
      </div>
      {!s.current && (
        <Button busy={end.busy} onClick={() => void ask()} aria-label={t`End the sign-in of ${browser} at ${s.ip}`}>
          <Trans>End</Trans>
        </Button>
      )}
    </li>
  );
}
