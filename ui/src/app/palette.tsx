import { t as tr } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { Command } from "cmdk";
import { type ReactNode, useMemo, useState } from "react";
import { projectsQuery, workspacesQuery } from "@/api/queries";
import { Marked } from "@/files/marked";
import { usePaths } from "@/files/paths";
import { opened } from "@/files/recent";
import { available, perform } from "@/keys/keyboard";
import { GROUP_NAMES } from "@/keys/registry";
import { FindDialog } from "@/kit/find-dialog";
import { Icon } from "@/kit/icon";
import { Kbd } from "@/kit/kbd";
import { Shape } from "@/kit/mark";
import { machinesQuery } from "@/machines/api";
import { Danger } from "@/machines/danger";
import { machineStands } from "@/machines/words";
import { useShownParts } from "@/settings/nav";
import { PAGE_NAMES, PARTS, pageOf } from "@/settings/sections";
import { recall, remember } from "@/state/remember";
import { useStore } from "@/state/store";
import { useMe, useTeam } from "@/state/team";
import { grouped } from "@/workspaces/groups";
import { type Findable, ranked } from "./rank";

const ITEM =
  "flex min-h-9 cursor-pointer items-center gap-2.5 rounded-sm px-2.5 py-1 data-[selected=true]:bg-bg2 pointer-coarse:min-h-11";
const GROUP =
  "[&_[cmdk-group-heading]]:px-2.5 [&_[cmdk-group-heading]]:pt-2 [&_[cmdk-group-heading]]:pb-1 [&_[cmdk-group-heading]]:text-meta [&_[cmdk-group-heading]]:text-fg3";

/** Something the palette finds, how it is shown, and what choosing it does. */
interface Item extends Findable {
  group: string;
  before?: ReactNode;
  after?: ReactNode;
  run: () => void;
}

// Not for translation: codes of groups.
const ACTION_GROUPS = ["Questions", "Workspace", "Terminal", "Review", "Go to", "General"] as const;
/** The groups as people read them. */
const GROUPS: Record<string, string> = {
  ...GROUP_NAMES,
  Workspaces: tr`Workspaces`,
  Teams: tr`Teams`,
  Projects: tr`Projects`,
  Machines: tr`Machines`,
  Recent: tr`Recent`,
};
const SETTINGS_OF = { You: tr`Your settings`, Team: tr`Team settings`, Server: tr`Server settings` };
const MOST = 30;
const MOST_FILES = 8;
const MOST_RECENT = 6;
const RECENT_KEPT = 20;
const isIds = (v: unknown): v is string[] => Array.isArray(v) && v.every((i) => typeof i === "string");

