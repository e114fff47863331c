import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { api, data, type Schemas, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { cx } from "@/kit/cx";
import { Empty, Failure, FormError, Skeleton } from "@/kit/states";
import { confirm } from "@/state/confirm";
import { RunBody } from "./run";

type Run = Schemas["CodeRun"];
type Language = Schemas["CodeLanguage"];

const LANGUAGES: [Language, string][] = [
  ["python", "Python"],
  ["javascript", "JavaScript"],
  ["typescript", "TypeScript"],
  ["shell", t`Shell`],
];

interface Props {
  workspace: Pick<Workspace, "id">;
  canRun: boolean;
  /** The run that somebody followed a link to. */
  linked?: string | undefined;
}

/** Code that people and agents ran in interpreters that keep their variables, oldest first, and a field to run more. */
export default function CodeTab({ workspace: w, canRun, linked }: Props) {
  const list = useInfiniteQuery({
    queryKey: keys.code(w.id),
    queryFn: ({ pageParam }) =>
      data(
        api.GET("/workspaces/{id}/code", {
          params: { path: { id: w.id }, query: { limit: 20, ...(pageParam ? { cursor: pageParam } : {}) } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor ?? undefined,
  });
  const runs = (list.data?.pages.flatMap((p) => p.items) ?? []).toReversed();
  const newest = runs.at(-1)?.id;
  const end = useRef<HTMLDivElement>(null);
  const there = runs.some((r) => r.id === linked);
  const { hasNextPage: older, isFetching, fetchNextPage } = list;
  useEffect(() => {
    if (linked && !there && older && !isFetching) void fetchNextPage();
  }, [linked, there, older, isFetching, fetchNextPage]);
  const followed = useRef<string>(undefined);
  useEffect(() => {
    if (linked && there && followed.current !== linked) {
      followed.current = linked;
      document.getElementById(linked)?.scrollIntoView({ block: "start" });
    } else if (newest) end.current?.scrollIntoView({ block: "end" });
  }, [linked, there, newest]);
  if (list.isPending) return <Skeleton rows={6} label={t`Loading what ran`} />;
  if (list.isError && !list.data)
    return (
      <Failure
        className="m-4"
        what={t`What ran could not be loaded.`}
        error={list.error}
        retry={() => void list.refetch()}
      />
    );
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className="min-h-0 flex-1 overflow-y-auto px-4 py-4 md:px-6">
        {list.hasNextPage && (
          <Button busy={list.isFetchingNextPage && t`Loading`} onClick={() => void list.fetchNextPage()}>
            <Trans>Show older</Trans>
          </Button>
        )}
        {runs.length === 0 ? (
          <Empty title={t`Nothing ran yet`}>
            <Trans>
              Python, JavaScript and shell code runs here in the sandbox, and keeps its variables from one run to the
              next. Agents run code in the same place.
            </Trans>
          </Empty>
        ) : (
          <ol className="space-y-6">
            {runs.map((r) => (
              <Ran key={r.id} run={r} canRun={canRun} linked={r.id === linked} />
            ))}
          </ol>
        )}
        <div ref={end} />
      </div>
      {canRun && <Field workspace={w.id} first={runs.at(-1)?.language ?? "python"} />}
    </div>
  );
}

/** One run: its code and what came of it. */
function Ran({ run: r, canRun, linked }: { run: Run; canRun: boolean; linked: boolean }) {
  const now = useNow();
  return (
    <li id={r.id} aria-current={linked || undefined} className={cx(linked && "border-l-2 border-accent pl-3")}>
      <p className="mb-1 text-meta text-fg3">
        {r.agent || t`Run by a person`} · {LANGUAGES.find(([l]) => l === r.language)?.[1]}
        {r.kernel !== "default" && ` · ${r.kernel}`} · <span title={exact(r.created_at)}>{ago(r.created_at, now)}</span>
        {r.fresh && t` · started without variables`}
      </p>
      <RunBody run={r} canRun={canRun} />
    </li>
  );
}

/** The field for more code. */
function Field({ workspace, first }: { workspace: string; first: Language }) {
  const client = useQueryClient();
  const [chosen, setChosen] = useState<Language>();
  const [text, setText] = useState("");
  const language = chosen ?? first;
  const again = () => client.invalidateQueries({ queryKey: keys.code(workspace) });
  const run = useMutation({
    mutationFn: (code: string) =>
      data(api.POST("/workspaces/{id}/code", { params: { path: { id: workspace } }, body: { language, code } })),
    onSettled: again,
  });
  const reset = useMutation({
    mutationFn: () =>
      api.DELETE("/workspaces/{id}/kernels/{language}/{kernel}", {
        params: { path: { id: workspace, language, kernel: "default" } },
      }),
  });
  const start = () => {
    if (text.trim() === "" || run.isPending) return;
    run.mutate(text);
    setText("");
  };
  return (
    <form
      className="border-t border-hairline bg-bg1 px-4 py-3 md:px-6"
      onSubmit={(e) => {
        e.preventDefault();
        start();
      }}
    >
      <textarea
        aria-label={t`Code`}
        value={text}
        onChange={(e) => setText(e.target.value)}
        onKeyDown={(e) => {
          if (e.key === "Enter" && (e.metaKey || e.ctrlKey || e.shiftKey)) {
            e.preventDefault();
            start();
          }
        }}
        rows={Math.min(12, Math.max(3, text.split("\n").length))}
        spellCheck={false}
        autoCapitalize="off"
        autoCorrect="off"
        placeholder={t`Code to run`}
        className="w-full rounded-sm bg-bg2 px-3 py-2 font-mono text-code"
      />
      {run.isError && <FormError error={run.error} />}
      {reset.isError && <FormError error={reset.error} />}
      <div className="mt-2 flex flex-wrap items-center gap-3">
        <label className="flex items-center gap-2">
          <span className="text-fg3">
            <Trans>Language</Trans>
          </span>
          <select
            value={language}
            onChange={(e) => setChosen(e.target.value as Language)}
            className="min-h-9 rounded-sm bg-bg2 px-2"
          >
            {LANGUAGES.map(([l, label]) => (
              <option key={l} value={l}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <Button type="submit" busy={run.isPending && t`Running`}>
          <Trans>Run</Trans>
        </Button>
        <span className="text-meta text-fg3 max-md:hidden">
          <Trans>Shift+Enter runs it</Trans>
        </span>
        <Button
          className="ml-auto"
          busy={reset.isPending && t`Ending`}
          onClick={async () => {
            const sure = await confirm({
              title: t`End the interpreter?`,
              body: t`Its variables are lost. The next run starts another one.`,
              action: t`End it`,
              danger: true,
            });
            if (sure) reset.mutate();
          }}
        >
          <Trans>Reset variables…</Trans>
        </Button>
      </div>
    </form>
  );
}
