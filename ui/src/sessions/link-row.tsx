import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { api, type Schemas } from "@/api/client";
import { useNow } from "@/format/now";
import { ago, duration, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { toastError } from "@/state/toasts";

/** A share link of a session: name, expiry, current viewers, and a revoke button. */
export function LinkRow({ link: l, children }: { link: Schemas["WatchLink"]; children?: ReactNode }) {
  const client = useQueryClient();
  const now = useNow(10_000);
  const revoke = useMutation({
    mutationFn: () => api.DELETE("/watch-links/{id}", { params: { path: { id: l.id } } }),
    onSuccess: () => client.invalidateQueries({ queryKey: ["links"] }),
    onError: (error) => toastError(t`The link was not revoked`, error),
  });
  const name = l.name || t`Unnamed`;
  return (
    <li className="flex flex-wrap items-center gap-x-4 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-48">
        <p className="font-medium break-words">{name}</p>
        <p className="text-meta text-fg3">
          {children}
          <Trans>
            by {l.created_by.name} · <Standing link={l} now={now} /> ·
          </Trans>{" "}
          {l.last_used_at ? (
            <span title={exact(l.last_used_at)}>
              <Trans>
                opened {plural(l.uses, { one: "# time", other: "# times" })}, last {ago(l.last_used_at, now)}
              </Trans>
            </span>
          ) : (
            t`never opened`
          )}
        </p>
      </div>
      {l.watching > 0 && (
        <span className="text-running">
          <Trans>{l.watching} watching</Trans>
        </span>
      )}
      {l.state === "open" && (
        <Button
          busy={revoke.isPending && t`Revoking`}
          onClick={() => revoke.mutate()}
          aria-label={t`Revoke the link: ${name}`}
        >
          <Trans>Revoke</Trans>
        </Button>
      )}
    </li>
  );
}

function Standing({ link: l, now }: { link: Schemas["WatchLink"]; now: number }) {
  if (l.state === "revoked")
    return (
      <span>
        <Trans>ended {l.revoked_at ? ago(l.revoked_at, now) : ""}</Trans>
      </span>
    );
  if (l.state === "expired" || l.expires_at <= now)
    return (
      <span>
        <Trans>expired {ago(l.expires_at, now)}</Trans>
      </span>
    );
  return (
    <span title={exact(l.expires_at)}>
      <Trans>ends in {duration(l.expires_at - now)}</Trans>
    </span>
  );
}
