import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { Suspense, useState } from "react";
import { api, data, type Schemas, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { visible } from "@/format/text";
import { clock, exact } from "@/format/time";
import { IconButton } from "@/kit/button";
import { Icon } from "@/kit/icon";
import { copyLink } from "@/kit/link";
import { Menu, MenuItem, MenuLine } from "@/kit/menu";
import { lazy } from "@/kit/part";
import { Counts } from "@/kit/states";
import { confirm } from "@/state/confirm";
import { toastError } from "@/state/toasts";
import { nameOf, type Snapshot } from "./name";

const Restore = lazy(() => import("./restore"));
const Rename = lazy(() => import("./rename"));

/** A replay begins so long before what it is to show. */
const LEAD = 5000;

function Time({ at }: { at: number }) {
  return (
    <time
      dateTime={new Date(at).toISOString()}
      title={exact(at)}
      className="w-16 shrink-0 text-meta leading-5 text-fg3"
    >
      {clock(at, at)}
    </time>
  );
}

/** A line of what people and agents did. */
export function ActivityRow({ activity: a, mark }: { activity: Schemas["Activity"]; mark: string | undefined }) {
  return (
    <li {...marked(mark === a.id, "flex items-baseline gap-3 py-1.5")}>
      <Time at={a.at} />
      <span className="min-w-0 flex-1 break-words">
        {a.text}
        {a.actor_name && <span className="text-fg3"> · {a.actor_name}</span>}
        {Array.isArray(a.data.artifacts) && (
          <span className="block text-meta text-fg3">
            <Trans>Artifacts: {a.data.artifacts.map((x: { name: string }) => visible(x.name)).join(", ")}</Trans>
          </span>
        )}
      </span>
      {(a.kind === "commit" || a.kind === "merge") && <Replay at={a.at} />}
      <IconButton
        label={t`Copy link to this entry`}
        className="-my-1 shrink-0 pointer-coarse:-my-3"
        onClick={() => copyEntry(a.id)}
      >
        <Icon name="copy" size={14} />
      </IconButton>
    </li>
  );
}

const copyEntry = (id: string) => copyLink({ tab: "timeline", item: id }, t`the link`);

/** A row; one that a link leads to is brought into view and marked for a moment. */
const marked = (on: boolean, className: string) => ({
  className: on ? `${className} mark-once` : className,
  "aria-current": on || undefined,
  ref: on ? bring : undefined,
});
const bring = (el: HTMLElement | null) => el?.scrollIntoView({ block: "center" });

/** What the terminals printed around that time. */
function Replay({ at }: { at: number }) {
  return (
    <Link
      to="."
      search={(s) => ({ ...s, tab: "history", session: undefined, at: undefined, when: at - LEAD })}
      className="shrink-0 text-meta leading-5 text-accent hover:underline"
    >
      <Trans>Replay</Trans>
    </Link>
  );
}

interface Props {
  workspace: Workspace;
  snapshot: Snapshot;
  /** The action that caused it. */
  activity: Schemas["Activity"] | undefined;
  /** The id of the entry that a link leads to. */
  mark: string | undefined;
  picked: { id: string; label: string } | undefined;
  onPick: (s: { id: string; label: string }) => void;
}

/** A state of the files that can be looked at, compared and restored. */
export function SnapshotRow({ workspace: w, snapshot: s, activity: a, mark, picked, onPick }: Props) {
  const [dialog, setDialog] = useState<"restore" | "rename">();
  const client = useQueryClient();
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const compare = (from: string, to: string) =>
    void navigate({ search: (old) => ({ ...old, tab: "changes", from, to, file: undefined, line: undefined }) });
  const name = a?.kind === "update" ? a.text : nameOf(s);
  const who = s.actor?.name ?? a?.actor_name;
  const after = () => void client.invalidateQueries({ queryKey: keys.timeline(w.id) });
  const pin = useMutation({
    mutationFn: () =>
      data(api.PATCH("/snapshots/{id}", { params: { path: { id: s.id } }, body: { pinned: !s.pinned } })),
    onSuccess: after,
    onError: (error) => toastError(s.pinned ? t`The snapshot is still pinned` : t`The snapshot was not pinned`, error),
  });
  const remove = useMutation({
    mutationFn: () => data(api.DELETE("/snapshots/{id}", { params: { path: { id: s.id } } })),
    onSuccess: after,
    onError: (error) => toastError(t`The snapshot was not deleted`, error),
  });
  const askRemove = async () => {
    const yes = await confirm({
      title: t`Delete this snapshot?`,
      body: t`“${name}” of ${exact(s.at)} can no longer be restored. The files of the workspace do not change.`,
      action: t`Delete`,
      danger: true,
    });
    if (yes) remove.mutate();
  };
  const choose = () => (picked ? compare(picked.id, s.id) : onPick({ id: s.id, label: name }));
  return (
    <li {...marked(mark === s.id, "flex items-start gap-3 py-1.5 leading-5")}>
      <Time at={s.at} />
      <span className="min-w-0 flex-1 break-words">
        <button type="button" className="text-left hover:underline" onClick={() => compare(`${s.id}^`, s.id)}>
          {name}
        </button>
        {s.pinned && (
          <span className="text-fg3">
            {" "}
            <Trans>· pinned</Trans>
          </span>
        )}
        {who && <span className="text-fg3"> · {who}</span>}
        {s.ignored_files > 0 && (
          <span className="text-fg3">
            {" "}
            <Trans>
              · + {s.ignored_files} ignored {s.ignored_files === 1 ? t`file` : t`files`}
            </Trans>
          </span>
        )}
        {s.missing.length > 0 && (
          <details className="text-meta text-fg2">
            <summary>
              {s.missing.length === 1 ? t`1 file could not be saved` : t`${s.missing.length} files could not be saved`}
            </summary>
            <ul className="pl-4">
              {s.missing.slice(0, 50).map((m) => (
                <li key={m.path + m.reason} className="break-all">
                  {visible(m.path)} {m.reason}
                </li>
              ))}
            </ul>
          </details>
        )}
      </span>
      {a?.kind === "commit" && <Replay at={a.at} />}
      {s.files > 0 && <Counts additions={s.additions} deletions={s.deletions} />}
      <Menu
        trigger={
          <IconButton label={t`Actions for ${name}`} className="-my-1 shrink-0 pointer-coarse:-my-3">
            <Icon name="more" />
          </IconButton>
        }
      >
        <MenuItem onSelect={() => compare(`${s.id}^`, s.id)}>
          <Trans>What changed</Trans>
        </MenuItem>
        <MenuItem onSelect={() => compare("base", s.id)}>
          <Trans>Compare with the base</Trans>
        </MenuItem>
        <MenuItem onSelect={() => compare(s.id, "now")}>
          <Trans>Compare with now</Trans>
        </MenuItem>
        <MenuItem onSelect={choose}>{picked ? t`Compare with “${picked.label}”` : t`Compare with another…`}</MenuItem>
        <MenuItem onSelect={() => setDialog("restore")}>
          <Trans>Restore…</Trans>
        </MenuItem>
        <MenuItem onSelect={() => pin.mutate()}>{s.pinned ? t`Unpin` : t`Pin`}</MenuItem>
        <MenuItem onSelect={() => setDialog("rename")}>
          <Trans>Name…</Trans>
        </MenuItem>
        <MenuItem onSelect={() => copyEntry(s.id)}>
          <Trans>Copy link</Trans>
        </MenuItem>
        <MenuLine />
        <MenuItem danger onSelect={() => void askRemove()}>
          <Trans>Delete…</Trans>
        </MenuItem>
      </Menu>
      <Suspense>
        {dialog === "restore" && (
          <Restore workspace={w} snapshot={s} name={name} onClose={() => setDialog(undefined)} />
        )}
        {dialog === "rename" && <Rename workspace={w} snapshot={s} onClose={() => setDialog(undefined)} />}
      </Suspense>
    </li>
  );
}
