import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { Suspense, useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { keys, projectsQuery } from "@/api/queries";
import { Button } from "@/kit/button";
import { Check, TextField } from "@/kit/field";
import { lazy } from "@/kit/part";
import { Failure, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { useTeam } from "@/state/team";
import { SkillForm } from "./skill-form";

type Skill = Schemas["TeamSkill"];

const Versions = lazy(() => import("./skill-versions"));
const RunSkill = lazy(() => import("./skill-run"));

/** The skills of a team, or with a project its own and those of the whole team: to find, write, review and run. */
export function SkillList(p: { team: string; project?: string; readOnly: boolean }) {
  const [editing, setEditing] = useState<string | null>(null);
  const [words, setWords] = useState("");
  const [drafts, setDrafts] = useState(false);
  const list = useInfiniteQuery({
    queryKey: keys.skills("list", p.project ?? p.team, words, drafts),
    queryFn: ({ pageParam }) =>
      data(
        api.GET("/teams/{team}/skills", {
          params: {
            path: { team: p.team },
            query: {
              limit: 50,
              ...(p.project ? { project: p.project } : {}),
              ...(words.trim() ? { q: words.trim() } : {}),
              ...(drafts ? { drafts } : {}),
              ...(pageParam ? { cursor: pageParam } : {}),
            },
          },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor ?? undefined,
    placeholderData: (before) => before,
  });
  const items = list.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <>
      <div className="flex flex-wrap items-end gap-x-4 gap-y-2">
        <TextField
          label={t`Search`}
          type="search"
          maxLength={500}
          fieldClass="min-w-48 flex-1"
          value={words}
          onChange={(e) => setWords(e.target.value)}
        />
        <Check label={t`Only drafts`} checked={drafts} onChange={(e) => setDrafts(e.target.checked)} />
      </div>
      {list.isPending && <Skeleton rows={3} label={t`Loading the skills`} />}
      {list.isError && !list.data && (
        <Failure what={t`The skills could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
      )}
      {list.data && items.length === 0 && (
        <p className="text-fg3">{words.trim() || drafts ? t`No such skill.` : t`No skills yet.`}</p>
      )}
      <ul aria-label={t`Skills`} className="divide-y divide-hairline">
        {items.map((s) => (
          <Row key={s.id} {...p} skill={s} onEdit={() => setEditing(s.id)} />
        ))}
      </ul>
      {list.hasNextPage && (
        <Button
          className="self-start"
          busy={list.isFetchingNextPage && t`Loading`}
          onClick={() => void list.fetchNextPage()}
        >
          <Trans>Older skills</Trans>
        </Button>
      )}
      {editing ? (
        <Edit key={editing} {...p} id={editing} onDone={() => setEditing(null)} />
      ) : (
        !p.readOnly && (
          <Button className="self-start" onClick={() => setEditing("new")}>
            <Trans>Write a skill</Trans>
          </Button>
        )
      )}
    </>
  );
}

function Row(p: { team: string; project?: string; readOnly: boolean; skill: Skill; onEdit: () => void }) {
  const client = useQueryClient();
  const team = useTeam();
  const s = p.skill;
  const [open, setOpen] = useState(false);
  const [running, setRunning] = useState(false);
  const projects = useQuery({ ...projectsQuery(p.team), enabled: !p.project && s.project_id !== null });
  const project = projects.data?.find((x) => x.id === s.project_id)?.name;
  const remove = useAction({
    act: () => data(api.DELETE("/skills/{id}", { params: { path: { id: s.id } } })),
    confirm: { title: t`Delete ${s.name}?`, body: t`Its versions are deleted, too.`, action: t`Delete`, danger: true },
    done: () => client.invalidateQueries({ queryKey: keys.skills() }),
    failed: t`The skill was not deleted`,
  });
  const name = <span className="sr-only"> {s.name}</span>;
  return (
    <li className="py-2">
      <div className="flex flex-wrap items-start gap-x-3 gap-y-1">
        <div className="min-w-0 flex-1 basis-56">
          <p className="font-medium break-words">{s.name}</p>
          <p className="break-words text-fg2">{s.description}</p>
          <p className="text-meta text-fg3">
            {s.project_id ? (project ?? t`Project`) : t`Whole team`}
            {s.in_use > 0 && t` · version ${s.in_use}`}
            {s.draft > 0 && t` · draft ${s.draft} waits to be accepted`}
          </p>
        </div>
        {s.in_use > 0 && team.can("terminal.type") && (
          <Button look="quiet" onClick={() => setRunning(true)}>
            <Trans>Run{name}</Trans>
          </Button>
        )}
        <Button look={s.draft > 0 ? "plain" : "quiet"} aria-expanded={open} onClick={() => setOpen(!open)}>
          {s.draft > 0 ? t`Review` : t`Versions`}
          {name}
        </Button>
        {!p.readOnly && (
          <>
            <Button look="quiet" onClick={p.onEdit}>
              <Trans>Edit{name}</Trans>
            </Button>
            <Button look="quiet" busy={remove.busy && t`Deleting`} onClick={() => void remove.run()}>
              <Trans>Delete{name}</Trans>
            </Button>
          </>
        )}
      </div>
      {open && (
        <Suspense fallback={<Skeleton rows={3} label={t`Loading the versions`} />}>
          <Versions skill={s} readOnly={p.readOnly} />
        </Suspense>
      )}
      {running && (
        <Suspense>
          <RunSkill team={p.team} skill={s} onClose={() => setRunning(false)} />
        </Suspense>
      )}
    </li>
  );
}

function Edit(p: { team: string; project?: string; id: string; onDone: () => void }) {
  const versions = useQuery({
    queryKey: keys.skills("edit", p.id),
    queryFn: async () => {
      const path = { params: { path: { id: p.id } } };
      const skill = await data(api.GET("/skills/{id}", path));
      const all = await data(api.GET("/skills/{id}/versions", path));
      return { skill, newest: all.items.find((v) => v.version === (skill.draft || skill.in_use)) };
    },
    enabled: p.id !== "new",
  });
  if (p.id === "new") return <SkillForm {...p} id="" name="" description="" text="" />;
  if (versions.isError) return <Failure what={t`The skill could not be loaded.`} error={versions.error} />;
  if (!versions.data) return <Skeleton rows={3} label={t`Loading the skill`} />;
  const { skill, newest } = versions.data;
  return (
    <SkillForm
      {...p}
      name={skill.name}
      description={newest?.description ?? skill.description}
      text={newest?.text ?? skill.text}
      version={skill.version}
    />
  );
}
