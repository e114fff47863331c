import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { keys } from "@/api/queries";
import { Button } from "@/kit/button";
import { TextArea, TextField } from "@/kit/field";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";

type Skill = Schemas["TeamSkill"];

/** What agents of a project know about how to work: instructions, and skills with the drafts that wait for a member. */
export default function ProjectSkills(p: { team: string; project: string; readOnly: boolean; mayInstruct: boolean }) {
  const [editing, setEditing] = useState<string | null>(null);
  const list = useQuery({
    queryKey: keys.skills(p.project),
    queryFn: () =>
      data(
        api.GET("/teams/{team}/skills", {
          params: { path: { team: p.team }, query: { project: p.project, limit: 200 } },
        }),
      ),
  });
  const items = list.data?.items ?? [];
  return (
    <section aria-labelledby="project-skills" className="mt-8 flex max-w-[620px] flex-col gap-3">
      <h2 id="project-skills" className="text-title font-semibold">
        Instructions and skills
      </h2>
      <Instructions project={p.project} readOnly={!p.mayInstruct} />
      <p className="text-fg2">Skills are procedures that agents read when they need them. Call one as /name.</p>
      {list.isPending && <Skeleton rows={3} label="Loading the skills" />}
      {list.isError && !list.data && (
        <Failure what="The skills could not be loaded." error={list.error} retry={() => void list.refetch()} />
      )}
      {list.data && items.length === 0 && <p className="text-fg3">No skills yet.</p>}
      <ul aria-label="Skills" className="divide-y divide-hairline">
        {items.map((s) => (
          <Row key={s.id} {...p} skill={s} onEdit={() => setEditing(s.id)} />
        ))}
      </ul>
      {editing ? (
        <Edit key={editing} {...p} id={editing} onDone={() => setEditing(null)} />
      ) : (
        !p.readOnly && (
          <Button className="self-start" onClick={() => setEditing("new")}>
            Write a skill
          </Button>
        )
      )}
    </section>
  );
}

function Row(p: { project: string; readOnly: boolean; skill: Skill; onEdit: () => void }) {
  const client = useQueryClient();
  const s = p.skill;
  const done = () => client.invalidateQueries({ queryKey: keys.skills(p.project) });
  const use = (version: number) =>
    data(api.PATCH("/skills/{id}", { params: { path: { id: s.id } }, body: { use_version: version } }));
  const accept = useAction({ act: () => use(s.draft), done, failed: "The draft was not accepted" });
  const remove = useAction({
    act: () => data(api.DELETE("/skills/{id}", { params: { path: { id: s.id } } })),
    confirm: { title: `Delete ${s.name}?`, body: "Its versions are deleted, too.", action: "Delete", danger: true },
    done,
    failed: "The skill was not deleted",
  });
  return (
    <li className="flex flex-wrap items-start gap-x-3 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-56">
        <p className="font-medium break-words">{s.name}</p>
        <p className="break-words text-fg2">{s.description}</p>
        <p className="text-meta text-fg3">
          {s.project_id ? "Project" : "Whole team"}
          {s.in_use > 0 && ` · version ${s.in_use}`}
          {s.draft > 0 && ` · draft ${s.draft} waits to be accepted`}
        </p>
      </div>
      {!p.readOnly && (
        <>
          {s.draft > 0 && (
            <Button busy={accept.busy && "Accepting"} onClick={() => void accept.run()}>
              Accept<span className="sr-only"> {s.name}</span>
            </Button>
          )}
          <Button look="quiet" onClick={p.onEdit}>
            {s.draft > 0 ? "Read" : "Edit"}
            <span className="sr-only"> {s.name}</span>
          </Button>
          <Button look="quiet" busy={remove.busy && "Deleting"} onClick={() => void remove.run()}>
            Delete<span className="sr-only"> {s.name}</span>
          </Button>
        </>
      )}
    </li>
  );
}

