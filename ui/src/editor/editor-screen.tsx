import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { Suspense, useEffect, useRef, useState } from "react";
import { apiUrl, type Workspace } from "@/api/client";
import { ApiError } from "@/api/problem";
import { changesQuery } from "@/api/queries";
import { type FilesHandle, FilesPane } from "@/files/pane";
import { opened } from "@/files/recent";
import { foldersOf } from "@/files/rows";
import { splitPath, visible } from "@/format/text";
import { useAction } from "@/keys/keyboard";
import { Button, buttonClass } from "@/kit/button";
import { useGone } from "@/kit/link";
import { lazy } from "@/kit/part";
import { useRoom } from "@/kit/room";
import { Empty, Failure, Skeleton } from "@/kit/states";
import { isBoolean, recall, remember } from "@/state/remember";
import { useTeam } from "@/state/team";
import { useTitle } from "@/state/use-title";
import { useWorkspaceByKey } from "@/state/use-workspace";
import { Bar, NameForm, type Tree } from "./bar";
import { address, load, NotText, type PlaceIn } from "./file";
import { Editor } from "./text";

// The search is seldom wanted at first.
const SearchPane = lazy(() => import("@/files/search").then((m) => ({ default: m.SearchPane })));

const route = getRouteApi("/$team/w/$key/edit");

/** The files of a workspace, and one of them, edited in the browser while its agent works. */
export function EditorScreen() {
  const { key } = route.useParams();
  const search = route.useSearch();
  const { path } = search;
  const team = useTeam();
  const found = useWorkspaceByKey(team.slug, key);
  useTitle(path ? visible(path) : t`Files of ${found.workspace?.name ?? key}`);
  const w = found.workspace;
  if (found.error)
    return (
      <Failure className="m-4" what={t`The workspace could not be loaded.`} error={found.error} retry={found.retry} />
    );
  if (!w) return <Skeleton rows={5} label={t`Loading the workspace`} />;
  return <FilesTab key={w.id} workspace={w} at={search} />;
}

/** What is open in the files of a workspace. */
export interface FilesAt {
  path?: string;
  /** A new file is being named. */
  naming?: true;
  /** "12:3" is a character of a line, "12-20" are lines, all from 1. */
  goto?: string;
  /** The search in files is shown in the place of the tree. */
  find?: true;
}

interface FilesTabProps {
  workspace: Workspace;
  at: FilesAt;
  /** Opens something else there; without it the page of the files does. */
  go?: (at: FilesAt) => void;
}

/** The file tree next to the open file; where there is little room only one of them. */
export function FilesTab({ workspace: w, at: { path, naming, goto, find }, go }: FilesTabProps) {
  const team = useTeam();
  const navigate = useNavigate();
  const room = useRoom();
  const wide = room >= 600;
  const [shown, setShown] = useState(() => recall("editor.files", isBoolean) ?? true);
  const [open, setOpen] = useState<ReadonlySet<string>>(() => new Set());
  const [last, setLast] = useState(path);
  const pane = useRef<FilesHandle>(null);
  const changes = useQuery(changesQuery(w.id));
  // The folders of the file that is opened are open.
  useEffect(() => {
    if (!path) return;
    setLast(path);
    opened(w.id, path);
    setOpen((old) => (foldersOf(path).every((f) => old.has(f)) ? old : new Set([...old, ...foldersOf(path)])));
  }, [path, w.id]);
  const show = (on: boolean) => {
    remember("editor.files", on);
    setShown(on);
  };
  const to =
    go ??
    ((search: FilesAt) => void navigate({ to: "/$team/w/$key/edit", params: { team: team.slug, key: w.key }, search }));
  const listing = find || (wide ? shown || (!path && !naming) : !path && !naming);
  useAction("files.open", () => {
    if (find) to({ path });
    else if (!listing) wide ? show(true) : to({});
    requestAnimationFrame(() => pane.current?.find());
  });
  const tree: Tree = {
    shown: listing,
    toggle: () => (wide ? show(!shown) : to({})),
    wide,
  };
  return (
    <div className="flex h-full min-h-0">
      {listing && (
        <div
          className={
            wide
              ? `shrink-0 border-r border-hairline ${room < 900 ? "w-56" : room < 1200 ? "w-72" : "w-80"}`
              : "min-w-0 flex-1"
          }
        >
          {find ? (
            <Suspense fallback={<Skeleton rows={4} label={t`Loading the search`} />}>
              <SearchPane
                workspace={w}
                changed={changes.data?.items.length ?? 0}
                current={path}
                onOpen={(next, goto) => to({ path: next, goto, find: wide || undefined })}
              />
            </Suspense>
          ) : (
            <FilesPane
              ref={pane}
              workspace={w}
              current={path ?? last}
              open={open}
              onToggle={(folder, on) =>
                setOpen((old) => {
                  const next = new Set(old);
                  on ? next.add(folder) : next.delete(folder);
                  return next;
                })
              }
              onOpen={(next) => to(next ? { path: next } : {})}
              ready={!path && !naming}
            />
          )}
        </div>
      )}
      {(wide || !listing) && (
        <div className="min-w-0 flex-1">
          {path ? (
            <OneFile key={`${path} ${goto}`} workspace={w} path={path} tree={tree} at={placeOf(goto)} />
          ) : (
            <NoFile workspace={w} naming={Boolean(naming)} />
          )}
        </div>
      )}
    </div>
  );
}

