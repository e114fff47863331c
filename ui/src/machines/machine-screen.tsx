import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { ApiError } from "@/api/problem";
import { useNow } from "@/format/now";
import { plain, plural, sentence, visible } from "@/format/text";
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
  useTitle(machine.data?.name ?? "Machine");
  const missing = machine.error instanceof ApiError && machine.error.status === 404;
  if (missing) return <NotFound />;
  if (machine.isPending) return <Skeleton rows={6} label="Loading the machine" />;
  if (!machine.data)
    return (
      <Failure
        className="m-4"
        what="The machine could not be loaded."
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
            Machines
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
                {[s.text && sentence(s.text), m.mine ? "Yours." : `${m.user_name}'s.`].filter(Boolean).join(" ")}
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
              {sentence(m.update_hint)} Machines do not update automatically. Run <code>parawork runner update</code>{" "}
              there.
            </Note>
          )}
        </header>
        <Questions machine={m} />
        {m.state === "online" && <Load machine={m} />}
        <Section id="about-machine" title="The machine">
          <Facts>
            <Fact label="Agents run in">{modeWords(m)}</Fact>
            <Fact label="System">{systemWords(m)}</Fact>
            <Fact label="Host name">{m.hostname && visible(m.hostname)}</Fact>
            <Fact label="Hardware">
              {m.cpus > 0 && `${plural(m.cpus, "core")}, ${Math.round(m.memory_mb / 1024)} GB of memory`}
            </Fact>
            <Fact label="Isolation">{m.isolation && sentence(m.isolation)}</Fact>
            <Fact label="Program">{m.version && `version ${m.version}`}</Fact>
            <Fact label="Connected">
              <span title={exact(m.created_at)}>first {ago(m.created_at, now)}</span>
              {m.state === "online" && m.connected_at !== null && (
                <span title={exact(m.connected_at)}>, last {ago(m.connected_at, now)}</span>
              )}
            </Fact>
            <Fact label="Last seen">
              {m.seen_at !== null && <span title={exact(m.seen_at)}>{ago(m.seen_at, now)}</span>}
            </Fact>
          </Facts>
        </Section>
        <Section
          id="owner-decides"
          title="Owner's settings"
          about="These settings are in a file on the machine. This server cannot change them."
        >
          <Facts>
            <Fact label="Access" more={m.access && ACCESS[m.access].means}>
              {m.access && ACCESS[m.access].name}
            </Fact>
            <Fact label="Shared with">{m.share === "team" ? "everyone in the team" : m.share && "owner only"}</Fact>
            <Fact label="Network access">{m.network && networkWords(m.network)}</Fact>
            <Fact label="Limits">{ownerLimits(m.limits)}</Fact>
            <Fact label="Quiet hours">{m.quiet_hours || "none"}</Fact>
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
      <h3 className="mb-1 text-meta text-fg3">Allowed folders</h3>
      {folders.length === 0 ? (
        <p className="text-fg2">
          No workspaces. Workspaces get their own folders there. The owner can allow a folder with <code>--folder</code>{" "}
          or in the file.
        </p>
      ) : (
        <ul className="divide-y divide-hairline border-y border-hairline">
          {folders.map((f) => (
            <li key={f.path} className="flex flex-wrap items-baseline gap-x-3 py-1.5">
              <Icon name={f.git ? "git" : "folder"} size={14} className="translate-y-0.5 self-start text-fg3" />
              <span className="min-w-0 flex-1 font-mono text-code break-all">{visible(f.path)}</span>
              <span className="text-meta text-fg3">
                {[
                  f.git ? `git${f.branch ? `, ${visible(f.branch)}` : ""}` : "no repository",
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
    <Section id="machine-workspaces" title="Workspaces">
      {m.workspaces.length === 0 ? (
        <p className="text-fg2">
          No workspaces. {m.may_use ? "Choose this machine as the place of a new workspace, or move one to it." : ""}
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
