import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Suspense } from "react";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { buttonClass } from "@/kit/button";
import { Kbd } from "@/kit/kbd";
import { Mark } from "@/kit/mark";
import { Page } from "@/kit/page";
import { lazy } from "@/kit/part";
import { Empty, Failure, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";
import { useTitle } from "@/state/use-title";
import { type Machine, machineListQuery } from "./api";
import { Danger } from "./danger";
import { Tokens } from "./tokens";
import { loadWords, machineStands, modeWords, sortMachines, systemWords } from "./words";

const ConnectDialog = lazy(() => import("./connect-dialog"));

const route = getRouteApi("/$team/machines");

/** Members' own machines as places to work. */
export function MachinesScreen() {
  useTitle(t`Machines`);
  const team = useTeam();
  const { connect } = route.useSearch();
  const navigate = route.useNavigate();
  const list = useQuery(machineListQuery(team.slug));
  const enabled = list.data?.enabled ?? false;
  const may = team.can("workspace.create") && enabled;
  const button = may && (
    <Link
      to="/$team/machines"
      params={{ team: team.slug }}
      search={{ connect: true }}
      className={buttonClass("primary")}
    >
      <Trans>Connect a machine</Trans>
      <Kbd keys="o m" onFill />
    </Link>
  );
  return (
    <Page
      title={t`Machines`}
      about={t`Your own computers as places to work. Each connects to this server, and its owner decides on it what may run.`}
      actions={list.data && list.data.items.length > 0 && button}
    >
      {list.isPending ? (
        <Skeleton rows={5} label={t`Loading the machines`} />
      ) : list.isError && !list.data ? (
        <Failure what={t`The machines could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
      ) : list.data.items.length === 0 && !enabled ? (
        <Empty title={t`Machines are disabled on this server`}>
          <Trans>
            An operator can let members connect their own machines: <code>sandboxing.runner.enabled</code> in{" "}
            <code>config.json</code>.
          </Trans>
        </Empty>
      ) : list.data.items.length === 0 ? (
        <Empty title={t`No machine connected yet`} action={button}>
          <Trans>
            One command makes your computer a place for workspaces, with its files, hardware and network. Its firewall
            needs no open port.
          </Trans>
        </Empty>
      ) : (
        sortMachines(list.data.items).map((g) => (
          <section key={g.title} aria-label={g.title} className="mb-5">
            <h2 className="mb-1 text-meta text-fg3">
              {g.title} <span className="tabular-nums">{g.items.length}</span>
            </h2>
            <ul className="divide-y divide-hairline border-y border-hairline">
              {g.items.map((m) => (
                <Row key={m.id} machine={m} />
              ))}
            </ul>
          </section>
        ))
      )}
      {may && <Tokens />}
      {connect && may && (
        <Suspense>
          <ConnectDialog onClose={() => void navigate({ search: {} })} />
        </Suspense>
      )}
    </Page>
  );
}

function Row({ machine: m }: { machine: Machine }) {
  const team = useTeam();
  const now = useNow();
  const s = machineStands(m, now);
  const online = m.state === "online";
  return (
    <li>
      <Link
        to="/$team/machines/$machine"
        params={{ team: team.slug, machine: m.id }}
        className="grid min-h-11 grid-cols-1 gap-x-4 gap-y-1 px-2 py-2 -outline-offset-2 hover:bg-bg2 md:grid-cols-[minmax(0,1fr)_minmax(0,15rem)_minmax(0,13rem)]"
      >
        <span className="min-w-0">
          <span className="flex flex-wrap items-baseline gap-x-2">
            <span className="min-w-0 font-medium break-words">{m.name}</span>
            {m.dangerous && <Danger />}
            {!m.mine && <span className="text-meta text-fg3">{m.user_name}</span>}
            {m.questions.length > 0 && (
              <span className="text-meta text-needs">
                <span aria-hidden>◆ </span>
                <Trans>
                  {plural(m.questions.length, { one: "# question", other: "# questions" })} waiting for approval at the
                  machine
                </Trans>
              </span>
            )}
          </span>
          <span className="block text-meta break-words text-fg3">
            {[modeWords(m), systemWords(m), m.hostname !== m.name && m.hostname].filter(Boolean).join(" · ")}
          </span>
        </span>
        <span className="min-w-0">
          <Mark kind={s.mark} word={s.word} className="whitespace-normal" />
          {s.text && <span className="block text-meta break-words text-fg3">{s.text}</span>}
          {online && !s.text && <span className="block text-meta text-fg3 tabular-nums">{loadWords(m)}</span>}
        </span>
        <span className="min-w-0 text-meta text-fg3 md:text-right">
          <span className="block">
            {m.workspaces.length > 0
              ? plural(m.workspaces.length, { one: "# workspace", other: "# workspaces" })
              : t`no workspaces`}
          </span>
          <span className="block break-words">
            {m.version && <Trans>version {m.version}</Trans>}
            {m.version && !m.latest && (
              <span className="text-needs">
                <Trans>, update available</Trans>
              </span>
            )}
            {!online && m.seen_at !== null && (
              <span title={exact(m.seen_at)}>
                <Trans>, seen {ago(m.seen_at, now)}</Trans>
              </span>
            )}
          </span>
        </span>
      </Link>
    </li>
  );
}
