import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { Suspense, useState } from "react";
import { SETUP } from "@/agents/built-in";
import { api, data, type Session, type Workspace } from "@/api/client";
import { changesQuery, executorsQuery, keys } from "@/api/queries";
import { useAction } from "@/keys/keyboard";
import { Button, buttonClass, IconButton } from "@/kit/button";
import { inputClass } from "@/kit/field";
import { Icon } from "@/kit/icon";
import { Mark } from "@/kit/mark";
import { Menu, MenuItem, MenuLine } from "@/kit/menu";
import { lazy } from "@/kit/part";
import { Counts, copyText } from "@/kit/states";
import { Danger, onDangerous } from "@/machines/danger";
import { OverlapMark } from "@/merge/overlap-mark";
import { PullMark } from "@/merge/pull-mark";
import PlaceLine from "@/sandboxes/line";
import { findPlace } from "@/sandboxes/which";
import { OwnSecretsItem } from "@/sessions/own-secrets";
import { hasEnded, isShell } from "@/sessions/sessions";
import { useAgentPane, useShownSession } from "@/sessions/shown-session";
import { StateChip } from "@/sessions/state-chip";
import { useStop } from "@/sessions/use-stop";
import { useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";
import { standing } from "./groups";
import { PrivacyItem } from "./privacy";
import { PrivateMark } from "./private-mark";
import type { Side, WorkspaceDialog } from "./search";

const MuteItems = lazy(() => import("@/inbox/notices/mute-items"));
const Deliver = lazy(() => import("./deliver"));
const ShareDialog = lazy(() => import("@/sessions/share-dialog"));

interface Props {
  workspace: Workspace;
  sessions: Session[];
  /** What is open beside the agent. */
  side: Side | undefined;
}

/** Name, key, state, branch and place of a workspace, and what can be done with it. */
export function WorkspaceHead({ workspace: w, sessions, side }: Props) {
  const team = useTeam();
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const [renaming, setRenaming] = useState(false);
  const [sharing, setSharing] = useState<Session | undefined>();
  const s = standing(w);
  const closed = Boolean(w.deleted_at) || w.state === "archived";
  const ready = w.state === "ready" || w.state === "paused";
  const edit = team.can("workspace.edit");
  const executors = useQuery(executorsQuery(team.slug));
  const place = findPlace(executors.data, w);

  const shown = useShownSession(sessions);
  // The session the workspace's state speaks of.
  const about = w.attention?.session_id;
  const spoken = closed
    ? undefined
    : // The workspace and its sessions are read one after the other: between the two no state fits, and the chip must stay.
      (sessions.find((x) => (about ? x.id === about : x.state === w.agents.state)) ?? shown ?? sessions[0]);
  const running = sessions.filter((x) => !hasEnded(x) && x.agent !== SETUP);
  // The session in front; elsewhere the only agent at work. With several agents, never guess.
  const { view, front } = useAgentPane();
  const agents = running.filter((x) => !isShell(x));
  const inFront = front ? running.find((x) => x.id === shown?.id) : undefined;
  const target = inFront ?? (agents.length === 1 && view !== "shell" ? agents[0] : undefined);
  const stop = useStop(w.id);
  const sharable = !w.deleted_at && team.can("session.share") ? (shown ?? sessions[0]) : undefined;
  const canStop = target !== undefined && team.can("terminal.type");

  const dialog = (d: WorkspaceDialog) => void navigate({ search: (x) => ({ ...x, dialog: d }) });
  const commit = () =>
    void navigate({
      // The file that is open among the files need not be among the changes.
      search: (x) => ({
        ...x,
        ...(x.tab === "files" && { file: undefined, goto: undefined }),
        tab: "changes",
        session: undefined,
      }),
    }).then(() => setTimeout(() => document.getElementById("commit-message")?.focus(), 50));
  const changes = useQuery({ ...changesQuery(w.id), enabled: ready });
  // Until the files are known the number of them says whether there may be something.
  const some = w.changes.files > 0;
  const canCommit = ready && edit && (changes.data?.items.some((c) => !c.committed) ?? some);
  // Offer no merge if everything is merged and there are no newer commits.
  const home = w.merged_at !== null && !(changes.data?.items.some((c) => c.committed) ?? some);
  const canMerge = ready && team.can("workspace.merge") && !home;
  const canMove = edit && !closed;

  useAction("session.stop", () => target && stop.mutate(target), canStop);
  useAction("workspace.commit", commit, canCommit);
  const merge = () => void navigate({ search: (x) => ({ ...x, tab: "merge", session: undefined, dialog: undefined }) });
  useAction("workspace.merge", merge, canMerge);
  useAction("workspace.rename", () => setRenaming(true), edit);
  useAction("workspace.archive", () => dialog("archive"), edit && !closed);
  useAction("workspace.delete", () => dialog("delete"), edit && !w.deleted_at);
  const copyLink = () => void copyText(location.href, t`the link`);
  useAction("copy.link", copyLink);
  useAction("workspace.place", () => dialog("place"), !closed);
  useAction("workspace.move", () => dialog("move"), canMove);
  useAction("copy.branch", () => void copyText(w.branch, t`the branch name`));

  return (
    <header className="squeezed:not-has-[input]:hidden short:flex-nowrap short:items-center short:py-1 flex flex-wrap items-start gap-x-4 gap-y-2 bg-bg1 px-4 pt-3 pb-1.5">
      <div className="min-w-0 flex-1 basis-72 short:basis-0">
        <div className="short:flex-nowrap flex flex-wrap items-baseline gap-x-3 gap-y-0.5">
          {renaming ? (
            <Rename workspace={w} done={() => setRenaming(false)} />
          ) : (
            <h1 className="short:truncate min-w-0 text-title font-semibold break-words">{w.name}</h1>
          )}
          <span className="font-mono text-code whitespace-nowrap text-fg3">{w.key}</span>
          <PrivateMark workspace={w} />
          {onDangerous(w) && <Danger />}
          {/* The line below is not on a phone. */}
          <span className="md:hidden">
            <OverlapMark workspace={w} short />
          </span>
          <span role="status">
            {spoken ? (
              <StateChip session={spoken}>
                <Mark kind={s.mark} word={s.word} />
              </StateChip>
            ) : (
              <Mark kind={s.mark} word={s.word} />
            )}
          </span>
          {s.text && s.group !== "setup" && (
            <span className="min-w-0 text-fg2 break-words max-md:hidden short:hidden">{s.text}</span>
          )}
        </div>
        <p className="mt-0.5 flex flex-wrap items-baseline gap-x-2 text-meta text-fg3 max-md:hidden short:hidden">
          <span className="min-w-0 break-all">
            <span className="font-mono text-code text-fg2">{w.branch || t`no branch yet`}</span>
            <span aria-hidden> ← </span>
            <span className="sr-only">
              {" "}
              <Trans>from</Trans>{" "}
            </span>
            <span className="font-mono text-code">{w.base}</span>
          </span>
          <span aria-hidden>·</span>
          <Suspense fallback={<span>{place?.name ?? (w.runner_name || w.executor)}</span>}>
            <PlaceLine workspace={w} place={place} onOpen={() => dialog("place")} />
          </Suspense>
          {w.changes.files > 0 && (
            <>
              <span aria-hidden>·</span>
              <Counts additions={w.changes.additions} deletions={w.changes.deletions} />
            </>
          )}
          <OverlapMark workspace={w} />
          <PullMark workspace={w} link />
        </p>
      </div>
      <div className="short:flex-nowrap flex flex-wrap items-center gap-2">
        {canStop && (
          <Button
            busy={stop.isPending && t`Stopping`}
            onClick={() => target && stop.mutate(target)}
            title={t`Stop ${target?.agent_name}`}
          >
            <Trans>Stop</Trans>
          </Button>
        )}
        {w.run_id && (
          <Link to="/$team/runs/$run" params={{ team: team.slug, run: w.run_id }} className={buttonClass("plain")}>
            <Trans>Compare</Trans>
          </Link>
        )}
        {canCommit && (
          <Button onClick={commit}>
            <Trans>Commit</Trans>
          </Button>
        )}
        {canMerge && w.runner_folder && (
          <Suspense>
            <Deliver workspace={w} folder={w.runner_folder} />
          </Suspense>
        )}
        {canMerge && side !== "merge" && (
          <Button look={some ? "primary" : "plain"} onClick={merge}>
            <Trans>Merge…</Trans>
          </Button>
        )}
        <Menu
          trigger={
            <IconButton label={t`More actions for this workspace`}>
              <Icon name="more" />
            </IconButton>
          }
        >
          {!closed && (
            <MenuItem onSelect={() => dialog("place")} keys="mod+e p">
              <Trans>Place, limits, network</Trans>
            </MenuItem>
          )}
          {canMove && (
            <MenuItem onSelect={() => dialog("move")} keys="mod+e v">
              <Trans>Move to another place…</Trans>
            </MenuItem>
          )}
          {edit && (
            <MenuItem onSelect={() => setRenaming(true)} keys="f2">
              <Trans>Rename</Trans>
            </MenuItem>
          )}
          <PrivacyItem workspace={w} />
          <OwnSecretsItem workspace={w} />
          <Suspense>
            <MuteItems workspace={w} />
          </Suspense>
          <MenuItem onSelect={copyLink} keys="y l">
            <Trans>Copy link</Trans>
          </MenuItem>
          {sharable && (
            <MenuItem onSelect={() => setSharing(sharable)}>
              <Trans>Share view-only link {sharable.agent_name}…</Trans>
            </MenuItem>
          )}
          {w.branch && (
            <MenuItem onSelect={() => void copyText(w.branch, t`the branch name`)} keys="y b">
              <Trans>Copy branch name</Trans>
            </MenuItem>
          )}
          {w.path && (
            <MenuItem onSelect={() => void copyText(w.path ?? "", t`the folder`)}>
              <Trans>Copy folder on the server</Trans>
            </MenuItem>
          )}
          {edit && (
            <>
              <MenuLine />
              {!closed && (
                <MenuItem onSelect={() => dialog("archive")} keys="mod+e a">
                  <Trans>Archive…</Trans>
                </MenuItem>
              )}
              {!w.deleted_at && (
                <MenuItem danger onSelect={() => dialog("delete")} keys="mod+e d">
                  <Trans>Delete…</Trans>
                </MenuItem>
              )}
            </>
          )}
        </Menu>
        {sharing && (
          <Suspense>
            <ShareDialog session={sharing} workspace={w} onClose={() => setSharing(undefined)} />
          </Suspense>
        )}
      </div>
    </header>
  );
}

function Rename({ workspace: w, done }: { workspace: Workspace; done: () => void }) {
  const team = useTeam();
  const client = useQueryClient();
  const rename = useMutation({
    mutationFn: (name: string) =>
      data(api.PATCH("/workspaces/{id}", { params: { path: { id: w.id } }, body: { name } })),
    onMutate: (name) => {
      const old = client.getQueryData<Workspace>(keys.workspace(w.id));
      if (old) client.setQueryData(keys.workspace(w.id), { ...old, name });
      return old;
    },
    onError: (error, _name, old) => {
      if (old) client.setQueryData(keys.workspace(w.id), old);
      toastError(t`The name was not changed`, error);
    },
    onSettled: () => {
      void client.invalidateQueries({ queryKey: keys.workspace(w.id), exact: true });
      void client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] });
    },
    onSuccess: (_now, name, old) => {
      if (!old || old.name === name) return;
      const undo = () => rename.mutate(old.name);
      toast({ title: t`Renamed to ${name}`, lasts: 10_000, actions: [{ label: t`Undo`, run: undo }] });
    },
  });
  const save = (value: string) => {
    const name = value.trim();
    if (name && name !== w.name) rename.mutate(name);
    done();
  };
  return (
    <input
      // biome-ignore lint/a11y/noAutofocus: the person asked to type here
      autoFocus
      aria-label={t`Name of the workspace`}
      defaultValue={w.name}
      maxLength={200}
      onFocus={(e) => e.target.select()}
      onBlur={(e) => save(e.target.value)}
      onKeyDown={(e) => {
        if (e.key === "Enter") save(e.currentTarget.value);
        else if (e.key === "Escape") {
          e.currentTarget.value = w.name;
          done();
        }
      }}
      className={`${inputClass} max-w-md`}
    />
  );
}
