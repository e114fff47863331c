import { plural, t } from "@lingui/core/macro";
import { type KeyboardEvent, useEffect, useRef, useState } from "react";
import type { Schemas, Workspace } from "@/api/client";
import { count, splitPath, visible } from "@/format/text";
import { Button } from "@/kit/button";
import { cx } from "@/kit/cx";
import { inputClass } from "@/kit/field";
import { Failure } from "@/kit/states";
import { recall, remember } from "@/state/remember";
import { findInFiles, type Query } from "./find";
import { FilesSwitch } from "./switch";

/** How long nothing must be typed before a search begins, in ms. */
const PAUSE_MS = 250;
/** How often results that arrive are drawn, in ms. */
const DRAW_MS = 100;

type Found = Schemas["FoundFile"];
type Line = Schemas["FoundLine"];

interface Props {
  workspace: Workspace;
  changed: number;
  current?: string;
  onOpen: (path: string, goto: string) => void;
}

const EMPTY: Query = { q: "", regex: false, case: false, word: false, glob: "" };
const isQuery = (v: unknown): v is Query => typeof v === "object" && v !== null && typeof (v as Query).q === "string";

/** Searches the lines of all files of a workspace; results are shown as they arrive. */
export function SearchPane({ workspace: w, changed, current, onOpen }: Props) {
  const [query, setQuery] = useState<Query>(() => ({ ...EMPTY, ...recall(`files.search.${w.id}`, isQuery) }));
  const [files, setFiles] = useState<Found[]>([]);
  const [end, setEnd] = useState<Schemas["FindEnd"]>();
  const [error, setError] = useState<unknown>();
  const [again, setAgain] = useState(0);
  const list = useRef<HTMLDivElement>(null);

  // biome-ignore lint/correctness/useExhaustiveDependencies: again is to search once more
  useEffect(() => {
    setEnd(undefined);
    setError(undefined);
    remember(`files.search.${w.id}`, query);
    if (!query.q) {
      setFiles([]);
      return;
    }
    const stop = new AbortController();
    const got: Found[] = [];
    let drawing: ReturnType<typeof setTimeout> | undefined;
    const draw = () => {
      drawing = undefined;
      setFiles([...got]);
    };
    const start = setTimeout(() => {
      findInFiles(w.id, query, stop.signal, (e) => {
        if (e.kind === "end") {
          clearTimeout(drawing);
          got.sort((a, b) => (a.path < b.path ? -1 : 1));
          draw();
          setEnd(e.end);
        } else {
          got.push(e.file);
          drawing ??= setTimeout(draw, got.length === 1 ? 0 : DRAW_MS);
        }
      }).catch((failed) => !stop.signal.aborted && setError(failed));
    }, PAUSE_MS);
    return () => {
      clearTimeout(start);
      clearTimeout(drawing);
      stop.abort();
    };
  }, [w.id, query, again]);

  const set = (part: Partial<Query>) => setQuery((old) => ({ ...old, ...part }));
  const focus = (by: number, from?: Element) => {
    const rows = [...(list.current?.querySelectorAll<HTMLElement>("button") ?? [])];
    const at = from ? rows.indexOf(from as HTMLElement) : -1;
    rows[Math.min(rows.length - 1, Math.max(0, at + by))]?.focus();
  };
  const onKeys = (e: KeyboardEvent) => {
    if (e.key !== "ArrowDown" && e.key !== "ArrowUp") return;
    e.preventDefault();
    e.stopPropagation();
    focus(e.key === "ArrowDown" ? 1 : -1, document.activeElement ?? undefined);
  };
  const option = (flag: "regex" | "case" | "word", label: string, sign: string) => (
    <Button
      look="quiet"
      aria-label={label}
      title={label}
      aria-pressed={query[flag]}
      onClick={() => set({ [flag]: !query[flag] })}
    >
      {sign}
    </Button>
  );
  const lines = files.reduce((n, f) => n + f.matches, 0);

  return (
    <div className="flex h-full min-h-0 flex-col">
      <FilesSwitch workspace={w} on="find" changed={changed} path={current} />
      <search className="flex flex-col gap-1.5 border-b border-hairline bg-bg1 px-3 py-2">
        <input
          // biome-ignore lint/a11y/noAutofocus: opened by a key to type into
          autoFocus
          aria-label={t`Search in files`}
          placeholder={t`Search in files`}
          spellCheck={false}
          value={query.q}
          onChange={(e) => set({ q: e.target.value })}
          onKeyDown={(e) => {
            if (e.key === "ArrowDown") {
              e.preventDefault();
              focus(0);
            } else if (e.key === "Enter") setAgain((n) => n + 1);
          }}
          className={`${inputClass} font-mono`}
        />
        <div className="flex items-center gap-1">
          {option("case", t`Match case`, t`Aa`)}
          {option("word", t`Match whole words`, "abc")}
          {option("regex", t`Regular expression`, ".*")}
          <input
            aria-label={t`Only files that match`}
            placeholder="Files, such as *.go"
            spellCheck={false}
            value={query.glob}
            onChange={(e) => set({ glob: e.target.value })}
            className={`${inputClass} min-w-0 flex-1`}
          />
        </div>
        <p role="status" className="text-meta text-fg3">
          {!query.q
            ? t`Type to search. Files that git ignores are left out.`
            : !end && !error
              ? t`Searching. ${plural(lines, { one: "# line", other: "# lines" })} in ${plural(files.length, { one: "# file", other: "# files" })} so far`
              : end
                ? [
                    t`${plural(end.matches, { one: "# line", other: "# lines" })} in ${plural(end.files, { one: "# file", other: "# files" })}`,
                    unfinished(end),
                  ]
                    .filter(Boolean)
                    .join(". ")
                : ""}
        </p>
      </search>
      <div
        ref={list}
        role="group"
        aria-label={t`Results`}
        onKeyDown={onKeys}
        className="min-h-0 flex-1 overflow-y-auto"
      >
        {error ? (
          <Failure
            className="m-3"
            what={t`The files could not be searched.`}
            error={error}
            retry={() => setAgain((n) => n + 1)}
          />
        ) : (
          <ul>
            {files.map((f) => (
              <FoundIn key={f.path} file={f} onOpen={onOpen} current={f.path === current} />
            ))}
          </ul>
        )}
      </div>
    </div>
  );
}

