import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation } from "@tanstack/react-query";
import type { Workspace } from "@/api/client";
import { sentence } from "@/format/text";
import { Button } from "@/kit/button";
import { useTeam } from "@/state/team";
import { toastError } from "@/state/toasts";
import { openPreview } from "./preview";
import { openPort, type Ports as PortList } from "./remote";

/** What listens in the sandbox, each with a way to look at it. */
export function Ports({ workspace: w, ports }: { workspace: Pick<Workspace, "id">; ports: PortList }) {
  const team = useTeam();
  const open = useMutation({
    mutationFn: (port: number) => openPreview(() => openPort(w.id, port)),
    onError: (error) => toastError(t`The preview could not be opened`, error),
  });
  const { enabled, reason, items } = ports;
  return (
    <>
      {!enabled && <p className="text-fg2">{sentence(reason)}</p>}
      {items.length === 0 ? (
        enabled && (
          <p className="text-fg2">
            <Trans>
              No open ports. Start a server in the workspace, such as npm run dev, and its port appears here.
            </Trans>
          </p>
        )
      ) : (
        <ul className="mt-1 divide-y divide-hairline border-y border-hairline">
          {items.map((p) => (
            <li key={p.port} className="flex min-h-8 flex-wrap items-center gap-x-3 gap-y-1 py-1">
              <span className="font-mono text-code">{p.port}</span>
              <span className="min-w-0 flex-1 font-mono text-code break-all text-fg3">{enabled && p.url}</span>
              {enabled && team.can("workspace.edit") && (
                <Button
                  busy={open.isPending && open.variables === p.port && t`Opening`}
                  aria-label={t`Open preview of port ${p.port}`}
                  onClick={() => open.mutate(p.port)}
                >
                  <Trans>Open preview</Trans>
                </Button>
              )}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
