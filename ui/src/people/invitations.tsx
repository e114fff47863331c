import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useRouter } from "@tanstack/react-router";
import { api, data } from "@/api/client";
import { keys } from "@/api/queries";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Failure } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { locale } from "@/language/locale";
import { type MyInvite, myInvitesQuery, peopleKeys } from "./api";
import { asRole } from "./words";

/** The teams that invite the signed-in user, each to join or to decline; nothing where there are none. */
export function Invitations({ heading: Heading = "h2" }: { heading?: "h2" | "h3" }) {
  const list = useQuery(myInvitesQuery());
  if (list.isError && !list.data)
    return (
      <Failure what={t`Your invitations could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
    );
  if (!list.data || list.data.items.length === 0) return null;
  return (
    <section aria-labelledby="invitations">
      <Heading id="invitations" className="mb-2 text-title font-semibold">
        <Trans>Invitations</Trans>
      </Heading>
      <ul aria-label={t`Invitations`} className="divide-y divide-hairline border-y border-hairline">
        {list.data.items.map((i) => (
          <Row key={i.id} invite={i} />
        ))}
      </ul>
    </section>
  );
}

function Row({ invite: i }: { invite: MyInvite }) {
  const client = useQueryClient();
  const router = useRouter();
  const navigate = useNavigate();
  const now = useNow();
  const path = { params: { path: { id: i.id } } };
  const accept = useAction({
    act: () => data(api.POST("/me/invites/{id}/accept", path)),
    done: async (me) => {
      client.setQueryData(keys.me, me);
      await router.invalidate();
      await navigate({ to: "/$team", params: { team: i.team.slug } });
    },
    refresh: [peopleKeys.mine],
    failed: t`You have not joined ${i.team.name}`,
  });
  const decline = useAction({
    act: () => api.POST("/me/invites/{id}/decline", path),
    confirm: {
      title: t`Decline the invitation to ${i.team.name}?`,
      body: t`The invitation becomes invalid. The team can invite you again.`,
      action: t`Decline`,
      danger: true,
    },
    done: t`You declined to join ${i.team.name}`,
    refresh: [peopleKeys.mine],
    failed: t`The invitation was not declined`,
  });
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-48">
        <p className="break-words">
          <span className="font-medium">{i.team.name}</span>, {asRole(i.role)}
        </p>
        <p className="text-meta break-words text-fg3">
          <span title={exact(i.created_at)}>
            {i.inviter ? t`${i.inviter} invited you` : t`Invited`} {ago(i.created_at, now)}
          </span>{" "}
          ·{" "}
          <span title={exact(i.expires_at)}>
            <Trans>expires {new Intl.DateTimeFormat(locale(), { dateStyle: "medium" }).format(i.expires_at)}</Trans>
          </span>
        </p>
      </div>
      <Button
        look="primary"
        busy={accept.busy && t`Joining`}
        onClick={() => void accept.run()}
        aria-label={t`Join ${i.team.name}`}
      >
        <Trans>Join</Trans>
      </Button>
      <Button busy={decline.busy} onClick={() => void decline.run()} aria-label={t`Decline to join ${i.team.name}`}>
        <Trans>Decline</Trans>
      </Button>
    </li>
  );
}