function unfinished(end: Schemas["FindEnd"]): string {
  switch (end.partial) {
    case "limit":
      return t`There are more: narrow the search`;
    case "time":
      return t`Not everything was searched: it took too long`;
    case "files":
      return t`Not everything was searched: there are too many files`;
  }
  return end.skipped > 0 ? t`${count(end.skipped)} large files were left out` : "";
}

function FoundIn({ file, current, onOpen }: { file: Found; current: boolean; onOpen: Props["onOpen"] }) {
  const { dir, name } = splitPath(file.path);
  return (
    <li className="border-b border-hairline py-1 [content-visibility:auto] [contain-intrinsic-size:auto_60px]">
      <p title={visible(file.path)} className={cx("flex items-baseline gap-2 px-3 py-0.5", current && "bg-bg3")}>
        <span className="shrink-0 font-medium">{visible(name)}</span>
        <span className="min-w-0 flex-1 truncate text-meta text-fg3">{visible(dir)}</span>
        <span className="text-meta text-fg3 tabular-nums">{count(file.matches)}</span>
      </p>
      {file.lines.map((l) => (
        <button
          key={l.line}
          type="button"
          onClick={() => onOpen(file.path, `${l.line}:${l.text.startsWith("…") ? 1 : l.at + 1}`)}
          className="flex min-h-6 w-full items-baseline gap-2 px-3 text-left font-mono text-code -outline-offset-2 hover:bg-bg2 pointer-coarse:min-h-11"
        >
          <span className="w-10 shrink-0 text-right text-fg3 tabular-nums">{l.line}</span>
          <span className="min-w-0 flex-1 truncate whitespace-pre">{shown(l)}</span>
        </button>
      ))}
    </li>
  );
}

/** The line from a little before its match, so that the match is seen. */
function shown(l: Line): string {
  const from = Math.max(0, l.at - 30);
  return visible(l.text.slice(from).trimStart());
}
