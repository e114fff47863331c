import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useNow } from "@/format/now";
import { visible } from "@/format/text";
import { ago } from "@/format/time";
import { Button, IconButton } from "@/kit/button";
import { cx } from "@/kit/cx";
import { Icon } from "@/kit/icon";
import { Empty, Failure, Skeleton } from "@/kit/states";
import { useMe, useTeam } from "@/state/team";
import { toastError } from "@/state/toasts";
import { markNotices, type Notice, noticesQuery } from "./api";

/** What a notice is about, in a word. */
function word(kind: Notice["kind"]): string {
  switch (kind) {
    case "question":
      return t`Question`;
    case "failed":
      return t`Failed`;
    case "stuck":
      return t`Stuck`;
    case "finished":
      return t`Finished`;
    case "review":
      return t`Review`;
    case "budget":
      return t`Budget`;
    case "checks":
      return t`Checks`;
    case "comment":
      return t`Comment`;
    case "machine":
      return t`Machine`;
  }
}

/** Shown at first; the rest on demand. */
const FIRST = 30;

/** What happened for the person, newest first. */
export default function NoticesPanel({ onClose }: { onClose: () => void }) {
  const client = useQueryClient();
  const list = useQuery(noticesQuery());
  const now = useNow(30_000);
  const [most, setMost] = useState(FIRST);
  const mark = useMutation({
    mutationFn: ({ ids, read }: { ids?: string[]; read?: boolean }) => markNotices(ids, read),
    onSettled: () => client.invalidateQueries({ queryKey: ["notices"] }),
    onError: (error) => toastError(t`The notifications were not marked`, error),
  });
  const items = list.data?.items ?? [];
  const total = items.length;
  return (
    <>
      <header className="flex items-center gap-2 border-b border-hairline px-3 py-2">
        <h2 className="flex-1 font-semibold">
          <Trans>Notifications</Trans>
        </h2>
        <Button disabled={!list.data?.unread} onClick={() => mark.mutate({})}>
          <Trans>Mark all as read</Trans>
        </Button>
      </header>
      <div className="min-h-0 flex-1 overflow-y-auto">
        {list.isPending && <Skeleton label={t`Loading notifications`} />}
        {list.error && (
          <Failure
            what={t`The notifications could not be loaded`}
            error={list.error}
            retry={() => void list.refetch()}
          />
        )}
        {list.data && items.length === 0 && (
          <Empty title={t`Nothing yet`}>
            <Trans>Questions, failures, ends and limits of your work are listed here.</Trans>
          </Empty>
        )}
        <ul>
          {items.slice(0, most).map((n) => (
            <Row
              key={n.id}
              notice={n}
              now={now}
              onOpen={() => {
                if (!n.read) mark.mutate({ ids: [n.id] });
                onClose();
              }}
              onMark={() => mark.mutate({ ids: [n.id], read: !n.read })}
            />
          ))}
        </ul>
        {items.length > most && (
          <div className="p-3">
            <Button onClick={() => setMost(items.length)}>
              <Trans>Show all {total}</Trans>
            </Button>
          </div>
        )}
      </div>
    </>
  );
}

interface RowProps {
  notice: Notice;
  now: number;
  onOpen: () => void;
  onMark: () => void;
}

function Row({ notice: n, now, onOpen, onMark }: RowProps) {
  const me = useMe();
  const team = useTeam();
  const elsewhere = n.team !== team.slug ? me.teams.find((t) => t.slug === n.team)?.name : undefined;
  const body = (
    <>
      <span className={cx("block break-words", n.read ? "text-fg2" : "font-medium text-fg")}>{visible(n.text)}</span>
      <span className="block text-meta text-fg3">
        {[word(n.kind), n.workspace_key && `${n.workspace_key} ${visible(n.workspace_name)}`, elsewhere, ago(n.at, now)]
          .filter(Boolean)
          .join(" · ")}
      </span>
    </>
  );
  const look = "min-w-0 flex-1 px-3 py-2 -outline-offset-2";
  return (
    <li className="flex items-start border-b border-hairline last:border-0 hover:bg-bg2">
      {n.workspace_key ? (
        <Link
          to="/$team/w/$key"
          params={{ team: n.team, key: n.workspace_key }}
          search={n.session_id ? { session: n.session_id } : {}}
          onClick={onOpen}
          className={look}
        >
          {body}
        </Link>
      ) : (
        <Link
          to={n.kind === "machine" ? "/$team/machines" : "/$team/usage"}
          params={{ team: n.team }}
          onClick={onOpen}
          className={look}
        >
          {body}
        </Link>
      )}
      <IconButton label={n.read ? t`Mark as unread` : t`Mark as read`} onClick={onMark}>
        <Icon name={n.read ? "refresh" : "check"} size={14} />
      </IconButton>
    </li>
  );
}
