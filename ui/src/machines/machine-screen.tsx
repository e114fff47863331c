import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { ApiError } from "@/api/problem";
import { useNow } from "@/format/now";
import { plain, sentence, visible } from "@/format/text";
import { ago, exact } from "@/format/time";
import { buttonClass } from "@/kit/button";
import { Icon } from "@/kit/icon";
import { Mark } from "@/kit/mark";
import { NotFound } from "@/kit/pages";
import { Failure, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";
import { useTitle } from "@/state/use-title";
import { MachineActs } from "./acts";
import { type Machine, machineQuery } from "./api";
import { DANGER, Danger } from "./danger";
import { History } from "./history";
import { Load } from "./load";
import { Questions } from "./questions";
import { ACCESS, machineStands, modeWords, networkWords, ownerLimits, systemWords } from "./words";

const route = getRouteApi("/$team/machines/$machine");

/** One machine: how it is, what its owner decided, what runs on it, when it came and went. */
export function MachineScreen() {
  const { machine: id } = route.useParams();
  const machine = useQuery(machineQuery(id));
  useTitle(machine.data?.name ?? t`Machine`);
  const missing = machine.error instanceof ApiError && machine.error.status === 404;
  if (missing) return <NotFound />;
  if (machine.isPending) return <Skeleton rows={6} label={t`Loading the machine`} />;
  if (!machine.data)
    return (
      <Failure
        className="m-4"
        what={t`The machine could not be loaded.`}
        error={machine.error}
        retry={() => void machine.refetch()}
      />
    );
  return <Open key={machine.data.id} machine={machine.data} />;
}

function Open({ machine: m }: { machine: Machine }) {
  const team = useTeam();
  const now = useNow();
  const s = machineStands(m, now);
  return (
    <div className="h-full overflow-y-auto">
      <div className="mx-auto flex max-w-page flex-col gap-7 px-4 py-5 md:px-6">
        <header>
          <Link to="/$team/machines" params={{ team: team.slug }} className={buttonClass("quiet", "mb-1 -ml-2.5")}>
            <Icon name="arrowLeft" size={14} />
            <Trans>Machines</Trans>
          </Link>
          <div className="flex flex-wrap items-start gap-x-4 gap-y-2">
            <div className="min-w-0 flex-1 basis-72">
              <div className="flex flex-wrap items-baseline gap-x-3 gap-y-1">
                <h1 className="min-w-0 text-page font-semibold break-words">{m.name}</h1>
                {m.dangerous && <Danger />}
                <span role="status">
                  <Mark kind={s.mark} word={s.word} />
                </span>
              </div>
              <p className="break-words text-fg2">
                {[s.text && sentence(s.text), m.mine ? t`Yours.` : `${m.user_name}'s.`].filter(Boolean).join(" ")}
              </p>
            </div>
            <MachineActs machine={m} />
          </div>
          {m.dangerous && <Note kind="failed">{DANGER}</Note>}
          {m.state === "online" && !m.available && (
            <Note kind="needs">{plain([sentence(m.reason), sentence(m.hint)].filter(Boolean).join(" "))}</Note>
          )}
          {m.warning && <Note kind="needs">{sentence(m.warning)}</Note>}
          {m.update_hint && !m.latest && m.state !== "revoked" && (
            <Note kind="plain">
              <Trans>
                {sentence(m.update_hint)} Machines do not update automatically. Run <code>parawork runner update</code>{" "}
                there.
              </Trans>
            </Note>
          )}
        </header>
        <Questions machine={m} />
        {m.state === "online" && <Load machine={m} />}
        <Section id="about-machine" title={t`The machine`}>
          <Facts>
            <Fact label={t`Agents run in`}>{modeWords(m)}</Fact>
            <Fact label={t`System`}>{systemWords(m)}</Fact>
            <Fact label={t`Host name`}>{m.hostname && visible(m.hostname)}</Fact>
            <Fact label={t`Hardware`}>
              {m.cpus > 0 &&
                t`${plural(m.cpus, { one: "# core", other: "# cores" })}, ${Math.round(m.memory_mb / 1024)} GB of memory`}
            </Fact>
            <Fact label={t`Isolation`}>{m.isolation && sentence(m.isolation)}</Fact>
            <Fact label={t`Program`}>{m.version && t`version ${m.version}`}</Fact>
            <Fact label={t`Connected`}>
              <span title={exact(m.created_at)}>
                <Trans>first {ago(m.created_at, now)}</Trans>
              </span>
              {m.state === "online" && m.connected_at !== null && (
                <span title={exact(m.connected_at)}>
                  <Trans>, last {ago(m.connected_at, now)}</Trans>
                </span>
              )}
            </Fact>
            <Fact label={t`Last seen`}>
              {m.seen_at !== null && <span title={exact(m.seen_at)}>{ago(m.seen_at, now)}</span>}
            </Fact>
          </Facts>
        </Section>
        <Section
          id="owner-decides"
          title={t`Owner's settings`}
          about={t`These settings are in a file on the machine. This server cannot change them.`}
        >
          <Facts>
            <Fact label={t`Access`} more={m.access && ACCESS[m.access].means}>
              {m.access && ACCESS[m.access].name}
            </Fact>
            <Fact label={t`Shared with`}>
              {m.share === "team" ? t`everyone in the team` : m.share && t`owner only`}
            </Fact>
            <Fact label={t`Network access`}>{m.network && networkWords(m.network)}</Fact>
            <Fact label={t`Limits`}>{ownerLimits(m.limits)}</Fact>
            <Fact label={t`Quiet hours`}>{m.quiet_hours || t`none`}</Fact>
          </Facts>
          {m.may_use && <Folders machine={m} />}
        </Section>
        <Workspaces machine={m} />
        <History machine={m} />
      </div>
    </div>
  );
}

const NOTES = {
  failed: ["border-failed", "▲", "text-failed"],
  needs: ["border-needs", "◆", "text-needs"],
  plain: ["border-hairline", "○", "text-fg3"],
} as const;

function Note({ kind, children }: { kind: keyof typeof NOTES; children: ReactNode }) {
  const [border, sign, color] = NOTES[kind];
  return (
    <p className={`mt-2 rounded-md border px-3 py-2 break-words ${border}`}>
      <span aria-hidden className={color}>
        {sign}{" "}
      </span>
      {children}
    </p>
  );
}

function Section({ id, title, about, children }: { id: string; title: string; about?: string; children: ReactNode }) {
  return (
    <section aria-labelledby={id}>
      <h2 id={id} className="mb-1 text-title font-semibold">
        {title}
      </h2>
      {about && <p className="mb-2 text-fg2">{about}</p>}
      {children}
    </section>
  );
}

function Facts({ children }: { children: ReactNode }) {
  return <dl className="grid grid-cols-1 gap-x-6 gap-y-3 sm:grid-cols-2 lg:grid-cols-4">{children}</dl>;
}

/** A fact that is known; one that is not takes no room. */
function Fact({ label, more, children }: { label: string; more?: ReactNode; children: ReactNode }) {
  if (!children) return null;
  return (
    <div className="min-w-0">
      <dt className="text-meta text-fg3">{label}</dt>
      <dd className="break-words">
        {children}
        {more && <span className="block text-meta text-fg3">{more}</span>}
      </dd>
    </div>
  );
}

function Folders({ machine: m }: { machine: Machine }) {
  const { folders } = m;
  return (
    <div className="mt-4">
      <h3 className="mb-1 text-meta text-fg3">
        <Trans>Allowed folders</Trans>
      </h3>
      {folders.length === 0 ? (
        <p className="text-fg2">
          <Trans>
            No workspaces. Workspaces get their own folders there. The owner can allow a folder with{" "}
            <code>--folder</code> or in the file.
          </Trans>
        </p>
      ) : (
        <ul className="divide-y divide-hairline border-y border-hairline">
          {folders.map((f) => (
            <li key={f.path} className="flex flex-wrap items-baseline gap-x-3 py-1.5">
              <Icon name={f.git ? "git" : "folder"} size={14} className="translate-y-0.5 self-start text-fg3" />
              <span className="min-w-0 flex-1 font-mono text-code break-all">{visible(f.path)}</span>
              <span className="text-meta text-fg3">
                {[
                  f.git ? `git${f.branch ? `, ${visible(f.branch)}` : ""}` : t`no repository`,
                  ACCESS[f.access].name,
                ].join(" · ")}
              </span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function Workspaces({ machine: m }: { machine: Machine }) {
  const team = useTeam();
  return (
    <Section id="machine-workspaces" title={t`Workspaces`}>
      {m.workspaces.length === 0 ? (
        <p className="text-fg2">
          <Trans>
            No workspaces. {m.may_use ? t`Choose this machine as the place of a new workspace, or move one to it.` : ""}
          </Trans>
        </p>
      ) : (
        <ul className="divide-y divide-hairline border-y border-hairline">
          {m.workspaces.map((w) => (
            <li key={w.id} className="flex min-h-8 items-baseline gap-3 py-1">
              <Link
                to="/$team/w/$key"
                params={{ team: team.slug, key: w.key }}
                className="min-h-6 min-w-0 flex-1 leading-6 break-words text-accent hover:underline"
              >
                {w.name}
              </Link>
              <span className="font-mono text-micro text-fg3">{w.key}</span>
              <span className="text-meta text-fg3">{w.state.replaceAll("_", " ")}</span>
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}