/** The command palette. */
export default function Palette({ onClose }: { onClose: () => void }) {
  const team = useTeam();
  const me = useMe();
  const { key } = useParams({ strict: false });
  const navigate = useNavigate();
  const workspaces = useQuery(workspacesQuery(team.slug));
  const projects = useQuery(projectsQuery(team.slug));
  const machines = useQuery(machinesQuery(team.slug));
  const actions = useStore(available);
  const parts = useShownParts();
  const [typed, setTyped] = useState("");
  const recentKey = `palette.${team.id}`;
  const [recent] = useState(() => recall(recentKey, isIds) ?? []);
  const here = key ? workspaces.data?.find((w) => w.key === key) : undefined;
  const { found } = usePaths(typed.trim().length > 1 ? here?.id : undefined, typed, MOST_FILES);

  const items = useMemo((): Item[] => {
    const params = { team: team.slug };
    const out: Item[] = grouped(workspaces.data ?? [])
      .flatMap((g) => g.items)
      .map(({ workspace: w, standing: s }) => ({
        id: `workspace ${w.id}`,
        group: "Workspaces",
        title: w.name,
        words: [w.key, w.branch, w.project_name, w.executor, s.word, "workspace"].join(" "),
        before: <Shape kind={s.mark} />,
        after: (
          <>
            <span className="hidden truncate text-meta text-fg3 sm:block">{s.word}</span>
            <span className="font-mono text-micro text-fg3">{w.key}</span>
          </>
        ),
        run: () => void navigate({ to: "/$team/w/$key", params: { ...params, key: w.key } }),
      }));
    for (const group of ACTION_GROUPS)
      for (const a of actions)
        if (a.group === group && !a.keyOnly)
          out.push({
            id: `action ${a.id}`,
            group,
            title: a.label,
            words: tr`${GROUP_NAMES[group]} action`,
            after: a.keys[0] && <Kbd keys={a.keys[0]} />,
            run: () => perform(a.id),
          });
    for (const t of me.teams)
      if (t.id !== team.id)
        out.push({
          id: `team ${t.id}`,
          group: "Teams",
          title: tr`Switch to ${t.name}`,
          words: tr`team ${t.slug}`,
          after: <span className="text-meta text-fg3">{t.suspended ? tr`suspended` : t.role}</span>,
          run: () => void navigate({ to: "/$team", params: { team: t.slug } }),
        });
    for (const p of projects.data ?? [])
      out.push({
        id: `project ${p.id}`,
        group: "Projects",
        title: p.name,
        words: tr`project ${p.source.url ?? ""} ${p.source.path ?? ""}`,
        before: <Icon name="git" size={14} className="text-fg3" />,
        run: () => void navigate({ to: "/$team/p/$project", params: { ...params, project: p.id } }),
      });
    for (const m of machines.data ?? []) {
      const s = machineStands(m, Date.now());
      out.push({
        id: `machine ${m.id}`,
        group: "Machines",
        title: m.name,
        words: tr`machine ${m.hostname} ${m.user_name} ${s.word}`,
        before: <Shape kind={s.mark} />,
        after: (
          <>
            {m.dangerous && <Danger />}
            <span className="text-meta text-fg3">{s.word}</span>
          </>
        ),
        run: () => void navigate({ to: "/$team/machines/$machine", params: { ...params, machine: m.id } }),
      });
    }
    for (const section of parts) {
      const page = pageOf(section);
      const [name, words] = PARTS[section];
      out.push({
        id: `settings ${section}`,
        group: "Settings",
        title: name,
        words: tr`settings ${page ? SETTINGS_OF[page.group] : ""} ${page ? PAGE_NAMES[page.name] : ""} ${words}`,
        before: <Icon name="gear" size={14} className="text-fg3" />,
        after: page && <span className="truncate text-meta text-fg3">{SETTINGS_OF[page.group]}</span>,
        run: () => void navigate({ to: "/$team/settings/{-$section}", params: { ...params, section } }),
      });
    }
    return out;
  }, [team, me, workspaces.data, projects.data, machines.data, actions, parts, navigate]);

  const choose = (it: Item) => {
    remember(recentKey, [it.id, ...recent.filter((id) => id !== it.id)].slice(0, RECENT_KEPT));
    onClose();
    // After the dialog has given the focus back: an action may open another one or move the focus itself.
    setTimeout(it.run, 0);
  };
  const searching = typed.trim() !== "";
  const best = useMemo(() => (searching ? ranked(typed, items, recent, MOST) : []), [searching, typed, items, recent]);
  const groups = useMemo(() => {
    if (searching) return [];
    const last = recent.flatMap((id) => items.find((it) => it.id === id) ?? []).slice(0, MOST_RECENT);
    const all = new Map<string, Item[]>();
    // Settings are found by typing: there are many.
    for (const it of items) if (it.group !== "Settings") all.set(it.group, [...(all.get(it.group) ?? []), it]);
    // Not for translation: the code of a group.
    return last.length > 0 ? [["Recent", last] as const, ...all] : [...all];
  }, [searching, items, recent]);

  const row = (it: Item, within: string) => (
    <Command.Item key={it.id} value={`${within} ${it.id}`} onSelect={() => choose(it)} className={ITEM}>
      {it.before}
      <span className="min-w-0 flex-1 truncate">{it.title}</span>
      {it.after}
    </Command.Item>
  );
  return (
    <FindDialog
      title={tr`Command palette`}
      label={tr`Command palette`}
      placeholder={here ? tr`A workspace, file, setting or command` : tr`A workspace, setting or command`}
      value={typed}
      onChange={setTyped}
      onClose={onClose}
    >
      <Command.Empty className="px-2.5 py-6 text-center text-fg3">
        <Trans>Nothing found.</Trans>
      </Command.Empty>
      {best.length > 0 && (
        <Command.Group heading={tr`Best matches`} className={GROUP}>
          {best.map((it) => row(it, "best"))}
        </Command.Group>
      )}
      {searching && here && found && found.items.length > 0 && (
        <Command.Group heading={tr`Files of ${here.name}`} className={GROUP}>
          {found.items.map(({ path, at }) => (
            <Command.Item
              key={path}
              value={`file ${path}`}
              onSelect={() => {
                onClose();
                opened(here.id, path);
                void navigate({
                  to: "/$team/w/$key/edit",
                  params: { team: team.slug, key: here.key },
                  search: { path },
                });
              }}
              className={ITEM}
            >
              <Marked path={path} at={at} />
            </Command.Item>
          ))}
        </Command.Group>
      )}
      {groups.map(([group, list]) => (
        <Command.Group key={group} heading={GROUPS[group] ?? group} className={GROUP}>
          {list.map((it) => row(it, group))}
        </Command.Group>
      ))}
    </FindDialog>
  );
}
