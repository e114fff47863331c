import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { api, type Schemas } from "@/api/client";
import { useNow } from "@/format/now";
import { plural } from "@/format/text";
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
    onError: (error) => toastError("The link was not revoked", error),
  });
  const name = l.name || "Unnamed";
  return (
    <li className="flex flex-wrap items-center gap-x-4 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-48">
        <p className="font-medium break-words">{name}</p>
        <p className="text-meta text-fg3">
          {children}by {l.created_by.name} · <Standing link={l} now={now} /> ·{" "}
          {l.last_used_at ? (
            <span title={exact(l.last_used_at)}>
              opened {plural(l.uses, "time")}, last {ago(l.last_used_at, now)}
            </span>
          ) : (
            "never opened"
          )}
        </p>
      </div>
      {l.watching > 0 && <span className="text-running">{l.watching} watching</span>}
      {l.state === "open" && (
        <Button
          busy={revoke.isPending && "Revoking"}
          onClick={() => revoke.mutate()}
          aria-label={`Revoke the link: ${name}`}
        >
          Revoke
        </Button>
      )}
    </li>
  );
}

function Standing({ link: l, now }: { link: Schemas["WatchLink"]; now: number }) {
  if (l.state === "revoked") return <span>ended {l.revoked_at ? ago(l.revoked_at, now) : ""}</span>;
  if (l.state === "expired" || l.expires_at <= now) return <span>expired {ago(l.expires_at, now)}</span>;
  return <span title={exact(l.expires_at)}>ends in {duration(l.expires_at - now)}</span>;
}
