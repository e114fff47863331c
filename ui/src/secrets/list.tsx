import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, data } from "@/api/client";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Mark } from "@/kit/mark";
import { Empty, Failure, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { useTeam } from "@/state/team";
import { SecretForm } from "./form";
import { type Owner, type Secret, secretsQuery, useRefreshSecrets } from "./queries";
import { about } from "./words";

interface Props {
  owner: Owner;
  /** Whether this person may change them. */
  manage: boolean;
  empty: string;
}

/** Secrets of one owner, with their actions. */
export function SecretList({ owner, manage, empty }: Props) {
  const secrets = useQuery(secretsQuery(owner));
  const [adding, setAdding] = useState(false);
  if (secrets.isPending) return <Skeleton rows={3} label={t`Loading the secrets`} />;
  if (!secrets.data)
    return (
      <Failure what={t`The secrets could not be loaded.`} error={secrets.error} retry={() => void secrets.refetch()} />
    );
  return (
    <div className="flex flex-col gap-3">
      {secrets.data.length > 0 ? (
        <ul aria-label={t`Secrets`} className="divide-y divide-hairline border-y border-hairline">
          {secrets.data.map((s) => (
            <Row key={s.id} owner={owner} secret={s} manage={manage} />
          ))}
        </ul>
      ) : (
        !adding && <Empty title={t`No secrets yet`}>{empty}</Empty>
      )}
      {manage && !adding && (
        <Button className="self-start" onClick={() => setAdding(true)}>
          <Trans>Add a secret</Trans>
        </Button>
      )}
      {adding && <SecretForm owner={owner} onSaved={() => setAdding(false)} onCancel={() => setAdding(false)} />}
    </div>
  );
}

function Row({ owner, secret: s, manage }: { owner: Owner; secret: Secret; manage: boolean }) {
  const refresh = useRefreshSecrets();
  const now = useNow();
  const [editing, setEditing] = useState(false);
  const remove = useAction({
    act: () => data(api.DELETE("/secrets/{id}", { params: { path: { id: s.id } } })),
    confirm: {
      title: t`Delete ${s.name}?`,
      body: t`${s.sessions === 0 ? t`No running session uses it.` : t`Running sessions keep their value.`} Its value is deleted and cannot be restored.`,
      action: t`Delete`,
      danger: true,
    },
    done: refresh,
    failed: t`${s.name} was not deleted`,
  });
  return (
    <li className="py-2">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <div className="min-w-0 flex-1 basis-56">
          <p className="flex flex-wrap items-baseline gap-x-2">
            <span className={s.kind === "env" ? "font-mono text-code break-all" : "break-words"}>{s.name}</span>
            {s.outdated.length > 0 && <Mark kind="needs" word={t`Old value in use`} className="text-meta" />}
          </p>
          <p className="text-meta break-words text-fg3">{about(s)}</p>
          <p className="text-meta text-fg3">
            <span title={exact(s.rotated_at ?? s.created_at)}>
              {s.rotated_at ? t`Replaced ${ago(s.rotated_at, now)}` : t`Added ${ago(s.created_at, now)}`}
            </span>
            {" · "}
            {s.last_used_at ? t`last used ${ago(s.last_used_at, now)}` : t`not used yet`}
          </p>
        </div>
        {manage && (
          <div className="flex flex-wrap gap-1">
            <Button look="quiet" aria-expanded={editing} onClick={() => setEditing((e) => !e)}>
              {editing ? t`Close` : t`Change`}
              <span className="sr-only"> {s.name}</span>
            </Button>
            <Button look="quiet" busy={remove.busy && t`Deleting`} onClick={() => void remove.run()}>
              <Trans>Delete</Trans>
              <span className="sr-only"> {s.name}</span>
            </Button>
          </div>
        )}
      </div>
      {s.outdated.length > 0 && <Outdated secret={s} />}
      {editing && (
        <div className="mt-2">
          <SecretForm owner={owner} secret={s} onSaved={() => setEditing(false)} onCancel={() => setEditing(false)} />
        </div>
      )}
    </li>
  );
}

/** Sessions still using the old value. A person's own secrets may be used in another team, which cannot be linked from here. */
function Outdated({ secret: s }: { secret: Secret }) {
  const team = useTeam();
  return (
    <div className="mt-1 text-meta text-fg2">
      <p>
        <Trans>These sessions still use an old value. Restart them to give them the new one:</Trans>
      </p>
      <ul className="flex flex-wrap gap-x-3">
        {s.outdated.map((o) => (
          <li key={o.session_id}>
            <Link
              to="/$team/w/$key"
              params={{ team: team.slug, key: o.workspace_key }}
              className="underline underline-offset-2"
            >
              {o.workspace_key} {o.workspace_name} ({o.agent})
            </Link>
          </li>
        ))}
      </ul>
    </div>
  );
}
