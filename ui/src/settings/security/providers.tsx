import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { getRouteApi } from "@tanstack/react-router";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { useAction } from "@/kit/use-action";
import { type Identity, linkProvider, type OwnWays, type Provider, unlinkProvider, type Ways } from "@/signin/calls";
import { ownWaysKey } from "@/signin/queries";
import { refusal } from "@/signin/refusals";
import { Part } from "./part";

const route = getRouteApi("/$team/settings/{-$section}");

/** Accounts elsewhere that sign one in here. */
export function Providers({ own, ways }: { own: OwnWays; ways: Ways }) {
  const { error, provider } = route.useSearch();
  if (ways.providers.length === 0 && own.identities.length === 0) return null;
  const open = ways.providers.filter((p) => !own.identities.some((i) => i.provider === p.id));
  return (
    <Part title={t`Linked accounts`} about={t`Sign in with these without a password for this server.`}>
      {error && (
        <p role="alert" className="mb-3 rounded-md border border-failed px-3 py-2 text-failed">
          {refusal(error, ways.providers.find((p) => p.id === provider)?.name)}
        </p>
      )}
      {own.identities.length > 0 && (
        <ul aria-label={t`Linked accounts`} className="mb-3 divide-y divide-hairline border-y border-hairline">
          {own.identities.map((i) => (
            <Row key={i.id} identity={i} provider={ways.providers.find((p) => p.id === i.provider)} />
          ))}
        </ul>
      )}
      <div className="flex flex-wrap gap-2">
        {open.map((p) => (
          <Link key={p.id} provider={p} />
        ))}
      </div>
    </Part>
  );
}

function Link({ provider: p }: { provider: Provider }) {
  const link = useAction({
    act: () => linkProvider(p.id, location.pathname),
    done: (url) => location.assign(url),
    failed: t`${p.name} was not linked`,
  });
  return (
    <Button busy={link.busy && t`Going to ${p.name}`} onClick={() => void link.run()}>
      <Trans>Link {p.name}</Trans>
    </Button>
  );
}

function Row({ identity: i, provider: p }: { identity: Identity; provider: Provider | undefined }) {
  const now = useNow();
  const name = p?.name ?? i.provider;
  const unlink = useAction({
    act: () => unlinkProvider(i.id),
    confirm: {
      title: t`Unlink ${name}?`,
      body: t`You can no longer sign in here with ${i.email || i.name || t`it`}.`,
      action: t`Unlink`,
      danger: true,
    },
    refresh: [ownWaysKey],
    failed: t`${name} is still linked`,
  });
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-48">
        <p className="truncate font-medium">
          {name}
          {!p && (
            <span className="font-normal text-fg3">
              {" "}
              <Trans>(disabled on this server)</Trans>
            </span>
          )}
        </p>
        <p className="text-meta break-words text-fg3">
          {i.email || i.name} ·{" "}
          <span title={exact(i.created_at)}>
            <Trans>linked {ago(i.created_at, now)}</Trans>
          </span>
          {i.last_used_at ? (
            <span title={exact(i.last_used_at)}>
              {" "}
              <Trans>· used {ago(i.last_used_at, now)}</Trans>
            </span>
          ) : null}
        </p>
      </div>
      <Button busy={unlink.busy} onClick={() => void unlink.run()} aria-label={t`Unlink ${name}`}>
        <Trans>Unlink</Trans>
      </Button>
    </li>
  );
}
