import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Suspense, useState } from "react";
import { BASE } from "@/api/client";
import { bytes, visible } from "@/format/text";
import { Button, buttonClass } from "@/kit/button";
import { Dialog } from "@/kit/dialog";
import { Segmented } from "@/kit/field";
import { lazy } from "@/kit/part";
import { Failure, Skeleton } from "@/kit/states";
import { Ports } from "@/sandboxes/ports";
import { portsQuery } from "@/sandboxes/remote";
import { useTeam } from "@/state/team";
import { folderQuery } from "./queries";
import { nameOf, purposeOf, type Sandbox } from "./words";

const CodeTab = lazy(() => import("@/code/tab"));

type Tab = "code" | "files" | "ports";
const TABS: [Tab, string][] = [
  ["code", t`Code`],
  ["files", t`Files`],
  ["ports", t`Ports`],
];

/** One sandbox: code to run in it, its files and its ports. */
export default function OpenDialog({ sandbox: s, onClose }: { sandbox: Sandbox; onClose: () => void }) {
  const team = useTeam();
  const [tab, setTab] = useState<Tab>("code");
  const workspace = { id: s.workspace_id };
  return (
    <Dialog open wide onClose={onClose} title={nameOf(s)} about={purposeOf(s.purpose)}>
      <div className="px-4 pt-3 pb-2 md:px-5">
        <Segmented label={t`What is shown`} value={tab} onChange={setTab} options={TABS} />
      </div>
      <div className="min-h-0 flex-1 overflow-y-auto md:h-[60vh]">
        {tab === "code" && (
          <Suspense fallback={<Skeleton label={t`Loading what ran`} />}>
            <CodeTab workspace={workspace} canRun={team.can("workspace.edit")} />
          </Suspense>
        )}
        {tab === "files" && <Files id={s.id} />}
        {tab === "ports" && <PortsOf id={s.workspace_id} />}
      </div>
    </Dialog>
  );
}

function PortsOf({ id }: { id: string }) {
  const ports = useQuery(portsQuery(id, true));
  return (
    <div className="px-4 pb-4 md:px-5">
      {ports.isPending ? (
        <Skeleton rows={3} label={t`Loading the ports`} />
      ) : ports.isError && !ports.data ? (
        <Failure what={t`The ports could not be loaded.`} error={ports.error} retry={() => void ports.refetch()} />
      ) : (
        <Ports workspace={{ id }} ports={ports.data} />
      )}
    </div>
  );
}

function Files({ id }: { id: string }) {
  const [path, setPath] = useState("");
  const folder = useQuery(folderQuery(id, path));
  return (
    <div className="px-4 pb-4 md:px-5">
      <div className="flex flex-wrap items-center gap-2">
        <Button
          disabled={!path}
          onClick={() => setPath(path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "")}
        >
          <Trans>Up</Trans>
        </Button>
        <Button onClick={() => void folder.refetch()}>
          <Trans>Refresh</Trans>
        </Button>
        <span className="min-w-0 font-mono text-code break-all text-fg3">/{visible(path)}</span>
      </div>
      {folder.isPending ? (
        <Skeleton rows={4} label={t`Loading the files`} />
      ) : folder.isError && !folder.data ? (
        <Failure
          className="mt-2"
          what={t`The files could not be loaded.`}
          error={folder.error}
          retry={() => void folder.refetch()}
        />
      ) : folder.data.items.length === 0 ? (
        <p className="mt-2 text-fg2">
          <Trans>No files.</Trans>
        </p>
      ) : (
        <ul className="mt-2 divide-y divide-hairline border-y border-hairline">
          {folder.data.items.map((f) => (
            <li key={f.path} className="flex min-h-9 items-center gap-3 py-1">
              <span className="min-w-0 flex-1 font-mono text-code break-all">
                {visible(f.name)}
                {f.type === "dir" && "/"}
              </span>
              {f.type === "dir" ? (
                <Button aria-label={t`Open ${visible(f.name)}`} onClick={() => setPath(f.path)}>
                  <Trans>Open</Trans>
                </Button>
              ) : (
                f.type === "file" && (
                  <>
                    <span className="text-meta text-fg3 tabular-nums">{bytes(f.size)}</span>
                    <a
                      className={buttonClass()}
                      download={f.name}
                      aria-label={t`Download ${visible(f.name)}`}
                      href={`${BASE}/sandboxes/${encodeURIComponent(id)}/files?path=${encodeURIComponent(f.path)}`}
                    >
                      <Trans>Download</Trans>
                    </a>
                  </>
                )
              )}
            </li>
          ))}
        </ul>
      )}
      {folder.data?.truncated && (
        <p className="mt-1 text-meta text-fg3">
          <Trans>There are more than can be shown.</Trans>
        </p>
      )}
    </div>
  );
}
