import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Command } from "cmdk";
import { Dialog as Radix } from "radix-ui";
import { useMemo } from "react";
import { projectsQuery, workspacesQuery } from "@/api/queries";
import { available, perform } from "@/keys/keyboard";
import { Icon } from "@/kit/icon";
import { Kbd } from "@/kit/kbd";
import { Shape } from "@/kit/mark";
import { machinesQuery } from "@/machines/api";
import { Danger } from "@/machines/danger";
import { machineStands } from "@/machines/words";
import { useStore } from "@/state/store";
import { useMe, useTeam } from "@/state/team";
import { grouped } from "@/workspaces/groups";

const ITEM =
  "flex min-h-9 cursor-pointer items-center gap-2.5 rounded-sm px-2.5 py-1 data-[selected=true]:bg-bg2 pointer-coarse:min-h-11";
const GROUP =
  "[&_[cmdk-group-heading]]:px-2.5 [&_[cmdk-group-heading]]:pt-2 [&_[cmdk-group-heading]]:pb-1 [&_[cmdk-group-heading]]:text-meta [&_[cmdk-group-heading]]:text-fg3";

/** The command palette. */
export default function Palette({ onClose }: { onClose: () => void }) {
  const team = useTeam();
  const others = useMe().teams.filter((t) => t.id !== team.id);
  const navigate = useNavigate();
  const workspaces = useQuery(workspacesQuery(team.slug));
  const projects = useQuery(projectsQuery(team.slug));
  const machines = useQuery(machinesQuery(team.slug));
  const actions = useStore(available);
  const rows = useMemo(() => grouped(workspaces.data ?? []).flatMap((g) => g.items), [workspaces.data]);

  const run = (then: () => void) => {
    onClose();
    // After the dialog has given the focus back: an action may open another one or move the focus itself.
    setTimeout(then, 0);
  };

  return (
    <Radix.Root open onOpenChange={(o) => !o && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="fade-in fixed inset-0 z-40 bg-(--scrim)" />
        <Radix.Content
          aria-describedby={undefined}
          className="rise-in fixed inset-x-2 top-2 z-50 mx-auto max-w-[600px] overflow-hidden rounded-md bg-bg1 shadow-float outline-none md:top-[12vh]"
        >
          <Radix.Title className="sr-only">Command palette</Radix.Title>
          <Command label="Command palette" loop className="flex max-h-[min(70vh,520px)] flex-col">
            <div className="flex items-center gap-2.5 border-b border-hairline px-3.5">
              <Icon name="search" className="text-fg3" />
              <Command.Input
                placeholder="A workspace, branch, project or command"
                className="h-11 min-w-0 flex-1 bg-transparent outline-none pointer-coarse:text-[16px]"
              />
              <Kbd keys="Esc" />
            </div>
            <Command.List className="min-h-0 flex-1 overflow-y-auto p-1.5">
              <Command.Empty className="px-2.5 py-6 text-center text-fg3">Nothing found.</Command.Empty>
              {rows.length > 0 && (
                <Command.Group heading="Workspaces" className={GROUP}>
                  {rows.map(({ workspace: w, standing: s }) => (
                    <Command.Item
                      key={w.id}
                      value={`workspace ${w.id}`}
                      keywords={[w.key, w.name, w.branch, w.project_name, w.executor, s.word]}
                      onSelect={() =>
                        run(() => void navigate({ to: "/$team/w/$key", params: { team: team.slug, key: w.key } }))
                      }
                      className={ITEM}
                    >
                      <Shape kind={s.mark} />
                      <span className="min-w-0 flex-1 truncate">{w.name}</span>
                      <span className="hidden truncate text-meta text-fg3 sm:block">{s.word}</span>
                      <span className="font-mono text-[11px] text-fg3">{w.key}</span>
                    </Command.Item>
                  ))}
                </Command.Group>
              )}
              {(["Questions", "Workspace", "Terminal", "Review", "Go to", "General"] as const).map((group) => {
                const list = actions.filter((a) => a.group === group && !a.keyOnly);
                if (list.length === 0) return null;
                return (
                  <Command.Group key={group} heading={group} className={GROUP}>
                    {list.map((a) => (
                      <Command.Item
                        key={a.id}
                        value={`action ${a.id}`}
                        keywords={[a.label]}
                        onSelect={() => run(() => perform(a.id))}
                        className={ITEM}
                      >
                        <span className="min-w-0 flex-1 truncate">{a.label}</span>
                        {a.keys[0] && <Kbd keys={a.keys[0]} />}
                      </Command.Item>
                    ))}
                  </Command.Group>
                );
              })}
              {others.length > 0 && (
                <Command.Group heading="Teams" className={GROUP}>
                  {others.map((t) => (
                    <Command.Item
                      key={t.id}
                      value={`team ${t.id}`}
                      keywords={["team", "switch", t.name, t.slug]}
                      onSelect={() => run(() => void navigate({ to: "/$team", params: { team: t.slug } }))}
                      className={ITEM}
                    >
                      <span className="min-w-0 flex-1 truncate">Switch to {t.name}</span>
                      <span className="text-meta text-fg3">{t.suspended ? "suspended" : t.role}</span>
                    </Command.Item>
                  ))}
                </Command.Group>
              )}
              {(projects.data?.length ?? 0) > 0 && (
                <Command.Group heading="Projects" className={GROUP}>
                  {projects.data?.map((p) => (
                    <Command.Item
                      key={p.id}
                      value={`project ${p.id}`}
                      keywords={[p.name, p.source.url ?? "", p.source.path ?? ""]}
                      onSelect={() =>
                        run(
                          () => void navigate({ to: "/$team/p/$project", params: { team: team.slug, project: p.id } }),
                        )
                      }
                      className={ITEM}
                    >
                      <Icon name="git" size={14} className="text-fg3" />
                      <span className="truncate">{p.name}</span>
                    </Command.Item>
                  ))}
                </Command.Group>
              )}
              {(machines.data?.length ?? 0) > 0 && (
                <Command.Group heading="Machines" className={GROUP}>
                  {machines.data?.map((m) => {
                    const s = machineStands(m, Date.now());
                    return (
                      <Command.Item
                        key={m.id}
                        value={`machine ${m.id}`}
                        keywords={["machine", m.name, m.hostname, m.user_name, s.word]}
                        onSelect={() =>
                          run(
                            () =>
                              void navigate({
                                to: "/$team/machines/$machine",
                                params: { team: team.slug, machine: m.id },
                              }),
                          )
                        }
                        className={ITEM}
                      >
                        <Shape kind={s.mark} />
                        <span className="min-w-0 flex-1 truncate">{m.name}</span>
                        {m.dangerous && <Danger />}
                        <span className="text-meta text-fg3">{s.word}</span>
                      </Command.Item>
                    );
                  })}
                </Command.Group>
              )}
            </Command.List>
          </Command>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