function Edit(p: { team: string; project: string; id: string; onDone: () => void }) {
  const versions = useQuery({
    queryKey: [...keys.skills(p.project), p.id],
    queryFn: async () => {
      const path = { params: { path: { id: p.id } } };
      const skill = await data(api.GET("/skills/{id}", path));
      const all = await data(api.GET("/skills/{id}/versions", path));
      return { skill, newest: all.items.find((v) => v.version === (skill.draft || skill.in_use)) };
    },
    enabled: p.id !== "new",
  });
  if (p.id === "new") return <Form {...p} name="" description="" text="" />;
  if (versions.isError) return <Failure what="The skill could not be loaded." error={versions.error} />;
  if (!versions.data) return <Skeleton rows={3} label="Loading the skill" />;
  const { skill, newest } = versions.data;
  return (
    <Form
      {...p}
      name={skill.name}
      description={newest?.description ?? skill.description}
      text={newest?.text ?? skill.text}
      version={skill.version}
    />
  );
}

function Form(p: {
  team: string;
  project: string;
  id: string;
  name: string;
  description: string;
  text: string;
  version?: number;
  onDone: () => void;
}) {
  const client = useQueryClient();
  const [name, setName] = useState(p.name);
  const [description, setDescription] = useState(p.description);
  const [text, setText] = useState(p.text);
  const save = useMutation({
    mutationFn: () =>
      p.id === "new"
        ? data(
            api.POST("/teams/{team}/skills", {
              params: { path: { team: p.team } },
              body: { name: name.trim(), description, text, project_id: p.project },
            }),
          )
        : data(
            api.PATCH("/skills/{id}", {
              params: { path: { id: p.id } },
              body: { description, text, version: p.version },
            }),
          ),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.skills(p.project) });
      p.onDone();
    },
  });
  return (
    <form
      aria-label="Skill"
      className="flex flex-col gap-3"
      onSubmit={(e) => {
        e.preventDefault();
        save.mutate();
      }}
    >
      <TextField
        label="Name"
        required
        maxLength={64}
        disabled={p.id !== "new"}
        value={name}
        placeholder="make-a-release"
        onChange={(e) => setName(e.target.value)}
      />
      <TextField
        label="When to use it"
        required
        maxLength={400}
        value={description}
        onChange={(e) => setDescription(e.target.value)}
      />
      <TextArea label="Text" required mono rows={12} value={text} onChange={(e) => setText(e.target.value)} />
      <FormError error={save.error} />
      <div className="flex gap-2">
        <Button type="submit" look="primary" busy={save.isPending && "Saving"}>
          Save
        </Button>
        <Button onClick={p.onDone}>Cancel</Button>
      </div>
    </form>
  );
}

function Instructions({ project, readOnly }: { project: string; readOnly: boolean }) {
  const client = useQueryClient();
  const key = [...keys.skills(project), "instructions"];
  const path = { params: { path: { id: project } } };
  const kept = useQuery({ queryKey: key, queryFn: () => data(api.GET("/projects/{id}/agent-instructions", path)) });
  const [text, setText] = useState<string | null>(null);
  const save = useMutation({
    mutationFn: () => data(api.PUT("/projects/{id}/agent-instructions", { ...path, body: { text: text ?? "" } })),
    onSuccess: (saved) => {
      client.setQueryData(key, saved);
      setText(null);
    },
  });
  return (
    <form
      className="flex flex-col gap-2"
      onSubmit={(e) => {
        e.preventDefault();
        save.mutate();
      }}
    >
      <TextArea
        label="Instructions"
        mono
        rows={5}
        readOnly={readOnly || !kept.data}
        value={text ?? kept.data?.text ?? ""}
        hint="Parawork's own agent reads them at the beginning of every conversation."
        onChange={(e) => setText(e.target.value)}
      />
      <FormError error={save.error ?? kept.error} />
      {text !== null && (
        <Button type="submit" className="self-start" busy={save.isPending && "Saving"}>
          Save instructions
        </Button>
      )}
    </form>
  );
}
