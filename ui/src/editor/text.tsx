import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useBlocker, useNavigate } from "@tanstack/react-router";
import { Suspense, useEffect, useRef, useState } from "react";
import { api, data, type Schemas, type Workspace } from "@/api/client";
import { ApiError } from "@/api/problem";
import { changesQuery, keys } from "@/api/queries";
import { visible } from "@/format/text";
import { useAction } from "@/keys/keyboard";
import { Button, IconButton } from "@/kit/button";
import { Icon } from "@/kit/icon";
import { copyLink } from "@/kit/link";
import { Menu, MenuItem } from "@/kit/menu";
import { lazy } from "@/kit/part";
import { Skeleton } from "@/kit/states";
import { confirm } from "@/state/confirm";
import { isBoolean, recall, remember } from "@/state/remember";
import { useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";
import { Bar, NameForm, type Tree } from "./bar";
import type { CodeHandle } from "./code";
import { Conflict } from "./conflict";
import { type Draft, draftOf, dropDraft, keepDraft, type Loaded, load, type PlaceIn, remove, save } from "./file";

/** Files that a language server may know; the server says so for certain. */
const served = /\.([mc]?[tj]s|[tj]sx|pyi?|go|rs)$/i;
const NOTHING: Schemas["Diagnostic"][] = [];

const Code = lazy(() => import("./code"));

interface EditorProps {
  workspace: Workspace;
  path: string;
  file: Loaded;
  tree: Tree;
  /** Where the cursor is at first. */
  at?: PlaceIn;
}

/** The text of a file, to be read or changed. */
export function Editor({ workspace: w, path, file, tree, at }: EditorProps) {
  const team = useTeam();
  const client = useQueryClient();
  const navigate = useNavigate();
  const can = team.can("workspace.edit");
  const { wide } = tree;
  const code = useRef<CodeHandle>(null);
  // Restore unsaved text after a reload, with the file it was based on.
  const [begun] = useState(() => draftOf(w.id, path));
  const [base, setBase] = useState<Loaded>(begun ? { text: begun.base, hash: begun.hash } : file);
  const [text, setText] = useState(begun?.text ?? file.text);
  const [theirs, setTheirs] = useState<Loaded | undefined>(begun && begun.hash !== file.hash ? file : undefined);
  const [busy, setBusy] = useState<string>();
  const [renaming, setRenaming] = useState<"rename" | "new">();
  const dirty = text !== base.text;
  const isNew = base.hash === "";

  useEffect(() => {
    if (dirty) keepDraft(w.id, path, { base: base.text, hash: base.hash, text } satisfies Draft);
    else dropDraft(w.id, path);
  }, [dirty, w.id, path, base, text]);
  useBlocker({ shouldBlockFn: () => false, enableBeforeUnload: () => dirty });

  // The change set shows when the agent has written the file.
  const changes = useQuery(changesQuery(w.id));
  const item = changes.data?.items.find((c) => c.path === path);
  // Of a link the changes have the hash of where it leads to, not of the text that is read through it.
  const listed = item?.mode === "120000" ? undefined : item?.hash;
  const moved = Boolean(listed && base.hash && listed.length === base.hash.length && listed !== base.hash);

  // The language server starts when a person opens a file of its language here, and knows the saved text.
  const [checks, setChecks] = useState(() => recall("editor.problems", isBoolean) ?? true);
  const checked = checks && !isNew && served.test(path);
  const problems = useQuery({
    queryKey: [...keys.diagnostics(w.id), path, base.hash],
    queryFn: () => data(api.GET("/workspaces/{id}/diagnostics", { params: { path: { id: w.id }, query: { path } } })),
    enabled: checked,
    refetchInterval: (q) => (q.state.data?.ready === false && q.state.data.language ? 5000 : false),
    retry: false,
  });
  // What is known about another text than the saved one says nothing about this one.
  const known = checked && problems.data?.ready && problems.data.hash === base.hash ? problems.data.items : undefined;
  const items = known ?? NOTHING;
  const counted = (severity: string) => items.filter((d) => d.severity === severity).length;

  const lookAgain = async () => {
    try {
      const now = await load(w.id, path);
      if (now.hash === base.hash) return;
      if (!dirty) {
        setBase(now);
        code.current?.set(now.text);
        code.current?.saved();
        setText(now.text);
      } else setTheirs(now);
    } catch (error) {
      toastError(t`The file could not be read again`, error);
    }
  };
  const write = async () => {
    if (busy || !can || (!dirty && !isNew) || theirs) return;
    setBusy(t`Saving`);
    try {
      const hash = await save(w.id, path, text, base.hash);
      setBase({ text, hash });
      code.current?.saved();
      toast({ kind: "good", title: t`Saved ${visible(path)}` });
      void client.invalidateQueries({ queryKey: keys.changes(w.id) });
    } catch (error) {
      if (error instanceof ApiError && (error.code === "file_changed" || error.code === "file_exists"))
        await lookAgain();
      else toastError(t`The file was not saved. Your text is stored in this browser`, error, () => void write());
    } finally {
      setBusy(undefined);
    }
  };
  useAction("editor.save", () => void write(), can); // the text itself has the key of its own
  const link = () => {
    const { line, end_line } = code.current?.chosen() ?? at ?? { line: 1, end_line: 1 };
    const goto = line === end_line ? `${line}:1` : `${line}-${end_line}`;
    copyLink({ tab: "files", file: path, goto }, t`the link to the line`);
  };
  useAction("copy.link", link, !isNew);
  const go = (to: string, at?: { line: number; character: number }) =>
    navigate({
      to: "/$team/w/$key/edit",
      params: { team: team.slug, key: w.key },
      search: { path: to, goto: at && `${at.line}:${at.character}` },
    });
  const rename = async (to: string) => {
    setBusy(t`Renaming`);
    try {
      await data(api.POST("/workspaces/{id}/rename", { params: { path: { id: w.id } }, body: { from: path, to } }));
      if (dirty) keepDraft(w.id, to, { base: base.text, hash: base.hash, text });
      dropDraft(w.id, path);
      await go(to);
    } catch (error) {
      toastError(t`The file was not renamed`, error);
    } finally {
      setBusy(undefined);
    }
  };
  const drop = async () => {
    const yes = await confirm({
      title: t`Delete ${visible(path)}?`,
      body: t`A snapshot of all files is saved first. You can restore the file from the timeline.`,
      action: t`Remove`,
      danger: true,
    });
    if (!yes) return;
    try {
      await remove(w.id, path, base.hash);
      dropDraft(w.id, path);
      toast({ kind: "good", title: t`Deleted ${visible(path)}` });
      await navigate({ to: "/$team/w/$key", params: { team: team.slug, key: w.key }, search: { tab: "changes" } });
    } catch (error) {
      if (error instanceof ApiError && error.code === "file_changed") await lookAgain();
      toastError(t`The file was not deleted`, error);
    }
  };

  return (
    <div className="flex h-full min-h-0 flex-col">
      <Bar workspace={w} path={path} tree={tree}>
        <span role="status" className="text-meta whitespace-nowrap text-fg3">
          {isNew ? t`New file` : !dirty ? t`Saved` : wide ? t`Unsaved, stored in this browser` : t`Unsaved`}
        </span>
        {served.test(path) && !isNew && (
          <Button
            look="quiet"
            aria-pressed={checks}
            title={
              problems.data?.reason ||
              problems.error?.message ||
              t`Problems that the language server finds in the saved file`
            }
            onClick={() => {
              remember("editor.problems", !checks);
              setChecks(!checks);
            }}
          >
            {!checks
              ? t`Problems off`
              : problems.isPending
                ? t`Checking`
                : !known
                  ? t`Not checked`
                  : items.length === 0
                    ? t`No problems`
                    : `${plural(counted("error"), { one: "# error", other: "# errors" })}, ${plural(counted("warning"), { one: "# warning", other: "# warnings" })}`}
          </Button>
        )}
        {!isNew && (wide || !can) && (
          <IconButton label={t`Copy link to the line`} onClick={link}>
            <Icon name="copy" />
          </IconButton>
        )}
        {can && (
          <>
            {wide ? (
              <>
                <Button look="quiet" onClick={() => setRenaming("new")}>
                  <Trans>New file</Trans>
                </Button>
                {!isNew && (
                  <>
                    <Button look="quiet" onClick={() => setRenaming("rename")}>
                      <Trans>Rename</Trans>
                    </Button>
                    <Button look="quiet" onClick={() => void drop()}>
                      <Trans>Remove</Trans>
                    </Button>
                  </>
                )}
              </>
            ) : (
              <Menu
                trigger={
                  <IconButton label={t`More: new file, link, rename, delete`}>
                    <Icon name="more" />
                  </IconButton>
                }
              >
                <MenuItem onSelect={() => setRenaming("new")}>
                  <Trans>New file…</Trans>
                </MenuItem>
                {!isNew && (
                  <MenuItem onSelect={link}>
                    <Trans>Copy link to the line</Trans>
                  </MenuItem>
                )}
                {!isNew && (
                  <MenuItem onSelect={() => setRenaming("rename")}>
                    <Trans>Rename…</Trans>
                  </MenuItem>
                )}
                {!isNew && (
                  <MenuItem danger onSelect={() => void drop()}>
                    <Trans>Delete…</Trans>
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
              <Trans>Save</Trans>
            </Button>
          </>
        )}
      </Bar>
      {renaming && (
        <NameForm
          start={path}
          action={renaming === "rename" ? t`Rename` : t`Open`}
          onCancel={() => setRenaming(undefined)}
          onName={(to) => {
            setRenaming(undefined);
            void (renaming === "rename" ? rename(to) : go(to));
          }}
        />
      )}
      {moved && !theirs && (
        <div role="status" className="flex flex-wrap items-center gap-2 border-b border-hairline bg-bg2 px-3 py-1.5">
          <span className="flex-1">
            <Trans>The file changed since you opened it.</Trans>
          </span>
          <Button onClick={() => void lookAgain()}>{dirty ? t`Merge` : t`Show changes`}</Button>
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
      <Suspense fallback={<Skeleton rows={8} label={t`Loading the editor`} />}>
        <Code
          ref={code}
          path={path}
          start={text}
          readOnly={!can}
          server={checked ? w.id : undefined}
          diagnostics={items}
          at={at}
          onChange={setText}
          onSave={() => void write()}
          onOpen={(to) => void go(to.path, to)}
        />
      </Suspense>
    </div>
  );
}
