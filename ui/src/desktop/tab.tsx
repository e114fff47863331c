import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useRef, useState } from "react";
import { api, data, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { sentence } from "@/format/text";
import { Button } from "@/kit/button";
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
  if (denied) return <Empty title="You may not watch this desktop">Your rights have changed.</Empty>;
  if (state.isPending) return <Skeleton rows={6} label="Loading the desktop" />;
  const d = state.data;
  if (!d)
    return (
      <Failure
        className="m-4"
        what="The state of the desktop could not be loaded."
        error={state.error}
        retry={() => void state.refetch()}
      />
    );
  if (d.status === "running") {
    ran.current = true;
    return (
      <Suspense fallback={<Skeleton rows={6} label="Connecting to the desktop" />}>
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
      <Empty title="This sandbox has no desktop">
        {sentence(command ? (why ?? "").replace(/,? such as by\s*$/, "") : d.reason)}
        {command && <CopyLine text={command} label="the command" />}
        {rest && sentence(rest.replace(/^,\s*or\s*/, "or do so "))}
      </Empty>
    );
  }
  return (
    <Empty
      title={start.busy ? "The desktop is starting" : "No desktop is running"}
      action={
        canUse && (
          <Button look="primary" busy={start.busy && "Starting"} onClick={() => void start.run()}>
            Start
          </Button>
        )
      }
    >
      {ran.current && "The last one has ended: somebody ended it, or nobody used it for a while. "}
      {d.status === "unknown" && "The sandbox is not running. "}
      An agent starts one{canUse && ", or press Start"}.{start.error && <FormError error={start.error} />}
    </Empty>
  );
}
