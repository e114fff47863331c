import { Trans } from "@lingui/react/macro";
import { useEffect, useState } from "react";
import { Button } from "@/kit/button";
import { served } from "@/kit/part";
import { connection } from "@/state/connection";
import { useStore } from "@/state/store";
import { upgrade } from "@/state/upgrade";

/**
 * Offers to reload once the server has a newer version of the page, which it looks for when a lost connection is back: an upgrade restarts the
 * server. It never reloads by itself. It is part of the first load, because a page of an older version can load nothing more.
 */
export function UpgradeNotice() {
  const found = useStore(upgrade);
  const { events } = useStore(connection);
  const [later, setLater] = useState("");
  const down = events.downSince > 0;
  useEffect(() => {
    // What was down is back when the effect ends.
    if (!down) return;
    return () =>
      void served().then((s) => {
        if (s === "other" && upgrade.get() === "") upgrade.set("there");
      });
  }, [down]);
  if (found === "" || found === later) return null;
  return (
    <div
      role="status"
      className="fixed inset-x-3 bottom-16 z-[45] mx-auto flex w-fit max-w-xl flex-wrap items-center gap-x-3 gap-y-1 panel px-3 py-2 shadow-float md:bottom-4"
    >
      <p className="min-w-0 flex-1 basis-60">
        {found === "missed" ? (
          <Trans>
            This page is of an older version, and a part that you opened is no longer on the server. What you have
            written stays until you reload.
          </Trans>
        ) : (
          <Trans>The server has a new version of this page.</Trans>
        )}
      </p>
      <Button look="primary" onClick={() => location.reload()}>
        <Trans>Reload for the new version</Trans>
      </Button>
      <Button look="quiet" onClick={() => setLater(found)}>
        <Trans>Later</Trans>
      </Button>
    </div>
  );
}
