import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Suspense, useState } from "react";
import { api, data, type Schemas, type Workspace } from "@/api/client";
import { useNow } from "@/format/now";
import { bytes, visible } from "@/format/text";
import { ago, exact } from "@/format/time";
import { Button, buttonClass } from "@/kit/button";
import { lazy } from "@/kit/part";
import { Empty, Failure, Skeleton } from "@/kit/states";
import { confirm } from "@/state/confirm";
import { useTeam } from "@/state/team";
import { toastError } from "@/state/toasts";
import { contentUrl, Preview } from "./preview";

const ShareDialog = lazy(() => import("./share-dialog"));

type Artifact = Schemas["Artifact"];

const listKey = (workspaceId: string) => ["workspace", workspaceId, "artifacts"] as const;

interface Props {
  workspace: Workspace;
  /** The artifact that somebody followed a link to, in the version it has. */
  linked: string | undefined;
}

/** The files that outlive the workspace's sandbox: a list, and the one that was chosen. */
export default function ArtifactsTab({ workspace: w, linked }: Props) {
  const [picked, setChosen] = useState<string>();
  const link = useQuery({
    queryKey: ["artifact", linked],
    queryFn: () => data(api.GET("/artifacts/{id}", { params: { path: { id: linked ?? "" } } })),
    enabled: linked !== undefined,
    retry: false, // it was deleted
  });
  const chosen = picked ?? link.data?.name;
  const now = useNow();
  const list = useInfiniteQuery({
    queryKey: listKey(w.id),
    queryFn: ({ pageParam }) =>
      data(
        api.GET("/workspaces/{id}/artifacts", {
          params: { path: { id: w.id }, query: { limit: 50, ...(pageParam ? { cursor: pageParam } : {}) } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor ?? undefined,
  });
  if (list.isPending) return <Skeleton rows={6} label={t`Loading the artifacts`} />;
  if (list.isError && !list.data)
    return (
      <Failure
        className="m-4"
        what={t`The artifacts could not be loaded.`}
        error={list.error}
        retry={() => void list.refetch()}
      />
    );
  const items = list.data.pages.flatMap((p) => p.items);
  const shown = items.find((a) => a.name === chosen) ?? (chosen === link.data?.name ? link.data : undefined);
  if (items.length === 0)
    return (
      <Empty title={t`No artifacts yet`}>
        <Trans>Files that an agent saves, or leaves in its artifacts folder, stay here when its sandbox is gone.</Trans>
      </Empty>
    );
  return (
    <div className="grid h-full min-h-0 @max-3xl:content-start gap-x-6 gap-y-4 overflow-y-auto px-4 py-4 @3xl:grid-cols-[minmax(14rem,22rem)_1fr] @3xl:px-6">
      <div>
        <ul aria-label={t`Artifacts`} className="divide-y divide-hairline border-y border-hairline">
          {items.map((a) => (
            <li key={a.name}>
              <button
                type="button"
                aria-pressed={a.name === chosen}
                onClick={() => setChosen(a.name)}
                className="w-full px-2 py-2 text-left -outline-offset-2 hover:bg-bg2 aria-pressed:bg-bg3"
              >
                <span className="block font-medium break-words">{visible(a.name)}</span>
                <span className="block text-meta text-fg3">
                  {bytes(a.size)} · <span title={exact(a.created_at)}>{ago(a.created_at, now)}</span>
                  {a.versions > 1 && ` · ${plural(a.versions, { one: "# version", other: "# versions" })}`}
                </span>
              </button>
            </li>
          ))}
        </ul>
        {list.hasNextPage && (
          <Button
            className="mt-2"
            busy={list.isFetchingNextPage && t`Loading`}
            onClick={() => void list.fetchNextPage()}
          >
            <Trans>Show older</Trans>
          </Button>
        )}
      </div>
      {shown ? (
        <Shown
          key={shown.name}
          workspace={w}
          newest={shown}
          first={link.data?.name === shown.name ? linked : undefined}
        />
      ) : (
        <p className="text-fg3">{link.isError ? t`That artifact was deleted.` : t`Choose an artifact to see it.`}</p>
      )}
    </div>
  );
}

/** One artifact with its versions, and what can be done with it. */
function Shown({ workspace: w, newest, first }: { workspace: Workspace; newest: Artifact; first: string | undefined }) {
  const client = useQueryClient();
  const team = useTeam();
  const [id, setId] = useState(first);
  const [sharing, setSharing] = useState(false);
  const versions = useQuery({
    queryKey: [...listKey(w.id), newest.name],
    queryFn: () =>
      data(api.GET("/workspaces/{id}/artifacts", { params: { path: { id: w.id }, query: { name: newest.name } } })),
    enabled: newest.versions > 1,
  });
  const all = newest.versions > 1 ? (versions.data?.items ?? [newest]) : [newest];
  const a = all.find((v) => v.id === id) ?? newest;
  const remove = useMutation({
    mutationFn: () => api.DELETE("/artifacts/{id}", { params: { path: { id: a.id } } }),
    onSuccess: () => client.invalidateQueries({ queryKey: listKey(w.id) }),
    onError: (error) => toastError(t`The artifact was not deleted`, error),
  });
  return (
    <section aria-label={a.name} className="min-w-0">
      <div className="mb-3 flex flex-wrap items-center gap-x-3 gap-y-2">
        <h2 className="min-w-0 flex-1 basis-48 text-title font-semibold break-words">{visible(a.name)}</h2>
        {all.length > 1 && (
          <label className="flex items-center gap-2">
            <span className="text-fg3">
              <Trans>Version</Trans>
            </span>
            <select value={a.id} onChange={(e) => setId(e.target.value)} className="min-h-9 rounded-sm bg-bg2 px-2">
              {all.map((v) => (
                <option key={v.id} value={v.id}>
                  {v.version}
                </option>
              ))}
            </select>
          </label>
        )}
        <a href={contentUrl(a)} download={a.name.split("/").at(-1)} className={buttonClass()}>
          <Trans>Download</Trans>
        </a>
        {team.can("session.share") && (
          <Button onClick={() => setSharing(true)}>
            <Trans>Share</Trans>
          </Button>
        )}
        {team.can("workspace.edit") && (
          <Button
            busy={remove.isPending && t`Deleting`}
            onClick={async () => {
              const yes = await confirm({
                title: t`Delete version ${a.version} of ${visible(a.name)}?`,
                body: t`It cannot be restored, and links to it stop working.`,
                action: t`Delete`,
                danger: true,
              });
              if (yes) remove.mutate();
            }}
          >
            <Trans>Delete</Trans>
          </Button>
        )}
      </div>
      <p className="mb-3 text-meta break-words text-fg3">
        <Trans>
          {a.mime} · {bytes(a.size)} · by {a.created_by.name} · <span title="sha256">{a.sha256.slice(0, 12)}</span>
          {Object.entries(a.metadata).map(([k, v]) => ` · ${visible(k)}: ${visible(v)}`)}
        </Trans>
      </p>
      <Preview artifact={a} />
      {sharing && (
        <Suspense>
          <ShareDialog artifact={a} onClose={() => setSharing(false)} />
        </Suspense>
      )}
    </section>
  );
}
