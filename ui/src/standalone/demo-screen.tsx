import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { ApiError } from "@/api/problem";
import { RunBody } from "@/code/run";
import { useNow } from "@/format/now";
import { memory } from "@/format/size";
import { duration } from "@/format/time";
import { Button, buttonClass } from "@/kit/button";
import { Logo } from "@/kit/mark";
import { NotFoundPage } from "@/kit/pages";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { useTitle } from "@/state/use-title";
import { left } from "./words";

type Run = Schemas["CodeRun"];
type Language = Schemas["CodeLanguage"];

const LANGUAGES: Record<Language, string> = {
  python: "Python",
  javascript: "JavaScript",
  typescript: "TypeScript",
  shell: t`Shell`,
};

const KEY = ["demo"];

/** The most runs that stay on the page. */
const SHOWN = 20;

/** Code for whoever comes by: no login, a sandbox of their own, narrow limits. */
export function DemoScreen() {
  useTitle(t`Try Parawork`);
  const demo = useQuery({ queryKey: KEY, queryFn: () => data(api.GET("/demo")), retry: false });
  if (demo.error instanceof ApiError && demo.error.status === 404) return <NotFoundPage />;
  return (
    <main className="h-full overflow-y-auto">
      <div className="mx-auto max-w-text px-4 py-6 md:px-6">
        <header className="mb-4 flex flex-wrap items-center justify-between gap-2">
          <p className="flex items-center gap-2 font-semibold">
            <Logo />
            Parawork
          </p>
          <Link to="/login" className={buttonClass()}>
            <Trans>Sign in</Trans>
          </Link>
        </header>
        <h1 className="text-figure font-semibold">
          <Trans>Run code in a sandbox</Trans>
        </h1>
        {demo.isPending ? (
          <Skeleton rows={4} label={t`Loading the demo`} />
        ) : demo.isError && !demo.data ? (
          <Failure what={t`The demo could not be loaded.`} error={demo.error} retry={() => void demo.refetch()} />
        ) : (
          <Demo demo={demo.data} loadedAt={demo.dataUpdatedAt} />
        )}
      </div>
    </main>
  );
}

function Demo({ demo: d, loadedAt }: { demo: Schemas["Demo"]; loadedAt: number }) {
  const client = useQueryClient();
  const [language, setLanguage] = useState<Language>("python");
  const [text, setText] = useState("");
  const [runs, setRuns] = useState<Run[]>([]);
  const end = useRef<HTMLDivElement>(null);
  // The server's clock decides when a sandbox ends.
  const now = useNow(1000) + d.now - loadedAt;
  const sandbox = d.sandbox && d.sandbox.ends_by > now ? d.sandbox : undefined;

  const run = useMutation({
    mutationFn: async (code: string) => {
      const { id } = sandbox ?? (await data(api.POST("/demo/sandboxes")));
      if (!sandbox) await client.invalidateQueries({ queryKey: KEY });
      const answer = data(
        api.POST("/demo/sandboxes/{id}/code", { params: { path: { id } }, body: { language, code } }),
      );
      return answer as Promise<Run>; // JSON: no stream was asked for
    },
    onSuccess: (r) => setRuns((all) => [...all, r].slice(-SHOWN)),
    onError: () => client.invalidateQueries({ queryKey: KEY }),
  });
  const stop = useMutation({
    mutationFn: (id: string) => api.DELETE("/demo/sandboxes/{id}", { params: { path: { id } } }),
    onSettled: () => client.invalidateQueries({ queryKey: KEY }),
  });
  const newest = runs.at(-1)?.id;
  useEffect(() => {
    if (newest) end.current?.scrollIntoView({ block: "nearest" });
  }, [newest]);
  const start = () => {
    if (text.trim() !== "" && !run.isPending) run.mutate(text);
  };

  return (
    <>
      <p className="mt-1 text-fg2">
        <Trans>
          It is yours alone for {plural(d.minutes, { one: "# minute", other: "# minutes" })}, or until you leave it
          unused for {duration(d.idle_seconds * 1000)}. It has {d.cpus} {d.cpus === 1 ? t`core` : t`cores`},{" "}
          {memory(d.memory_mb * 1024 * 1024)} of memory and no network. A run may take {duration(d.run_seconds * 1000)}.
          Nothing is kept: do not enter anything secret.
        </Trans>
      </p>
      <form
        className="mt-4"
        onSubmit={(e) => {
          e.preventDefault();
          start();
        }}
      >
        <textarea
          aria-label={t`Code`}
          value={text}
          maxLength={32768}
          onChange={(e) => setText(e.target.value)}
          onKeyDown={(e) => {
            if (e.key === "Enter" && (e.metaKey || e.ctrlKey || e.shiftKey)) {
              e.preventDefault();
              start();
            }
          }}
          rows={Math.min(16, Math.max(6, text.split("\n").length))}
          spellCheck={false}
          autoCapitalize="off"
          autoCorrect="off"
          placeholder={t`Code to run`}
          className="w-full rounded-sm bg-bg2 px-3 py-2 font-mono text-code"
        />
        <div className="mt-2 flex flex-wrap items-center gap-3">
          <label className="flex items-center gap-2">
            <span className="text-fg3">
              <Trans>Language</Trans>
            </span>
            <select
              value={language}
              onChange={(e) => setLanguage(e.target.value as Language)}
              className="min-h-9 rounded-sm bg-bg2 px-2"
            >
              {d.languages.map((l) => (
                <option key={l} value={l}>
                  {LANGUAGES[l]}
                </option>
              ))}
            </select>
          </label>
          <Button look="primary" type="submit" busy={run.isPending && (sandbox ? t`Running` : t`Starting`)}>
            <Trans>Run</Trans>
          </Button>
          <span className="text-meta text-fg3 max-md:hidden">
            <Trans>Shift+Enter runs it</Trans>
          </span>
          {sandbox && (
            <span className="ml-auto flex flex-wrap items-center gap-3">
              <span role="timer" className="text-meta text-fg3 tabular-nums">
                <Trans>{left(sandbox.ends_by, now)} left</Trans>
              </span>
              <Button busy={stop.isPending && t`Ending`} onClick={() => stop.mutate(sandbox.id)}>
                <Trans>End the sandbox</Trans>
              </Button>
            </span>
          )}
        </div>
      </form>
      <div className="mt-4 space-y-4">
        <FormError error={run.error ?? stop.error} />
        <ol aria-label={t`Results`} className="space-y-6">
          {runs.map((r) => (
            <li key={r.id}>
              <RunBody run={r} canRun={false} />
            </li>
          ))}
        </ol>
        <div ref={end} />
      </div>
      <p className="mt-8 border-t border-hairline pt-3 text-fg2">
        <Trans>
          Members run agents on their own projects, with a network and files that stay.{" "}
          <Link to="/login" className="underline">
            Sign in
          </Link>
        </Trans>
      </p>
    </>
  );
}
