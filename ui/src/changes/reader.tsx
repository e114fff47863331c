import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { ChangeSet, Workspace } from "@/api/client";
import { FilesSwitch } from "@/files/switch";
import { visible } from "@/format/text";
import { useAction } from "@/keys/keyboard";
import { Button } from "@/kit/button";
import { cx } from "@/kit/cx";
import { Icon } from "@/kit/icon";
import { copyLink } from "@/kit/link";
import { useRoom } from "@/kit/room";
import { copyText, Empty } from "@/kit/states";
import { isBoolean, recall, remember } from "@/state/remember";
import { useStore } from "@/state/store";
import { useTeam } from "@/state/team";
import { CommitBox } from "./commit-box";
import type { Comparison, LineRange } from "./diff/types";
import { textOf } from "./diff/walk";
import { DiffView, type DiffViewHandle } from "./diff-view";
import type { ChangesContext } from "./extension";
import { FileTree } from "./file-tree";
import { FindField } from "./find-field";
import { linesOf, lineText } from "./line-address";
import { useMerged } from "./merged";
import { EVERYTHING, type Sides } from "./sides";
import { fixed } from "./source";
import { Toolbar } from "./toolbar";
import { useReading } from "./use-reading";

interface Props {
  workspace: Workspace;
  /** What may be committed; undefined until it is known. */
  live: ChangeSet | undefined;
  newest: { comparison: Comparison; ignoreSpace: boolean };
  /** Above everything: what went wrong while looking. */
  problem: ReactNode;
  onCompare: (sides: Sides) => void;
  onIgnoreSpace: (on: boolean) => void;
}

