import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { Workspace } from "@/api/client";
import { executorsQuery } from "@/api/queries";
import { Button } from "@/kit/button";
import { Menu, MenuItem, MenuLabel } from "@/kit/menu";
import { placeBody, placeId } from "@/sandboxes/which";
import { confirm } from "@/state/confirm";
import { useStore } from "@/state/store";
import { useTeam } from "@/state/team";
import type { Bulk } from "./bulk";
import type { Item } from "./overview";
import { pin, pinsOf, unpin } from "./pins";
import { markRead } from "./unread";

const NAMED = 8;

/** What is about to be done with which workspaces. */
function Names({ list, children }: { list: readonly Workspace[]; children: ReactNode }) {
  const working = list.filter((w) => w.agents.running > 0).length;
  return (
    <>
      <p>{children}</p>
      {working > 0 && (
        <p className="mt-1">
          <Trans>Something runs in {working} of them now.</Trans>
        </p>
      )}
      <ul className="mt-2 max-h-48 overflow-y-auto text-fg2">
        {list.slice(0, NAMED).map((w) => (
          <li key={w.id} className="truncate">
            {w.name} <span className="font-mono text-micro text-fg3">{w.key}</span>
          </li>
        ))}
        {list.length > NAMED && (
          <li className="text-fg3">
            <Trans>and {list.length - NAMED} more</Trans>
          </li>
        )}
      </ul>
    </>
  );
}

/** Asks once before many workspaces are archived. */
export const confirmArchive = (list: readonly Workspace[]): Promise<boolean> =>
  confirm({
    title: list.length === 1 ? t`Archive ${list[0]!.name}?` : t`Archive ${list.length} workspaces?`,
    body: (
      <Names list={list}>
        <Trans>
          Their sessions are stopped. All work is saved, also uncommitted and untracked files, and Restore brings it
          back.
        </Trans>
      </Names>
    ),
    action: t`Archive`,
  });

interface Props {
  selected: readonly Item[];
  bulk: Bulk;
  onClear: () => void;
}

/** What can be done with the selected workspaces. */
export function BulkBar({ selected, bulk, onClear }: Props) {
  const team = useTeam();
  const pins = useStore(pinsOf(team.slug));
  const places = useQuery(executorsQuery(team.slug));
  const list = selected.map((i) => i.workspace);
  const ids = list.map((w) => w.id);
  const busy = list.some((w) => bulk.busy.has(w.id));
  const edit = team.can("workspace.edit");
  const running = list.filter((w) => w.agents.running > 0);
  const allPinned = ids.every((id) => pins.includes(id));

  const archive = async () => {
    if (await confirmArchive(list)) await bulk.run("archive", list);
  };
  const remove = async () => {
    const yes = await confirm({
      title: list.length === 1 ? t`Delete ${list[0]!.name}?` : t`Delete ${list.length} workspaces?`,
      body: (
        <Names list={list}>
          <Trans>
            Their sessions are stopped, and folders, branches and sandboxes are removed. All work moves to the trash,
            from where Restore brings it back.
          </Trans>
        </Names>
      ),
      action: t`Delete`,
      danger: true,
    });
    if (yes) await bulk.run("delete", list);
  };
  const stop = async () => {
    const yes = await confirm({
      title:
        running.length === 1
          ? t`Stop the agents of ${running[0]!.name}?`
          : t`Stop the agents of ${running.length} workspaces?`,
      body: (
        <Names list={running}>
          <Trans>The agents are asked to exit. Files stay as they are; shells go on.</Trans>
        </Names>
      ),
      action: t`Stop`,
    });
    if (yes) await bulk.run("stop", running);
  };
  const move = async (place: string, name: string) => {
    const { executor, runner_id } = placeBody(place);
    const there = list.filter((w) => placeId({ kind: w.executor, runner_id: w.runner_id }) !== place);
    const yes = await confirm({
      title:
        there.length === 1 ? t`Move ${there[0]!.name} to ${name}?` : t`Move ${there.length} workspaces to ${name}?`,
      body: (
        <Names list={there}>
          <Trans>
            Their agents stop and resume there with their conversations. A move that fails goes back. To see first what
            comes along, move a workspace from its own page.
          </Trans>
        </Names>
      ),
      action: t`Move`,
    });
    if (yes && there.length > 0) await bulk.run("move", there, { to: executor, runner_id });
  };

  const usable = places.data?.filter((p) => p.available && p.allowed) ?? [];
  return (
    <div
      role="toolbar"
      aria-label={t`Selected workspaces`}
      className="sticky bottom-2 z-20 mx-2 flex shrink-0 flex-wrap items-center gap-1.5 rounded-md bg-bg3 px-2 shadow-float py-1.5 md:mx-4"
    >
      <span role="status" className="mr-1 font-medium tabular-nums">
        <Trans>{list.length} selected</Trans>
      </span>
      {team.can("terminal.type") && (
        <Button disabled={busy || running.length === 0} onClick={() => void stop()}>
          <Trans>Stop</Trans>
        </Button>
      )}
      {edit && (
        <>
          <Button disabled={busy} onClick={() => void archive()}>
            <Trans>Archive</Trans>
          </Button>
          <Button disabled={busy} onClick={() => void remove()}>
            <Trans>Delete</Trans>
          </Button>
          {usable.length > 1 && (
            <Menu
              align="start"
              trigger={
                <Button disabled={busy}>
                  <Trans>Move…</Trans>
                </Button>
              }
            >
              <MenuLabel>
                <Trans>Move to</Trans>
              </MenuLabel>
              {usable.map((p) => (
                <MenuItem key={placeId(p)} onSelect={() => void move(placeId(p), p.name)}>
                  {p.name}
                </MenuItem>
              ))}
            </Menu>
          )}
        </>
      )}
      <Button onClick={() => (allPinned ? unpin : pin)(team.slug, ids)}>{allPinned ? t`Unpin` : t`Pin`}</Button>
      <Button onClick={() => markRead(team.slug, list)}>
        <Trans>Mark as read</Trans>
      </Button>
      <Button look="quiet" className="ml-auto" onClick={onClear}>
        <Trans>Clear</Trans>
      </Button>
    </div>
  );
}
