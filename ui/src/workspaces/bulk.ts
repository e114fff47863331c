import { plural, t } from "@lingui/core/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { SETUP } from "@/agents/built-in";
import { api, data, type Workspace } from "@/api/client";
import { tell } from "@/api/problem";
import { hasEnded, isShell } from "@/sessions/sessions";
import { useTeam } from "@/state/team";
import { toast } from "@/state/toasts";

export type BulkAction = "stop" | "archive" | "delete" | "move" | "restore";

interface Words {
  now: string;
  /** Of one, by its name. */
  done: (name: string) => string;
  /** Of several. */
  all: (n: number) => string;
  not: string;
}

export const WORDS: Record<BulkAction, Words> = {
  stop: {
    now: t`Stopping`,
    done: (name) => t`${name} is stopped`,
    all: (n) => plural(n, { one: "# workspace is stopped", other: "# workspaces are stopped" }),
    not: t`Not stopped`,
  },
  archive: {
    now: t`Archiving`,
    done: (name) => t`${name} is archived`,
    all: (n) => plural(n, { one: "# workspace is archived", other: "# workspaces are archived" }),
    not: t`Not archived`,
  },
  delete: {
    now: t`Deleting`,
    done: (name) => t`${name} is in the trash`,
    all: (n) => plural(n, { one: "# workspace is in the trash", other: "# workspaces are in the trash" }),
    not: t`Not deleted`,
  },
  move: {
    now: t`Moving`,
    done: (name) => t`${name} is moving`,
    all: (n) => plural(n, { one: "# workspace is moving", other: "# workspaces are moving" }),
    not: t`Not moved`,
  },
  restore: {
    now: t`Restoring`,
    done: (name) => t`${name} is restored`,
    all: (n) => plural(n, { one: "# workspace is restored", other: "# workspaces are restored" }),
    not: t`Not restored`,
  },
};

const AT_ONCE = 4;

/** Runs something for each of many, a few at a time. Failures do not stop the others. */
export async function forEach<T>(
  list: readonly T[],
  run: (item: T) => Promise<void>,
): Promise<{ done: T[]; failed: [T, unknown][] }> {
  const done: T[] = [];
  const failed: [T, unknown][] = [];
  const rest = [...list];
  const worker = async () => {
    for (let item = rest.shift(); item !== undefined; item = rest.shift()) {
      try {
        await run(item);
        done.push(item);
      } catch (error) {
        failed.push([item, error]);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return { done, failed };
}

type Place = { to: string; runner_id?: string };

async function act(action: BulkAction, w: Workspace, place?: Place): Promise<void> {
  const params = { path: { id: w.id } };
  switch (action) {
    case "archive":
      await api.POST("/workspaces/{id}/archive", { params });
      return;
    case "delete":
      await api.DELETE("/workspaces/{id}", { params });
      return;
    case "restore":
      await api.POST("/workspaces/{id}/restore", { params });
      return;
    case "move":
      if (place) await api.POST("/workspaces/{id}/move", { params, body: place });
      return;
    case "stop": {
      const { items } = await data(api.GET("/workspaces/{id}/sessions", { params }));
      for (const s of items.filter((x) => !hasEnded(x) && !isShell(x) && x.agent !== SETUP))
        await api.POST("/sessions/{id}/stop", { params: { path: { id: s.id } }, body: {} });
    }
  }
}

/** Does something with many workspaces: what is under way and what failed is known for each, and what was put away comes back by Undo. */
export function useBulk() {
  const team = useTeam();
  const client = useQueryClient();
  const [busy, setBusy] = useState<ReadonlyMap<string, BulkAction>>(new Map());
  const [problems, setProblems] = useState<ReadonlyMap<string, string>>(new Map());

  const run = async (action: BulkAction, list: readonly Workspace[], place?: Place): Promise<Workspace[]> => {
    const ids = new Set(list.map((w) => w.id));
    setBusy((old) => new Map([...old, ...list.map((w) => [w.id, action] as const)]));
    setProblems((old) => new Map([...old].filter(([id]) => !ids.has(id))));
    const end = (w: Workspace) => setBusy((old) => new Map([...old].filter(([id]) => id !== w.id)));
    const { done, failed } = await forEach(list, (w) => act(action, w, place).finally(() => end(w)));
    void client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] });
    setProblems(
      (old) =>
        new Map([...old, ...failed.map(([w, e]) => [w.id, `${WORDS[action].not}: ${tell(e).message}`] as const)]),
    );
    const undo = action === "archive" || action === "delete";
    if (done.length > 0)
      toast({
        kind: failed.length > 0 ? "note" : "good",
        title: done.length === 1 ? WORDS[action].done(done[0]!.name) : WORDS[action].all(done.length),
        text:
          failed.length > 0
            ? plural(failed.length, {
                one: "# other failed. Each row says why.",
                other: "# others failed. Each row says why.",
              })
            : undefined,
        lasts: 10_000,
        actions: undo ? [{ label: t`Undo`, run: () => void run("restore", done) }] : undefined,
      });
    else if (failed.length > 0)
      toast({
        kind: "bad",
        title:
          failed.length === 1
            ? `${WORDS[action].not}: ${failed[0]![0].name}`
            : t`${WORDS[action].not}: none of ${failed.length}`,
        text: tell(failed[0]![1]).message,
      });
    return done;
  };
  return { busy, problems, run };
}

export type Bulk = ReturnType<typeof useBulk>;
