import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useDeferredValue, useEffect, useRef, useState } from "react";
import { folderQuery, folderSearchQuery } from "@/api/queries";
import { visible } from "@/format/text";
import { cx } from "@/kit/cx";
import { inputClass } from "@/kit/field";
import { Icon } from "@/kit/icon";
import { Failure, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";

interface Props {
  /** The chosen repository, "" for none. */
  value: string;
  onChange: (path: string) => void;
  error?: string;
}

/** Folders on the server below the allowed roots; git repositories are marked and can be chosen. */
export function FolderBrowser({ value, onChange, error }: Props) {
  const team = useTeam();
  const [path, setPath] = useState("");
  const [search, setSearch] = useState("");
  const q = useDeferredValue(search.trim());
  const folder = useQuery(folderQuery(team.slug, path));
  const found = useQuery(folderSearchQuery(team.slug, q));
  const list = useRef<HTMLUListElement>(null);
  const searching = q.length >= 2;
  const data = folder.data;

  // The folder one is in can itself be the repository.
  const here = data?.git ? data.path : "";
  const chosen = useRef(onChange);
  chosen.current = onChange;
  useEffect(() => {
    if (here && !searching) chosen.current(here);
  }, [here, searching]);

  if (folder.isError && !data)
    return (
      <Failure what={t`The folders could not be loaded.`} error={folder.error} retry={() => void folder.refetch()} />
    );
  if (data && data.roots.length === 0)
    return (
      <p className="rounded-md bg-bg2 px-3 py-2 text-fg2">
        <Trans>
          No folders are allowed yet. An operator lists them in <code>config.json</code> under{" "}
          <code>projects.allowedRoots</code> and restarts it.
        </Trans>
      </p>
    );

  const entries = searching ? (found.data ?? []) : (data?.entries ?? []);
  const move = (e: React.KeyboardEvent, by: number) => {
    const buttons = [...(list.current?.querySelectorAll<HTMLElement>("button[data-entry]") ?? [])];
    const at = buttons.indexOf(document.activeElement as HTMLElement);
    const next = buttons[Math.max(0, Math.min(buttons.length - 1, at + by))];
    if (next) {
      e.preventDefault();
      next.focus();
    }
  };

  return (
    <div
      onKeyDown={(e) => {
        if (e.key === "ArrowDown") move(e, 1);
        else if (e.key === "ArrowUp") move(e, -1);
        else if (e.key === "Backspace" && !(e.target instanceof HTMLInputElement)) {
          const parent = data?.breadcrumbs.at(-2)?.path ?? "";
          e.preventDefault();
          setPath(parent);
        }
      }}
      role="group"
      aria-label={t`Folder`}
    >
      <div className="mb-1 flex items-baseline justify-between">
        <span className="font-medium">
          <Trans>Folder</Trans>
        </span>
        {value && (
          <span className="ml-3 min-w-0 truncate font-mono text-micro text-fg2" title={value}>
            {visible(value)}
          </span>
        )}
      </div>
      <div className="overflow-hidden rounded-md border border-control">
        <div className="flex flex-wrap items-center gap-2 border-b border-hairline bg-bg2 px-2 py-1.5">
          <nav aria-label={t`Path`} className="flex min-w-0 flex-1 flex-wrap items-center gap-0.5">
            <Crumb label={t`Roots`} onClick={() => setPath("")} current={path === ""} />
            {data?.breadcrumbs.map((b, i) => (
              <span key={b.path} className="flex min-w-0 items-center gap-0.5">
                <span aria-hidden className="text-fg3">
                  /
                </span>
                <Crumb
                  label={visible(b.name || b.path)}
                  onClick={() => setPath(b.path)}
                  current={i === data.breadcrumbs.length - 1}
                />
              </span>
            ))}
          </nav>
          <div className="relative w-44 max-sm:w-full">
            <Icon
              name="search"
              size={14}
              className="pointer-events-none absolute top-1/2 left-2 -translate-y-1/2 text-fg3"
            />
            <input
              aria-label={t`Find a repository by name`}
              placeholder={t`Find a repository`}
              value={search}
              spellCheck={false}
              onChange={(e) => setSearch(e.target.value)}
              className={cx(inputClass, "pl-7")}
            />
          </div>
        </div>
        <ul ref={list} className="h-56 overflow-y-auto p-1" aria-busy={folder.isFetching || found.isFetching}>
          {folder.isPending && <Skeleton label={t`Loading the folder`} />}
          {entries.map((entry) => (
            <li key={entry.path}>
              <button
                type="button"
                data-entry
                aria-pressed={entry.git ? value === entry.path : undefined}
                onClick={() => (entry.git ? onChange(entry.path) : setPath(entry.path))}
                onDoubleClick={() => setPath(entry.path)}
                className="row-h flex w-full items-center gap-2 rounded-sm px-2 text-left -outline-offset-2 hover:bg-bg2 aria-pressed:bg-bg3"
              >
                <Icon
                  name={entry.git ? "git" : "folder"}
                  size={15}
                  className={entry.git ? "text-merged" : "text-fg3"}
                />
                <span className="min-w-0 flex-1 truncate">
                  {visible(entry.name)}
                  {searching && <span className="ml-2 font-mono text-micro text-fg3">{visible(entry.path)}</span>}
                </span>
                {entry.git ? (
                  <span className="text-meta text-fg2">
                    <Trans>git</Trans>
                  </span>
                ) : (
                  <Icon name="chevronRight" size={14} className="text-fg3" />
                )}
              </button>
            </li>
          ))}
          {!folder.isPending && entries.length === 0 && (
            <li className="px-2 py-3 text-fg3">
              {searching
                ? found.isFetching
                  ? t`Looking…`
                  : t`No matching repository in the allowed folders.`
                : t`No folders here.`}
            </li>
          )}
          {data?.truncated && !searching && (
            <li className="px-2 py-1.5 text-meta text-fg3">
              <Trans>Not all folders are shown. Use the search.</Trans>
            </li>
          )}
        </ul>
      </div>
      {error && <p className="mt-1 text-meta text-failed">{error}</p>}
      {here && !searching && (
        <p className="mt-1 text-meta text-fg2">
          <Trans>This folder is a git repository.</Trans>
        </p>
      )}
    </div>
  );
}

function Crumb({ label, onClick, current }: { label: string; onClick: () => void; current: boolean }) {
  return (
    <button
      type="button"
      onClick={onClick}
      aria-current={current ? "location" : undefined}
      className="min-h-6 max-w-40 truncate rounded-sm px-1 text-fg2 hover:text-fg aria-[current]:text-fg"
    >
      {label}
    </button>
  );
}
