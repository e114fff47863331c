import { plural, t as tr } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useNow } from "@/format/now";
import { ago, clock, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { useAction } from "@/kit/use-action";
import { useTeam } from "@/state/team";
import { endToken, machineKeys, type OpenToken, openTokensQuery } from "./api";

/** Tokens that can still connect machines. Nothing where there is none. */
export function Tokens() {
  const team = useTeam();
  const list = useQuery(openTokensQuery(team.slug));
  const now = useNow();
  const open = (list.data ?? []).filter((t) => t.expires_at === null || t.expires_at > now);
  if (open.length === 0) return null;
  return (
    <section aria-labelledby="tokens" className="mt-8">
      <h2 id="tokens" className="mb-1 text-title font-semibold">
        <Trans>Connection tokens</Trans>
      </h2>
      <ul className="divide-y divide-hairline border-y border-hairline">
        {open.map((t) => (
          <Row key={t.id} token={t} now={now} />
        ))}
      </ul>
    </section>
  );
}

function Row({ token: t, now }: { token: OpenToken; now: number }) {
  const team = useTeam();
  const name = t.name || tr`Unnamed`;
  const end = useAction({
    act: () => endToken(t.id),
    confirm: {
      title: tr`Revoke the token ${name}?`,
      body: tr`It cannot connect any more machines. Connected machines stay connected.`,
      action: tr`Revoke`,
      danger: true,
    },
    refresh: [machineKeys.tokens(team.slug)],
    failed: tr`The token was not revoked`,
  });
  return (
    <li className="flex flex-wrap items-center gap-x-4 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-48">
        <p className="font-medium break-words">{name}</p>
        <p className="text-meta text-fg3">
          {[t.reusable ? tr`connects many machines` : tr`connects one machine`, t.user_name].filter(Boolean).join(", ")}{" "}
          ·{" "}
          <span title={exact(t.created_at)}>
            <Trans>created {ago(t.created_at, now)}</Trans>
          </span>
          {t.uses > 0 && tr` · used ${plural(t.uses, { one: "# time", other: "# times" })}`} ·{" "}
          {t.expires_at ? tr`ends ${clock(t.expires_at, now)}` : tr`until it is revoked`}
        </p>
      </div>
      {(t.mine || team.can("team.manage")) && (
        <Button
          busy={end.busy && tr`Revoking`}
          onClick={() => void end.run()}
          aria-label={tr`Revoke the token ${name}`}
        >
          <Trans>Revoke</Trans>
        </Button>
      )}
    </li>
  );
}
