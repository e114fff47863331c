import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, useBlocker, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { api, data, type Workspace } from "@/api/client";
import { ApiError } from "@/api/problem";
import { changesQuery, keys } from "@/api/queries";
import { useTeam } from "@/app/team";
import { useTitle } from "@/app/use-title";
import { splitPath, visible } from "@/format/text";
import { useAction } from "@/keys/keyboard";
import { Button, buttonClass, IconButton } from "@/kit/button";
import { inputClass } from "@/kit/field";
import { Icon } from "@/kit/icon";
import { Menu, MenuItem } from "@/kit/menu";
import { Empty, Failure, Skeleton } from "@/kit/states";
import { useMedia } from "@/kit/use-media";
import { confirm } from "@/state/confirm";
import { toast, toastError } from "@/state/toasts";
import { useWorkspaceByKey } from "@/workspaces/use-workspace";
import type { CodeHandle } from "./editor/code";
import { Conflict } from "./editor/conflict";
import { type Draft, draftOf, dropDraft, keepDraft, type Loaded, load, NotText, remove, save } from "./editor/file";

const Code = lazy(() => import("./editor/code"));
const route = getRouteApi("/$team/w/$key/edit");

/** A file of a workspace, edited in the browser while its agent works. */
export function EditorScreen() {
  const { key } = route.useParams();
  const { path } = route.useSearch();
  const team = useTeam();
  const found = useWorkspaceByKey(team.slug, key);
  useTitle(path ? visible(path) : key);
  const w = found.workspace;
  const file = useQuery({
    queryKey: ["workspace", w?.id, "edit", path],
    queryFn: () => load(w!.id, path!),
    enabled: Boolean(w && path),
    // What is being edited is read once: newer texts come through a conflict.
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    retry: (n, error) => !(error instanceof NotText) && n < 2,
  });
  if (found.error)
    return (
      <Failure className="m-4" what="The workspace could not be loaded." error={found.error} retry={found.retry} />
    );
  if (!w) return <Skeleton rows={5} label="Loading the workspace" />;
  if (!path) return <NoFile workspace={w} />;
  if (file.isPending) return <Skeleton rows={8} label="Loading the file" />;
  if (file.isError)
    return file.error instanceof NotText ? (
      <Empty title={`${visible(path)} cannot be edited here`} action={<Back workspace={w} path={path} />}>
        {file.error.message} Change it in a terminal.
      </Empty>
    ) : (
      <Failure
        className="m-4"
        what="The file could not be read."
        error={file.error}
        retry={() => void file.refetch()}
      />
    );
  return <Editor key={`${w.id} ${path}`} workspace={w} path={path} file={file.data} />;
}

function Back({ workspace: w, path }: { workspace: Workspace; path: string }) {
  const team = useTeam();
  return (
    <Link
      to="/$team/w/$key"
      params={{ team: team.slug, key: w.key }}
      search={{ tab: "changes", file: path }}
      className={buttonClass("quiet")}
    >
      Changes
    </Link>
  );
}

/** Nothing is named yet: a new file is. */
function NoFile({ workspace: w }: { workspace: Workspace }) {
  const team = useTeam();
  const navigate = useNavigate();
  if (!team.can("workspace.edit")) return <Empty title="No file">Open one from the changes of the workspace.</Empty>;
  return (
    <div className="flex h-full min-h-0 flex-col">
      <NameForm
        start=""
        action="Open"
        onCancel={() =>
          void navigate({ to: "/$team/w/$key", params: { team: team.slug, key: w.key }, search: { tab: "changes" } })
        }
        onName={(path) =>
          void navigate({ to: "/$team/w/$key/edit", params: { team: team.slug, key: w.key }, search: { path } })
        }
      />
      <Empty title="Which file?">
        Name it from the top folder of the workspace, such as{" "}
        <span className="font-mono text-[12px]">docs/notes.md</span>. It is made when you save it; one that is there is
        opened.
      </Empty>
    </div>
  );
}

