import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { workspacesQuery } from "@/api/queries";
import { useNow } from "@/format/now";
import { clock } from "@/format/time";
import { perform, useAction } from "@/keys/keyboard";
import { Button, buttonClass } from "@/kit/button";
import { Page } from "@/kit/page";
import { Empty, Failure, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";
import { useTitle } from "@/state/use-title";
import type { InboxItem } from "./api";
import { InboxCard } from "./card";
import { ChoosePlan } from "./choose-plan";
import { inboxQuery, KINDS, ORDER, snoozed, waiting, whereOf } from "./inbox";
import { InstanceBudget } from "./instance-budget";
import { SETTLE_MS } from "./question";
import { useMarks } from "./use-marks";

/** Everything that needs the user, to answer in place. The start page on phones; empty: what stands there in a team without workspaces. */
export function InboxScreen({ empty }: { empty: ReactNode }) {
  const team = useTeam();
  const now = useNow();
  const list = useQuery(inboxQuery(team.slug));
  const items = waiting(list.data ?? [], now);
  const later = snoozed(list.data ?? [], now);
  const marks = useMarks(team.slug);
  const { selected, select, held, refOf } = useSelection(items);
  useTitle(t`Inbox`);
  const navigate = useNavigate();
  const open = (i: InboxItem) =>
    void navigate({
      to: "/$team/w/$key",
      params: { team: team.slug, key: i.workspace_key },
      search: whereOf(i),
    });

  const current = items.find((i) => i.id === selected);
  const step = (by: number) => {
    const at = items.findIndex((i) => i.id === selected);
    const next = items[Math.max(0, Math.min(items.length - 1, at + by))];
    if (next) select(next.id, true);
  };
  const any = current !== undefined && !held;
  useAction("inbox.next", () => step(1), any);
  useAction("inbox.previous", () => step(-1), any);
  useAction("inbox.open", () => current && open(current), any);
  useAction("inbox.snooze", () => current && marks.snooze(current, "hour"), any);
  useAction("inbox.tomorrow", () => current && marks.snooze(current, "tomorrow"), any);
  useAction("inbox.done", () => current && marks.finish(current), any);

  return (
    <Page
      title={t`Inbox`}
      actions={
        <Link
          to="/$team/settings/{-$section}"
          params={{ team: team.slug, section: "notifications" }}
          className={buttonClass("quiet")}
        >
          <Trans>Notifications</Trans>
        </Link>
      }
    >
      <p role="status" className="sr-only">
        {list.data ? plural(items.length, { one: "# thing needs you", other: "# things need you" }) : ""}
      </p>
      <ChoosePlan />
      <InstanceBudget />
      {list.isError && list.data && (
        <div role="alert" className="mb-3 flex flex-wrap items-center gap-x-3 gap-y-1 rounded-md bg-bg3 px-3 py-1.5">
          <span>
            <Trans>As of {clock(list.dataUpdatedAt, now)}: the inbox could not be refreshed.</Trans>
          </span>
          <Button onClick={() => void list.refetch()}>
            <Trans>Try again</Trans>
          </Button>
        </div>
      )}
      {list.isPending ? (
        <Skeleton rows={6} label={t`Loading the inbox`} />
      ) : list.isError && !list.data ? (
        <Failure what={t`The inbox could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
      ) : items.length === 0 ? (
        <Nothing empty={empty} />
      ) : (
        ORDER.map((kind) => {
          const of = items.filter((i) => i.kind === kind);
          if (of.length === 0) return null;
          return (
            <section key={kind} aria-labelledby={`inbox-${kind}`} className="mb-5">
              <h2 id={`inbox-${kind}`} className="mb-1 text-meta text-fg3">
                {KINDS[kind].word} <span className="tabular-nums">{of.length}</span>
              </h2>
              <ul className="divide-y divide-hairline border-y border-hairline">
                {of.map((i) => (
                  <li
                    key={i.id}
                    ref={refOf(i.id)}
                    tabIndex={-1}
                    data-keys="question"
                    aria-label={i.workspace_name}
                    // Of hundreds of cards the browser lays out and paints those that are seen; keys, focus and search find all.
                    className="-outline-offset-2 [contain-intrinsic-size:auto_6rem] [content-visibility:auto]"
                  >
                    <InboxCard
                      item={i}
                      now={now}
                      selected={i.id === selected}
                      keys={i.id === selected && !held}
                      onSelect={() => select(i.id)}
                      marks={marks}
                      onOpen={() => open(i)}
                    />
                  </li>
                ))}
              </ul>
            </section>
          );
        })
      )}
      {later.length > 0 && (
        <details className="mt-4">
          <summary className="min-h-6 cursor-pointer text-meta text-fg2 pointer-coarse:min-h-11">
            <Trans>Snoozed {later.length}</Trans>
          </summary>
          <ul className="mt-1 divide-y divide-hairline border-y border-hairline">
            {later.map((i) => (
              <li key={i.id} className="flex min-h-11 flex-wrap items-center gap-x-4 gap-y-1 px-2 py-1">
                <span className="min-w-0 flex-1 basis-52">
                  <span className="block truncate">{i.workspace_name}</span>
                  <span className="block truncate text-meta text-fg3">
                    <Trans>
                      {KINDS[i.kind].word}, back {clock(i.snoozed_until ?? now, now)}
                    </Trans>
                  </span>
                </span>
                <Button onClick={() => marks.reopen(i)} aria-label={t`Unsnooze ${i.workspace_name}`}>
                  <Trans>Unsnooze</Trans>
                </Button>
              </li>
            ))}
          </ul>
        </details>
      )}
    </Page>
  );
}

/** The empty inbox: shows the agents that are working; in a team without workspaces, what such a team begins with. */
function Nothing({ empty }: { empty: ReactNode }) {
  const team = useTeam();
  const workspaces = useQuery(workspacesQuery(team.slug));
  if (workspaces.data?.length === 0 && team.can("workspace.create")) return empty;
  const running = (workspaces.data ?? []).reduce((n, w) => n + w.agents.running, 0);
  return (
    <Empty
      title={t`Nothing needs you.`}
      action={
        <>
          {team.can("workspace.create") && (
            <Button look="primary" keys="c" onClick={() => perform("workspace.new")}>
              <Trans>New workspace</Trans>
            </Button>
          )}
          <Link to="/$team/w" params={{ team: team.slug }} className={buttonClass("plain")}>
            <Trans>Go to workspaces</Trans>
          </Link>
        </>
      }
    >
      {workspaces.data &&
        (running > 0 ? t`${plural(running, { one: "# agent", other: "# agents" })} running.` : t`No agent is running.`)}
    </Empty>
  );
}

/**
 * The item that keys act on. When it leaves the list, the next one takes its place and ignores keys for a moment:
 * a second key press was meant for the item that left.
 */
function useSelection(items: readonly InboxItem[]) {
  const [selected, setSelected] = useState("");
  const [held, setHeld] = useState(false);
  const at = useRef(0);
  const rows = useRef(new Map<string, HTMLLIElement>());
  const index = items.findIndex((i) => i.id === selected);
  useEffect(() => {
    if (index >= 0) {
      at.current = index;
      return;
    }
    if (selected) setHeld(true);
    setSelected(items[Math.min(at.current, items.length - 1)]?.id ?? "");
  }, [index, items, selected]);
  useEffect(() => {
    if (!held) return;
    const t = setTimeout(() => setHeld(false), SETTLE_MS);
    return () => clearTimeout(t);
  }, [held]);
  const select = (id: string, focus = false) => {
    setSelected(id);
    const row = rows.current.get(id);
    if (!focus || !row) return;
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  };
  const refOf = (id: string) => (row: HTMLLIElement | null) => {
    if (row) rows.current.set(id, row);
    else rows.current.delete(id);
  };
  return { selected, select, held, refOf };
}
