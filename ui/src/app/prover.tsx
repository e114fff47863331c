import { Suspense, useEffect } from "react";
import { whenProofNeeded } from "@/api/client";
import { lazy } from "@/kit/part";
import { asking, prove } from "@/state/prove";
import { useStore } from "@/state/store";

const ProveDialog = lazy(() => import("@/signin/prove-dialog"));

/** Asks users to confirm their identity when the server requires it; the change then continues. */
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
