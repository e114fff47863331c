import { useQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { apiUrl, type Workspace } from "@/api/client";
import { ApiError } from "@/api/problem";
import { type FilesHandle, FilesPane } from "@/files/pane";
import { foldersOf } from "@/files/rows";
import { splitPath, visible } from "@/format/text";
import { useAction } from "@/keys/keyboard";
import { Button, buttonClass } from "@/kit/button";
import { Empty, Failure, Skeleton } from "@/kit/states";
import { useMedia } from "@/kit/use-media";
import { isBoolean, recall, remember } from "@/state/remember";
import { useTeam } from "@/state/team";
import { useTitle } from "@/state/use-title";
import { useWorkspaceByKey } from "@/state/use-workspace";
import { Bar, NameForm, type Tree } from "./bar";
import { address, load, NotText } from "./file";
import { Editor } from "./text";

const route = getRouteApi("/$team/w/$key/edit");

/** The files of a workspace, and one of them, edited in the browser while its agent works. */
export function EditorScreen() {
  const { key } = route.useParams();
  const { path } = route.useSearch();
  const team = useTeam();
  const found = useWorkspaceByKey(team.slug, key);
  useTitle(path ? visible(path) : `Files of ${found.workspace?.name ?? key}`);
  const w = found.workspace;
  if (found.error)
    return (
      <Failure className="m-4" what="The workspace could not be loaded." error={found.error} retry={found.retry} />
    );
  if (!w) return <Skeleton rows={5} label="Loading the workspace" />;
  return <Files key={w.id} workspace={w} />;
}

/** The file tree next to the open file; on a phone only one of them. */
function Files({ workspace: w }: { workspace: Workspace }) {
  const { path, naming, goto } = route.useSearch();
  const team = useTeam();
  const navigate = useNavigate();
  const wide = useMedia("(min-width: 768px)");
  const [shown, setShown] = useState(() => recall("editor.files", isBoolean) ?? true);
  const [open, setOpen] = useState<ReadonlySet<string>>(() => new Set());
  const [last, setLast] = useState(path);
  const pane = useRef<FilesHandle>(null);
  // The folders of the file that is opened are open.
  useEffect(() => {
    if (!path) return;
    setLast(path);
    setOpen((old) => (foldersOf(path).every((f) => old.has(f)) ? old : new Set([...old, ...foldersOf(path)])));
  }, [path]);
  const show = (on: boolean) => {
    remember("editor.files", on);
    setShown(on);
  };
  const to = (search: { path?: string }) =>
    void navigate({ to: "/$team/w/$key/edit", params: { team: team.slug, key: w.key }, search });
  const listing = wide ? shown || (!path && !naming) : !path && !naming;
  useAction("files.open", () => {
    if (!listing) wide ? show(true) : to({});
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
        <div className={wide ? "w-72 shrink-0 border-r border-hairline xl:w-80" : "min-w-0 flex-1"}>
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
            onOpen={(next) => to({ path: next })}
            ready={!path && !naming}
          />
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

function placeOf(goto: string | undefined) {
  const [line, character] = (goto ?? "").split(":").map(Number);
  return line ? { line, character: character || 1 } : undefined;
}

function OneFile({
  workspace: w,
  path,
  tree,
  at,
}: {
  workspace: Workspace;
  path: string;
  tree: Tree;
  at?: { line: number; character: number };
}) {
  const file = useQuery({
    queryKey: ["workspace", w.id, "edit", path],
    queryFn: () => load(w.id, path),
    // Load the edited file once: newer versions arrive as a conflict.
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    retry: (n, error) => !(error instanceof NotText || (error instanceof ApiError && error.status < 500)) && n < 2,
  });
  if (file.data) return <Editor workspace={w} path={path} file={file.data} tree={tree} at={at} />;
  return (
    <div className="flex h-full min-h-0 flex-col">
      <Bar workspace={w} path={path} tree={tree} />
      <div className="min-h-0 flex-1">
        {file.isPending ? (
          <Skeleton rows={8} label="Loading the file" />
        ) : file.error instanceof NotText ? (
          <Empty
            title={`${visible(splitPath(path).name)} cannot be shown here`}
            action={
              <a href={apiUrl(address(w.id, path))} download className={buttonClass()}>
                Download
              </a>
            }
          >
            {file.error.message}
          </Empty>
        ) : (
          <Failure
            className="m-4"
            what="The file could not be read."
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
      <Empty title="No file open" action={can && <Button onClick={() => to({ naming: true })}>New file</Button>}>
        Choose one of the workspace's files.
      </Empty>
    );
  return (
    <div className="flex h-full min-h-0 flex-col">
      <NameForm start="" action="Open" onCancel={() => to({})} onName={(path) => to({ path })} />
      <Empty title="File path">
        Enter its path relative to the workspace, such as <span className="font-mono text-[12px]">docs/notes.md</span>.
        If the file does not exist, saving creates it.
      </Empty>
    </div>
  );
}
