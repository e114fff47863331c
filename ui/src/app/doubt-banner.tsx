import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { connection } from "@/state/connection";
import { useStore } from "@/state/store";
import { doubtQuery } from "./doubt";

const LOOK_EVERY = 10_000;

/** Shows above every page that the server is read-only, why, and who can resolve it. Checks on load and while disconnected. */
export default function DoubtBanner({ operator }: { operator: boolean }) {
  const { events } = useStore(connection);
  const cut = events.downSince > 0;
  const { data: why } = useQuery({
    ...doubtQuery(),
    refetchInterval: (q) => (cut || q.state.data ? LOOK_EVERY : false),
  });
  if (!why) return null;
  return (
    <section
      aria-label={t`The server is read-only`}
      role="status"
      className="border-b border-failed bg-bg1 px-3 py-1.5"
    >
      <p>
        <span aria-hidden className="mr-2 text-failed">
          ▲
        </span>
        <strong className="font-semibold">
          <Trans>This server is read-only.</Trans>
        </strong>{" "}
        <span className="text-fg2">
          <Trans>
            Its database has lost records. Agents keep running and no work is removed, but nothing can be changed until
            an operator of this server resolves this.
          </Trans>
        </span>
      </p>
      {operator && <p className="mt-1 break-words text-fg2">{why}</p>}
    </section>
  );
}