/** The files of a comparison beside their lines. */
export function Reader({ workspace: w, live, newest, problem, onCompare, onIgnoreSpace }: Props) {
  const team = useTeam();
  const room = useRoom();
  const wide = room >= 600;
  const { file, line } = useSearch({ from: "/$team/w/$key" });
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const { reading, comparison, ignoreSpace, newer, refresh, hold, setViewed } = useReading(w.id, newest);
  const ends = comparison.to.rev === "now";
  const view = useStore(reading.view);
  const diff = useRef<DiffViewHandle>(null);
  const [unchecked, setUnchecked] = useState<ReadonlySet<string>>(new Set());
  const [current, setCurrent] = useState<string>();
  const [split, setSplit] = useState(() => recall("diff.split", isBoolean) ?? false);
  const [finding, setFinding] = useState(false);
  const [find, setFind] = useState("");
  const [hit, setHit] = useState<LineRange>();
  useEffect(() => reading.setOptions({ split: split && wide }), [reading, split, wide]);

  // The chosen lines are a part of the address.
  const chosen = useMemo(() => (file ? linesOf(file, line) : undefined), [file, line]);
  const choose = useCallback(
    (range: LineRange | undefined) =>
      void navigate({
        search: (s) => ({ ...s, file: range?.path ?? s.file, line: range && lineText(range) }),
        replace: true,
        resetScroll: false, // the router would put the lines back to where they were a moment ago
      }),
    [navigate],
  );
  const show = useCallback<ChangesContext["show"]>((path, at) => diff.current?.show(path, at), []);
  // An address that names a file or a line opens there.
  const opened = useRef(false);
  useEffect(() => {
    if (opened.current || !file || view.files.length === 0) return;
    opened.current = true;
    // Opening a link to a line counts as reading.
    if (chosen) hold();
    diff.current?.show(file, chosen && { side: chosen.side, line: chosen.line });
  }, [file, chosen, hold, view.files.length]);

  const latest = useRef({ view, chosen });
  useEffect(() => {
    latest.current = { view, chosen };
  });
  const context = useMemo<ChangesContext>(
    () => ({
      workspace: w,
      comparison,
      live: ends,
      ignoreSpace,
      narrow: !wide,
      chosen: () => {
        const range = latest.current.chosen ?? diff.current?.inHand();
        return range && { ...range, text: textOf(latest.current.view, range) };
      },
      choose,
      show,
      hold,
      refresh,
      focus: () => diff.current?.focus(),
    }),
    [w, comparison, ends, ignoreSpace, wide, choose, show, hold, refresh],
  );
  const added = useMerged(reading, context);
  const copy = () => {
    const range = chosen ?? diff.current?.inHand();
    if (!range) return void copyText(location.href, t`the link`);
    // The link names both states, so it always shows the same lines.
    const states = { from: fixed(comparison.from), to: fixed(comparison.to) };
    copyLink({ tab: "changes", ...states, file: range.path, line: lineText(range) }, t`the link to the line`);
  };
  useAction("copy.link", copy);

  const mayCommit = team.can("workspace.edit") && ends && live !== undefined;
  const choices = useMemo(
    () =>
      mayCommit && live
        ? new Map(live.items.filter((c) => !c.committed).map((c) => [c.path, !unchecked.has(c.path)]))
        : undefined,
    [mayCommit, live, unchecked],
  );
  // Each arriving diff creates new file objects; re-sort the tree only if a hash changed.
  const viewedNames = useMemo(() => view.files.flatMap((f) => (f.viewed ? f.file.path : [])).join("\0"), [view.files]);
  const viewedPaths = useMemo(() => new Set(viewedNames.split("\0")), [viewedNames]);
  const isViewed = useCallback((f: { path: string }) => viewedPaths.has(f.path), [viewedPaths]);
  const onViewed = useCallback(
    (i: number) => {
      const f = reading.view.get().files[i];
      if (f) setViewed(f.file.path, !f.viewed);
    },
    [reading, setViewed],
  );
  const onHit = useCallback((h: LineRange | undefined) => {
    setHit(h);
    if (h) diff.current?.show(h.path, { side: h.side, line: h.line });
  }, []);

  const onCheck = useCallback(
    (paths: string[], on: boolean) =>
      setUnchecked((old) => {
        const next = new Set(old);
        for (const p of paths) on ? next.delete(p) : next.add(p);
        return next;
      }),
    [],
  );
  const onOpen = useCallback(
    (path: string) => {
      if (wide) diff.current?.show(path);
      void navigate({ search: (s) => ({ ...s, file: path, line: undefined }), replace: wide, resetScroll: false });
    },
    [wide, navigate],
  );
  const list = (
    <div className="flex h-full min-h-0 flex-col">
      <FilesSwitch workspace={w} on="changed" changed={comparison.files.length} />
      <FileTree
        files={comparison.files}
        isViewed={isViewed}
        newer={newer}
        added={added}
        current={wide ? current : undefined}
        choices={choices}
        onCheck={onCheck}
        onViewed={setViewed}
        onOpen={onOpen}
      />
      {added.foot}
      {mayCommit && live && <CommitBox workspace={w} live={live} unchecked={unchecked} />}
    </div>
  );

  const tools = {
    workspace: w,
    comparison,
    onCompare,
    newer: ends ? newer.size : comparison.newer,
    onRefresh: ends ? refresh : () => onCompare({ from: comparison.from.rev, to: "now" }),
    ignoreSpace,
    onIgnoreSpace: () => onIgnoreSpace(!ignoreSpace),
    split,
    onSplit: () => {
      remember("diff.split", !split);
      setSplit(!split);
    },
    onFind: () => setFinding(true),
    onLink: chosen && copy,
    added: added.toolbar,
    narrow: !wide,
    tight: room < 900,
  };
  if (!wide && !file)
    return (
      <div className="flex h-full min-h-0 flex-col">
        {problem}
        <Toolbar {...tools} finding={undefined} listing />
        <div className="min-h-0 flex-1">{list}</div>
      </div>
    );

  return (
    <div className="flex h-full min-h-0 flex-col">
      {problem}
      <div className="flex min-h-0 flex-1">
        {wide && (
          <div className={cx("shrink-0 border-r border-hairline", room < 900 ? "w-56" : room < 1200 ? "w-72" : "w-80")}>
            {list}
          </div>
        )}
        <div className="flex min-w-0 flex-1 flex-col">
          <Toolbar
            {...tools}
            finding={
              finding ? (
                <FindField
                  view={view}
                  workspaceId={w.id}
                  ignoreSpace={ignoreSpace}
                  onText={setFind}
                  onHit={onHit}
                  onClose={() => {
                    setFinding(false);
                    setHit(undefined);
                    diff.current?.focus();
                  }}
                />
              ) : undefined
            }
            back={
              wide ? undefined : (
                <Button
                  look="quiet"
                  className="-ml-2"
                  onClick={() => void navigate({ search: (s) => ({ ...s, file: undefined, line: undefined }) })}
                >
                  <Icon name="arrowLeft" size={14} />
                  <Trans>Files</Trans>
                </Button>
              )
            }
          />
          {comparison.files.length === 0 ? (
            <Empty
              title={t`No differences`}
              action={
                <Button onClick={() => onCompare(EVERYTHING)}>
                  <Trans>Show all changes</Trans>
                </Button>
              }
            >
              <Trans>
                Every file is the same in both states: {visible(comparison.from.label)} and{" "}
                {visible(comparison.to.label)}.
              </Trans>
            </Empty>
          ) : (
            <DiffView
              ref={diff}
              reading={reading}
              view={view}
              added={added}
              ignoreSpace={ignoreSpace}
              only={wide ? undefined : file}
              find={find}
              hit={hit}
              chosen={chosen}
              onChoose={choose}
              onViewed={onViewed}
              onFile={setCurrent}
              hold={hold}
            />
          )}
        </div>
      </div>
    </div>
  );
}
