import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { fieldError } from "@/api/problem";
import { keys } from "@/api/queries";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { TextArea, TextField } from "@/kit/field";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";

type Fact = Schemas["Memory"];

/** What a project's agents and people remember. */
export default function ProjectMemory({ project, readOnly }: { project: string; readOnly: boolean }) {
  const [adding, setAdding] = useState(false);
  const list = useInfiniteQuery({
    queryKey: keys.memory(project),
    queryFn: ({ pageParam }) =>
      data(
        api.GET("/projects/{id}/memory", {
          params: { path: { id: project }, query: { limit: 20, ...(pageParam ? { cursor: pageParam } : {}) } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor ?? undefined,
  });
  const items = list.data?.pages.flatMap((p) => p.items) ?? [];
  return (
    <section aria-labelledby="project-memory" className="mt-8 flex max-w-form flex-col gap-3">
      <h2 id="project-memory" className="text-title font-semibold">
        <Trans>Memory</Trans>
      </h2>
      <p className="text-fg2">
        <Trans>Facts that every agent of this project finds again in later sessions.</Trans>
      </p>
      {list.isPending && <Skeleton rows={3} label={t`Loading the memory`} />}
      {list.isError && !list.data && (
        <Failure what={t`The memory could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
      )}
      {list.data && items.length === 0 && (
        <p className="text-fg3">
          <Trans>No facts yet.</Trans>
        </p>
      )}
      {items.length > 0 && (
        <ul aria-label={t`Facts`} className="divide-y divide-hairline border-y border-hairline">
          {items.map((f) => (
            <Row key={f.id} project={project} fact={f} readOnly={readOnly} />
          ))}
        </ul>
      )}
      {list.hasNextPage && (
        <Button
          className="self-start"
          busy={list.isFetchingNextPage && t`Loading`}
          onClick={() => void list.fetchNextPage()}
        >
          <Trans>Show older</Trans>
        </Button>
      )}
      {!readOnly && !adding && (
        <Button className="self-start" onClick={() => setAdding(true)}>
          <Trans>Add a fact</Trans>
        </Button>
      )}
      {adding && <Add project={project} onDone={() => setAdding(false)} />}
    </section>
  );
}

function Row({ project, fact: f, readOnly }: { project: string; fact: Fact; readOnly: boolean }) {
  const client = useQueryClient();
  const now = useNow();
  const name = f.key || t`this fact`;
  const remove = useAction({
    act: () => data(api.DELETE("/memory/{id}", { params: { path: { id: f.id } } })),
    confirm: { title: t`Delete ${name}?`, body: t`Agents no longer find it.`, action: t`Delete`, danger: true },
    done: () => client.invalidateQueries({ queryKey: keys.memory(project) }),
    failed: t`The fact was not deleted`,
  });
  return (
    <li className="flex flex-wrap items-start gap-x-3 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-56">
        {f.key && <p className="font-medium break-words">{f.key}</p>}
        <p className="max-h-40 overflow-y-auto break-words whitespace-pre-wrap">{f.text}</p>
        <p className="text-meta break-words text-fg3">
          {f.agent ? t`${f.agent} for ${f.created_by.name}` : f.created_by.name}
          {" · "}
          <span title={exact(f.created_at)}>{ago(f.created_at, now)}</span>
          {f.expires_at && t` · until ${exact(f.expires_at)}`}
          {f.tags.length > 0 && ` · ${f.tags.join(", ")}`}
        </p>
      </div>
      {!readOnly && (
        <Button look="quiet" busy={remove.busy && t`Deleting`} onClick={() => void remove.run()}>
          <Trans>Delete</Trans>
          <span className="sr-only"> {name}</span>
        </Button>
      )}
    </li>
  );
}

function Add({ project, onDone }: { project: string; onDone: () => void }) {
  const client = useQueryClient();
  const [text, setText] = useState("");
  const [key, setKey] = useState("");
  const save = useMutation({
    mutationFn: () =>
      data(api.POST("/projects/{id}/memory", { params: { path: { id: project } }, body: { text, key: key.trim() } })),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.memory(project) });
      onDone();
    },
  });
  const error = (field: string) => fieldError(save.error, field);
  return (
    <form
      aria-label={t`Add a fact`}
      className="flex flex-col gap-3"
      onSubmit={(e) => {
        e.preventDefault();
        save.mutate();
      }}
    >
      <TextArea
        label={t`Fact`}
        required
        autoFocus
        maxLength={8192}
        value={text}
        placeholder={t`Tests need the database: run make db first.`}
        error={error("text")}
        onChange={(e) => setText(e.target.value)}
      />
      <TextField
        label={t`Key`}
        maxLength={100}
        value={key}
        placeholder={t`testing`}
        hint={t`Optional. A fact replaces the one with the same key.`}
        error={error("key")}
        onChange={(e) => setKey(e.target.value)}
      />
      <FormError error={error("text") || error("key") ? null : save.error} />
      <div className="flex gap-2">
        <Button type="submit" look="primary" busy={save.isPending && t`Adding`}>
          <Trans>Add</Trans>
        </Button>
        <Button onClick={onDone}>
          <Trans>Cancel</Trans>
        </Button>
      </div>
    </form>
  );
}
