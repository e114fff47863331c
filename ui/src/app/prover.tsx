import { Suspense, useEffect } from "react";
import { whenProofNeeded } from "@/api/client";
import { lazy } from "@/kit/part";
import { asking, prove } from "@/state/prove";
import { useStore } from "@/state/store";

const ProveDialog = lazy(() => import("@/signin/prove-dialog"));

/** Lets people prove who they are when the server wants that before a change; the change then goes on by itself. */
export function Prover() {
  const open = useStore(asking);
  useEffect(() => {
    whenProofNeeded(prove);
    return () => {
      whenProofNeeded(async () => false);
      asking.get()?.done(false);
    };
  }, []);
  return <Suspense>{open && <ProveDialog second={open.second} onDone={open.done} />}</Suspense>;
}
