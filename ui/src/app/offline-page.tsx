import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useEffect, useRef, useState } from "react";
import { clock } from "@/format/time";
import { Button } from "@/kit/button";
import { Logo } from "@/kit/mark";
import { comeback } from "@/net/recovery";
import { type Known, readKnown } from "@/state/known";

/** A page that was opened without a connection: it says so, names the workspaces it knows of, and goes on when the server responds. */
export function OfflinePage({ retry }: { retry: () => void }) {
  const [known, setKnown] = useState<Known>();
  const again = useRef(retry);
  again.current = retry;
  useEffect(() => {
    void readKnown().then(setKnown);
    return comeback.wait(() => again.current(), true);
  }, []);
  return (
    <div className="grid h-dvh grid-cols-1 grid-rows-[auto_minmax(0,1fr)]">
      <header className="flex h-(--header-h) items-center gap-2 border-b border-hairline bg-bg1 px-3 font-semibold md:px-4">
        <Logo />
        Parawork
      </header>
      <main className="mx-auto w-full max-w-xl overflow-y-auto p-6">
        <h1 className="text-title font-semibold">
          <Trans>No connection: the server cannot be reached.</Trans>
        </h1>
        <p className="mt-1 text-fg2">
          <Trans>
            Your agents go on working where they are. This page opens by itself when the server responds again.
          </Trans>
        </p>
        <Button className="mt-4" onClick={retry}>
          <Trans>Try now</Trans>
        </Button>
        {known && known.items.length > 0 && (
          <section aria-label={t`Workspaces`} className="mt-8">
            <h2 className="mb-1 text-meta text-fg3">
              <Trans>Workspaces as of {clock(known.at, Date.now())}</Trans>
            </h2>
            <ul className="divide-y divide-hairline border-y border-hairline">
              {known.items.map((w) => (
                <li key={w.key} className="flex min-h-11 items-center gap-3 px-2 py-1">
                  <a
                    href={`/${encodeURIComponent(known.team)}/w/${encodeURIComponent(w.key)}`}
                    className="min-w-0 flex-1 truncate pointer-coarse:py-3"
                  >
                    {w.name}
                  </a>
                  <span className="truncate text-meta text-fg3">{w.project}</span>
                </li>
              ))}
            </ul>
          </section>
        )}
      </main>
    </div>
  );
}
