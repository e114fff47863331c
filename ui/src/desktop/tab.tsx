import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Suspense, useRef, useState } from "react";
import { api, data, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { sentence } from "@/format/text";
import { Button } from "@/kit/button";
import { lazy } from "@/kit/part";
import { CopyLine, Empty, Failure, FormError, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";

const Live = lazy(() => import("./live"));

const LOOK_AGAIN = 4_000; // ms, while none runs: agents start one, too

/** The workspace's desktop: starting it, and its screen. */
export default function DesktopTab({ workspace: w, canUse }: { workspace: Workspace; canUse: boolean }) {
  const params = { path: { id: w.id } };
  const ran = useRef(false);
  const [denied, setDenied] = useState(false);
  const state = useQuery({
    queryKey: keys.desktop(w.id),
    queryFn: () => data(api.GET("/workspaces/{id}/desktop", { params })),
    refetchInterval: (q) => q.state.data?.status !== "running" && LOOK_AGAIN,
  });
  const start = useAction({
    act: () => data(api.POST("/workspaces/{id}/desktop", { params, body: {} })),
    refresh: [keys.desktop(w.id)],
  });
  if (denied)
    return (
      <Empty title={t`You may not watch this desktop`}>
        <Trans>Your rights have changed.</Trans>
      </Empty>
    );
  if (state.isPending) return <Skeleton rows={6} label={t`Loading the desktop`} />;
  const d = state.data;
  if (!d)
    return (
      <Failure
        className="m-4"
        what={t`The state of the desktop could not be loaded.`}
        error={state.error}
        retry={() => void state.refetch()}
      />
    );
  if (d.status === "running") {
    ran.current = true;
    return (
      <Suspense fallback={<Skeleton rows={6} label={t`Connecting to the desktop`} />}>
        <Live
          workspace={w}
          canUse={canUse}
          chromium={d.chromium}
          onEnded={() => void state.refetch()}
          onDenied={() => setDenied(true)}
        />
      </Suspense>
    );
  }
  if (d.status === "missing") {
    const [why, command, rest] = d.reason.split("`");
    return (
      <Empty title={t`This sandbox has no desktop`}>
        {sentence(command ? (why ?? "").replace(/,? such as by\s*$/, "") : d.reason)}
        {command && <CopyLine text={command} label={t`the command`} />}
        {rest && sentence(rest.replace(/^,\s*or\s*/, "or do so "))}
      </Empty>
    );
  }
  return (
    <Empty
      title={start.busy ? t`The desktop is starting` : t`No desktop is running`}
      action={
        canUse && (
          <Button look="primary" busy={start.busy && t`Starting`} onClick={() => void start.run()}>
            <Trans>Start</Trans>
          </Button>
        )
      }
    >
      {ran.current && t`The last one has ended: somebody ended it, or nobody used it for a while. `}
      {d.status === "unknown" && t`The sandbox is not running. `}
      <Trans>An agent starts one{canUse && t`, or press Start`}.</Trans>
      {start.error && <FormError error={start.error} />}
    </Empty>
  );
}