function placeOf(goto: string | undefined): PlaceIn | undefined {
  const [, line, end, character] = (/^(\d{1,9})(?:-(\d{1,9}))?(?::(\d{1,9}))?$/.exec(goto ?? "") ?? []).map(Number);
  return line ? { line, end_line: Math.max(line, end || line), character: character || 1 } : undefined;
}

function OneFile({ workspace: w, path, tree, at }: { workspace: Workspace; path: string; tree: Tree; at?: PlaceIn }) {
  const file = useQuery({
    queryKey: ["workspace", w.id, "edit", path],
    queryFn: () => load(w.id, path),
    // Load the edited file once: newer versions arrive as a conflict.
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    retry: (n, error) => !(error instanceof NotText || (error instanceof ApiError && error.status < 500)) && n < 2,
  });
  const lines = (at && file.data?.text.split("\n").length) ?? 0;
  useGone(
    !at || !file.data
      ? undefined
      : file.data.hash === ""
        ? t`The linked file is not there any more`
        : at.line > lines
          ? t`Line ${at.line} is not there any more: the file ends at line ${lines}`
          : undefined,
    visible(path),
  );
  if (file.data) return <Editor workspace={w} path={path} file={file.data} tree={tree} at={at} />;
  return (
    <div className="flex h-full min-h-0 flex-col">
      <Bar workspace={w} path={path} tree={tree} />
      <div className="min-h-0 flex-1">
        {file.isPending ? (
          <Skeleton rows={8} label={t`Loading the file`} />
        ) : file.error instanceof NotText ? (
          <Empty
            title={t`${visible(splitPath(path).name)} cannot be shown here`}
            action={
              <a href={apiUrl(address(w.id, path))} download className={buttonClass()}>
                <Trans>Download</Trans>
              </a>
            }
          >
            {file.error.message}
          </Empty>
        ) : (
          <Failure
            className="m-4"
            what={t`The file could not be read.`}
            error={file.error}
            retry={() => void file.refetch()}
          />
        )}
      </div>
    </div>
  );
}

/** No file open: choose one, or name a new one. */
function NoFile({ workspace: w, naming }: { workspace: Workspace; naming: boolean }) {
  const team = useTeam();
  const navigate = useNavigate();
  const can = team.can("workspace.edit");
  const to = (search: { path?: string; naming?: true }) =>
    void navigate({ to: "/$team/w/$key/edit", params: { team: team.slug, key: w.key }, search });
  if (!can || !naming)
    return (
      <Empty
        title={t`No file open`}
        action={
          can && (
            <Button onClick={() => to({ naming: true })}>
              <Trans>New file</Trans>
            </Button>
          )
        }
      >
        <Trans>Choose one of the workspace's files.</Trans>
      </Empty>
    );
  return (
    <div className="flex h-full min-h-0 flex-col">
      <NameForm start="" action={t`Open`} onCancel={() => to({})} onName={(path) => to({ path })} />
      <Empty title={t`File path`}>
        <Trans>
          Enter its path relative to the workspace, such as <span className="font-mono text-code">docs/notes.md</span>.
          If the file does not exist, saving creates it.
        </Trans>
      </Empty>
    </div>
  );
}
