import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { hourly } from "@/format/money";
import { useNow } from "@/format/now";
import { plain, sentence } from "@/format/text";
import { ago } from "@/format/time";
import { Button } from "@/kit/button";
import { confirm } from "@/state/confirm";
import { isNumber, recall, remember } from "@/state/remember";
import { useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";
import { type OfflineMachine, offlineWords } from "./offline";
import { workspacePlacesQuery } from "./queries";
import type { Place, RemoteSandbox } from "./remote";
import { chosenSize } from "./remote-words";
import { placeBody, placeId } from "./which";

/** The alternative place: a cloud one first, because it is also remote. */
function instead(places: readonly Place[]): { target: Place | undefined; cloud: Place | undefined } {
  const others = places.filter((p) => !p.runner_id && p.allowed);
  const cloud = others.find((p) => p.own_disk);
  return { target: cloud?.available ? cloud : others.find((p) => p.available && p.isolated), cloud };
}

interface Props {
  workspace: Workspace;
  offline: OfflineMachine;
  sandbox: RemoteSandbox | undefined;
}

/** Shown when a workspace's machine is offline: what that means and what the user can do. It never moves anything without being asked. */
export function OfflineBar({ workspace: w, offline, sandbox }: Props) {
  const team = useTeam();
  const now = useNow();
  const client = useQueryClient();
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const waitKey = `wait.${w.id}`;
  const [waits, setWaits] = useState(() => recall(waitKey, isNumber) === (offline.since ?? 0));
  const places = useQuery(workspacePlacesQuery(w.id));
  const items = places.data?.items ?? [];
  const { target, cloud } = instead(items.map((p) => p.executor));
  const changes = items.find((p) => target && placeId(p.executor) === placeId(target))?.changes ?? [];
  const may = team.can("workspace.edit");
  const sync = sandbox?.sync;
  const price = target && (chosenSize(target, undefined)?.price_nano_per_hour ?? target.price_nano_per_hour);
  const go = useMutation({
    mutationFn: (place: string) =>
      data(api.PATCH("/workspaces/{id}", { params: { path: { id: w.id } }, body: placeBody(place) })),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.workspace(w.id) });
      void client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] });
      toast({
        kind: "good",
        title: t`${w.key} continues in ${target?.name ?? t`another place`}`,
        text: t`Start a session there. Unsynced files on ${offline.name} are saved as a snapshot when it is back.`,
        lasts: 0,
      });
    },
    onError: (error) => toastError(t`${w.key} was not moved`, error),
  });
  const ask = async () => {
    if (!target) return;
    const behind = sync && sync.pending > 0 ? plural(sync.pending, { one: "# file", other: "# files" }) : "";
    const yes = await confirm({
      title: t`Continue ${w.key} in ${target.name}?`,
      body: (
        <>
          <p>
            <Trans>
              It continues from the last synced state
              {sync?.synced_at ? `, ${ago(sync.synced_at, now)}` : ""}
              {behind ? t`: ${behind} not synced by then` : ""}.
            </Trans>
          </p>
          <ul className="mt-1 list-disc pl-5">
            {changes.map((c) => (
              <li key={c}>{c}</li>
            ))}
            <li>
              <Trans>
                Sessions at {offline.name} do not move. When the machine is back, its unsynced files are saved as a
                snapshot you can restore. Then the sandbox there ends.
              </Trans>
            </li>
            {price ? <li>{t`It costs ${hourly(price)} an hour while it runs.`}</li> : null}
          </ul>
        </>
      ),
      action: t`Continue in ${target.name}`,
      danger: !target.isolated,
    });
    if (yes) go.mutate(placeId(target));
  };
  const wait = (yes: boolean) => {
    setWaits(yes);
    remember(waitKey, yes ? (offline.since ?? 0) : -1);
  };
  const place = () => void navigate({ search: (s) => ({ ...s, dialog: "place" }) });

  if (waits)
    return (
      <div className="flex min-h-8 flex-wrap items-center gap-x-3 border-b border-hairline bg-bg2 px-4 py-1">
        <p role="status" className="min-w-0 flex-1 basis-60 text-fg2">
          <span aria-hidden>○ </span>
          <Trans>{offlineWords(offline, now)}. Waiting for the machine.</Trans>
        </p>
        {may && (
          <Button look="quiet" onClick={() => wait(false)}>
            <Trans>Choose again</Trans>
          </Button>
        )}
      </div>
    );
  return (
    <section aria-label={t`${offline.name} is offline`} className="border-b border-needs bg-bg2 px-4 py-2">
      <p role="status" className="font-medium">
        <span aria-hidden className="text-needs">
          ◆{" "}
        </span>
        {offlineWords(offline, now)}
      </p>
      <p className="max-w-3xl text-fg2">
        {offline.reason && `${sentence(offline.reason)} `}
        <Trans>
          Sessions there keep running and catch up when it is back. Until then nothing you type reaches them.
        </Trans>
      </p>
      {may && (
        <div className="mt-2 flex flex-wrap items-center gap-2">
          <Button look="primary" onClick={() => wait(true)}>
            <Trans>Wait</Trans>
          </Button>
          {target && (
            <Button
              className="h-auto! min-h-(--control-h) shrink! text-left whitespace-normal!"
              busy={go.isPending && t`Moving`}
              onClick={() => void ask()}
            >
              <Trans>
                Continue in {target.name} from the last synced state{price ? t`, ${hourly(price)} an hour` : ""}
              </Trans>
            </Button>
          )}
          <Button look="quiet" onClick={place}>
            <Trans>Another place…</Trans>
          </Button>
        </div>
      )}
      {may && cloud && !cloud.available && (
        <p className="mt-1 text-meta text-fg3">
          <Trans>
            {cloud.name} cannot take it over now: {plain(cloud.reason)}
          </Trans>
        </p>
      )}
    </section>
  );
}
