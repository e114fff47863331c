import { t } from "@lingui/core/macro";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import type { Workspace } from "@/api/client";
import { toast } from "@/state/toasts";
import { sandboxQuery } from "./queries";

/** Offers the preview of each port that opens while somebody looks at the workspace. Those open before are no news. */
export default function PortOffers({ workspace: w, onPreview }: { workspace: Workspace; onPreview: () => void }) {
  const sandbox = useQuery(sandboxQuery(w.id, true)).data;
  const known = useRef<Set<number>>(undefined);
  const latest = useRef(onPreview);
  latest.current = onPreview;
  useEffect(() => {
    if (!sandbox) return;
    const open = sandbox.state === "running" ? sandbox.ports : [];
    const before = known.current;
    known.current = new Set(open);
    const fresh = before ? open.filter((p) => !before.has(p)).slice(0, 3) : [];
    for (const port of fresh)
      toast({
        title: t`Port ${port} opened`,
        actions: [{ label: t`Preview`, run: () => latest.current() }],
        lasts: 10_000,
      });
  }, [sandbox]);
  return null;
}
