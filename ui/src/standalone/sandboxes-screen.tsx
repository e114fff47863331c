import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Suspense, useState } from "react";
import { api } from "@/api/client";
import { executorsQuery, membersQuery } from "@/api/queries";
import { usd } from "@/format/money";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Mark } from "@/kit/mark";
import { Page } from "@/kit/page";
import { lazy } from "@/kit/part";
import { CopyLine, Empty, Failure, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { useMe, useTeam } from "@/state/team";
import { useTitle } from "@/state/use-title";
import { sandboxesKey, sandboxesQuery } from "./queries";
import { endOf, nameOf, purposeOf, type Sandbox, stateOf, totals } from "./words";

const CreateDialog = lazy(() => import("./create-dialog"));
const OpenDialog = lazy(() => import("./open-dialog"));

/** The user's sandboxes without a repository: what scripts and people made, and what each costs. */
export function SandboxesScreen() {
  useTitle(t`Sandboxes`);
  const team = useTeam();
  const list = useQuery(sandboxesQuery(team.slug));
  const places = useQuery(executorsQuery(team.slug));
  const [creating, setCreating] = useState(false);
  const [opened, setOpened] = useState("");
  const placeOf = (kind: string) => places.data?.find((p) => p.kind === kind)?.name ?? kind;
  const create = team.can("workspace.create") && (
    <Button look="primary" onClick={() => setCreating(true)}>
      <Trans>Create a sandbox</Trans>
    </Button>
  );
  const shown = list.data?.find((s) => s.id === opened);
  return (
    <Page
      title={t`Sandboxes`}
      about={t`Sandboxes without a repository: places to run commands, code and programs. They end when nobody uses them.`}
      actions={list.data && list.data.length > 0 && create}
    >
      {list.isPending ? (
        <Skeleton rows={5} label={t`Loading the sandboxes`} />
      ) : list.isError && !list.data ? (
        <Failure what={t`The sandboxes could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
      ) : list.data.length === 0 ? (
        <Empty title={t`No sandbox yet`} action={create}>
          <p>
            <Trans>A script makes one with an API token, which Settings has under API tokens:</Trans>
          </p>
          <div className="mt-2 text-left">
            <CopyLine
              label={t`the command`}
              text={`curl -X POST ${location.origin}/api/v1/teams/${team.slug}/sandboxes -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" -d '{"key": "my-first", "purpose": "execution"}'`}
            />
          </div>
        </Empty>
      ) : (
        <>
          <Totals all={list.data} placeOf={placeOf} />
          <ul aria-label={t`Sandboxes`} className="divide-y divide-hairline border-y border-hairline">
            {list.data.map((s) => (
              <Row key={s.id} sandbox={s} place={placeOf(s.executor)} onOpen={() => setOpened(s.id)} />
            ))}
          </ul>
        </>
      )}
      <Suspense>
        {creating && <CreateDialog onClose={() => setCreating(false)} />}
        {shown && <OpenDialog sandbox={shown} onClose={() => setOpened("")} />}
      </Suspense>
    </Page>
  );
}

function Totals({ all, placeOf }: { all: Sandbox[]; placeOf: (kind: string) => string }) {
  return (
    <ul aria-label={t`Totals`} className="mb-4 flex flex-wrap gap-x-6 gap-y-1 text-fg2">
      {totals(all).map((t) => (
        <li key={t.purpose + t.place}>
          {purposeOf(t.purpose)} · {placeOf(t.place)}:{" "}
          <span className="text-fg tabular-nums">
            {t.count}
            {t.cost !== undefined && `, ${usd(t.cost)}`}
          </span>
        </li>
      ))}
    </ul>
  );
}

/** How much longer the button lets a sandbox live. */
const EXTENSION = 3600;

function Row({ sandbox: s, place, onOpen }: { sandbox: Sandbox; place: string; onOpen: () => void }) {
  const team = useTeam();
  const me = useMe();
  const now = useNow();
  const mine = s.user_id === me.user.id;
  const members = useQuery({ ...membersQuery(team.slug), enabled: !mine });
  const owner = members.data?.find((m) => m.user.id === s.user_id)?.user.name ?? t`another member`;
  const may = team.can("workspace.edit");
  const refresh = [sandboxesKey(team.slug)];
  const name = nameOf(s);
  const extend = useAction({
    act: () => api.POST("/sandboxes/{id}/extend", { params: { path: { id: s.id } }, body: { seconds: EXTENSION } }),
    refresh,
    done: t`The sandbox lives at least another hour`,
    failed: t`The sandbox was not extended`,
  });
  const end = useAction({
    act: () => api.DELETE("/sandboxes/{id}", { params: { path: { id: s.id } } }),
    confirm: {
      title: t`End ${name}?`,
      body: t`All its files, programs and variables are lost, and its ports close. This cannot be undone.`,
      action: t`End it`,
      danger: true,
    },
    refresh,
    failed: t`The sandbox was not ended`,
  });
  const state = stateOf(s.state);
  return (
    <li className="flex flex-wrap items-center gap-x-4 gap-y-2 px-2 py-2">
      <div className="min-w-0 flex-1 basis-64">
        <p className="flex flex-wrap items-baseline gap-x-3">
          <span className="min-w-0 font-medium break-all">{name}</span>
          <Mark kind={state.mark} word={state.word} />
          {!mine && (
            <span className="text-meta text-fg3">
              <Trans>of {owner}</Trans>
            </span>
          )}
        </p>
        {s.state_reason && s.state !== "running" && <p className="text-meta break-words text-fg3">{s.state_reason}</p>}
        <p className="text-meta break-words text-fg3">
          {purposeOf(s.purpose)} · {place}
          {s.image && ` · ${s.image}`} ·{" "}
          <span title={exact(s.created_at)}>
            <Trans>made {ago(s.created_at, now)}</Trans>
          </span>{" "}
          · <span title={exact(s.ends_at)}>{endOf(s, now)}</span>
          {s.cost_nano !== undefined && s.cost_nano > 0 && ` · ${usd(s.cost_nano)}`}
        </p>
      </div>
      <div className="flex flex-wrap gap-2">
        {mine && (
          <Button onClick={onOpen} aria-label={t`Open ${name}`}>
            <Trans>Open</Trans>
          </Button>
        )}
        {may && (
          <>
            <Button
              busy={extend.busy && t`Extending`}
              onClick={() => void extend.run()}
              aria-label={t`Extend ${name} by an hour`}
              title={t`It lives at least ${plural(EXTENSION / 3600, { one: "# hour", other: "# hours" })} from now`}
            >
              <Trans>Extend</Trans>
            </Button>
            <Button
              look="danger"
              busy={end.busy && t`Ending`}
              onClick={() => void end.run()}
              aria-label={t`End ${name}`}
            >
              <Trans>End…</Trans>
            </Button>
          </>
        )}
      </div>
    </li>
  );
}