function Editor({ workspace: w, path, file }: { workspace: Workspace; path: string; file: Loaded }) {
  const team = useTeam();
  const client = useQueryClient();
  const navigate = useNavigate();
  const can = team.can("workspace.edit");
  const wide = useMedia("(min-width: 768px)");
  const code = useRef<CodeHandle>(null);
  // Text that was not saved before a reload goes on, with the file it was made from.
  const [begun] = useState(() => draftOf(w.id, path));
  const [base, setBase] = useState<Loaded>(begun ? { text: begun.base, hash: begun.hash } : file);
  const [text, setText] = useState(begun?.text ?? file.text);
  const [theirs, setTheirs] = useState<Loaded | undefined>(begun && begun.hash !== file.hash ? file : undefined);
  const [busy, setBusy] = useState<string>();
  const [renaming, setRenaming] = useState<"rename" | "new">();
  const dirty = text !== base.text;
  const isNew = base.hash === "";
  const { dir, name } = splitPath(path);

  useEffect(() => {
    if (dirty) keepDraft(w.id, path, { base: base.text, hash: base.hash, text } satisfies Draft);
    else dropDraft(w.id, path);
  }, [dirty, w.id, path, base, text]);
  useBlocker({ shouldBlockFn: () => false, enableBeforeUnload: () => dirty });

  // The set of changes tells when the agent has written the file.
  const changes = useQuery(changesQuery(w.id));
  const item = changes.data?.items.find((c) => c.path === path);
  const moved = Boolean(item?.hash && base.hash && item.hash.length === base.hash.length && item.hash !== base.hash);

  const lookAgain = async () => {
    try {
      const now = await load(w.id, path);
      if (now.hash === base.hash) return;
      if (!dirty) {
        setBase(now);
        code.current?.set(now.text);
        setText(now.text);
      } else setTheirs(now);
    } catch (error) {
      toastError("The file could not be read again", error);
    }
  };
  const write = async () => {
    if (busy || !can || (!dirty && !isNew) || theirs) return;
    setBusy("Saving");
    try {
      const hash = await save(w.id, path, text, base.hash);
      setBase({ text, hash });
      toast({ kind: "good", title: `Saved ${visible(path)}` });
      void client.invalidateQueries({ queryKey: keys.changes(w.id) });
    } catch (error) {
      if (error instanceof ApiError && (error.code === "file_changed" || error.code === "file_exists"))
        await lookAgain();
      else toastError("It was not saved. Your text is kept in this browser", error, () => void write());
    } finally {
      setBusy(undefined);
    }
  };
  useAction("editor.save", () => void write(), can); // the text itself has the key of its own
  const go = (to: string) =>
    navigate({ to: "/$team/w/$key/edit", params: { team: team.slug, key: w.key }, search: { path: to } });
  const rename = async (to: string) => {
    setBusy("Renaming");
    try {
      await data(api.POST("/workspaces/{id}/rename", { params: { path: { id: w.id } }, body: { from: path, to } }));
      if (dirty) keepDraft(w.id, to, { base: base.text, hash: base.hash, text });
      dropDraft(w.id, path);
      await go(to);
    } catch (error) {
      toastError("It was not renamed", error);
    } finally {
      setBusy(undefined);
    }
  };
  const drop = async () => {
    const yes = await confirm({
      title: `Remove ${visible(path)}?`,
      body: "All files are kept in a snapshot first: the timeline brings it back.",
      action: "Remove",
      danger: true,
    });
    if (!yes) return;
    try {
      await remove(w.id, path, base.hash);
      dropDraft(w.id, path);
      toast({ kind: "good", title: `Removed ${visible(path)}` });
      await navigate({ to: "/$team/w/$key", params: { team: team.slug, key: w.key }, search: { tab: "changes" } });
    } catch (error) {
      if (error instanceof ApiError && error.code === "file_changed") await lookAgain();
      toastError("It was not removed", error);
    }
  };

  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className="flex min-h-10 items-center gap-2 border-b border-hairline bg-bg1 px-3 py-1">
        <Back workspace={w} path={path} />
        {/* Where there is little room it is the name that is read, not the folders. */}
        <h1 className="min-w-0 flex-1 truncate font-mono text-[12.5px]" title={visible(path)}>
          {wide && <span className="text-fg3">{visible(dir)}</span>}
          {visible(name)}
        </h1>
        <span role="status" className="text-meta whitespace-nowrap text-fg3">
          {isNew ? "New file" : !dirty ? "Saved" : wide ? "Not saved, kept in this browser" : "Not saved"}
        </span>
        {can && (
          <>
            {wide ? (
              <>
                <Button look="quiet" onClick={() => setRenaming("new")}>
                  New file
                </Button>
                {!isNew && (
                  <>
                    <Button look="quiet" onClick={() => setRenaming("rename")}>
                      Rename
                    </Button>
                    <Button look="quiet" onClick={() => void drop()}>
                      Remove
                    </Button>
                  </>
                )}
              </>
            ) : (
              <Menu
                trigger={
                  <IconButton label="More: new file, rename, remove">
                    <Icon name="more" />
                  </IconButton>
                }
              >
                <MenuItem onSelect={() => setRenaming("new")}>New file…</MenuItem>
                {!isNew && <MenuItem onSelect={() => setRenaming("rename")}>Rename…</MenuItem>}
                {!isNew && (
                  <MenuItem danger onSelect={() => void drop()}>
                    Remove…
                  </MenuItem>
                )}
              </Menu>
            )}
            <Button
              look="primary"
              keys="mod+s"
              busy={busy}
              disabled={(!dirty && !isNew) || Boolean(theirs)}
              onClick={() => void write()}
            >
              Save
            </Button>
          </>
        )}
      </div>
      {renaming && (
        <NameForm
          start={path}
          action={renaming === "rename" ? "Rename" : "Open"}
          onCancel={() => setRenaming(undefined)}
          onName={(to) => {
            setRenaming(undefined);
            void (renaming === "rename" ? rename(to) : go(to));
          }}
        />
      )}
      {moved && !theirs && (
        <div role="status" className="flex flex-wrap items-center gap-2 border-b border-hairline bg-bg2 px-3 py-1.5">
          <span className="flex-1">The file was written since you opened it.</span>
          <Button onClick={() => void lookAgain()}>{dirty ? "Put together" : "Show it"}</Button>
        </div>
      )}
      {theirs && (
        <Conflict
          base={base.text}
          mine={text}
          theirs={theirs.text}
          gone={theirs.hash === ""}
          onTake={(next) => {
            setBase(theirs);
            setTheirs(undefined);
            code.current?.set(next);
            setText(next);
            code.current?.focus();
          }}
        />
      )}
      <Suspense fallback={<Skeleton rows={8} label="Loading the editor" />}>
        <Code ref={code} path={path} start={text} readOnly={!can} onChange={setText} onSave={() => void write()} />
      </Suspense>
    </div>
  );
}

function NameForm({
  start,
  action,
  onName,
  onCancel,
}: {
  start: string;
  action: string;
  onName: (name: string) => void;
  onCancel: () => void;
}) {
  const [name, setName] = useState(start);
  return (
    <form
      aria-label={action}
      className="flex flex-wrap items-center gap-2 border-b border-hairline bg-bg2 px-3 py-1.5"
      onSubmit={(e) => {
        e.preventDefault();
        if (name.trim() && name !== start) onName(name.trim());
      }}
      onKeyDown={(e) => e.key === "Escape" && onCancel()}
    >
      <input
        // biome-ignore lint/a11y/noAutofocus: opened by a button to type into
        autoFocus
        aria-label="Path of the file"
        spellCheck={false}
        value={name}
        onChange={(e) => setName(e.target.value)}
        className={`${inputClass} max-w-xl flex-1 font-mono`}
      />
      <Button type="submit" disabled={!name.trim() || name === start}>
        {action}
      </Button>
      <Button look="quiet" onClick={onCancel}>
        Cancel
      </Button>
    </form>
  );
}
