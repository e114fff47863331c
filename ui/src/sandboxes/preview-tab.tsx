import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Suspense, useEffect, useRef, useState } from "react";
import { api, data, type Workspace } from "@/api/client";
import { sentence } from "@/format/text";
import { Button } from "@/kit/button";
import { lazy } from "@/kit/part";
import { Empty, Failure, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";
import { toastError } from "@/state/toasts";
import { ALLOWED, isWeb, openPreview } from "./preview";
import { openPort, portsQuery } from "./remote";

const SharePort = lazy(() => import("./share-port"));

const SIZES = [
  [t`Full`, undefined],
  [t`Tablet`, 768],
  [t`Phone`, 390],
] as const;

/** What a program in the sandbox serves, in a frame: the port is chosen, its path can be edited. */
export default function PreviewTab({ workspace: w }: { workspace: Workspace }) {
  const team = useTeam();
  const list = useQuery(portsQuery(w.id, true));
  const [chosen, setChosen] = useState<number>();
  if (list.isPending) return <Skeleton rows={4} label={t`Loading the ports`} />;
  if (!list.data)
    return (
      <Failure
        className="m-4"
        what={t`The ports could not be loaded.`}
        error={list.error}
        retry={() => void list.refetch()}
      />
    );
  const { enabled, reason, items } = list.data;
  if (!enabled) return <Empty title={t`Previews are off`}>{sentence(reason)}</Empty>;
  if (!team.can("workspace.edit"))
    return (
      <Empty title={t`No preview`}>
        <Trans>Members who work in the workspace see its ports.</Trans>
      </Empty>
    );
  const port = chosen ?? items[0]?.port;
  if (port === undefined)
    return (
      <Empty title={t`No open ports`}>
        <Trans>Start a server in the workspace, such as npm run dev, and its page appears here.</Trans>
      </Empty>
    );
  const open = items.map((p) => p.port);
  return (
    <Page
      key={port}
      workspace={w.id}
      port={port}
      ports={open.includes(port) ? open : [port, ...open]}
      listens={open.includes(port)}
      onPort={setChosen}
    />
  );
}

interface PageProps {
  workspace: string;
  port: number;
  ports: number[];
  listens: boolean;
  onPort: (port: number) => void;
}

/** One port's page, with its address, its own history and its errors. */
function Page({ workspace, port, ports, listens, onPort }: PageProps) {
  const [visits, setVisits] = useState({ paths: ["/"], at: 0 });
  const [typed, setTyped] = useState<string>();
  const [width, setWidth] = useState<number>();
  const [errors, setErrors] = useState<string[]>([]);
  const [sharing, setSharing] = useState(false);
  const frame = useRef<HTMLIFrameElement>(null);
  const path = visits.paths[visits.at] ?? "/";
  const load = useMutation({
    mutationFn: async (to: string) => {
      const params = { path: { id: workspace, port } };
      const { url } = await data(
        api.POST("/workspaces/{id}/ports/{port}/open", { params, body: { path: to, frame: true } }),
      );
      if (!isWeb(url)) throw new Error(t`The server gave no web address for this port. Try again.`);
      return url;
    },
  });
  const { mutate } = load;
  // biome-ignore lint/correctness/useExhaustiveDependencies: it loads again when the port opens, not with each path
  useEffect(() => {
    if (listens) mutate(path);
  }, [listens, mutate]);
  const origin = load.data && new URL(load.data).origin;
  useEffect(() => {
    const hear = (e: MessageEvent) => {
      // Below a path a page has no origin: then only the window says that it is this frame's.
      if (!frame.current || e.source !== frame.current.contentWindow || (e.origin !== origin && e.origin !== "null"))
        return;
      const m = e.data as { from?: unknown; kind?: unknown; text?: unknown; path?: unknown };
      if (m?.from !== "parawork-preview") return;
      if (m.kind === "start") setErrors([]);
      if (m.kind === "error") setErrors((all) => [...all.slice(-99), String(m.text).slice(0, 2000)]);
      if (m.kind === "location") {
        const now = String(m.path).slice(0, 2000);
        setVisits((v) => {
          if (v.paths[v.at] === now) return v;
          if (v.paths[v.at - 1] === now) return { ...v, at: v.at - 1 };
          const paths = [...v.paths.slice(0, v.at + 1), now].slice(-50);
          return { paths, at: paths.length - 1 };
        });
      }
    };
    addEventListener("message", hear);
    return () => removeEventListener("message", hear);
  }, [origin]);
  const go = (at: number) => {
    const to = visits.paths[at];
    if (to === undefined) return;
    setVisits((v) => ({ ...v, at }));
    mutate(to);
  };
  const visit = (to: string) => {
    const next = to.startsWith("/") ? to : `/${to}`;
    setVisits((v) => {
      const paths = [...v.paths.slice(0, v.at + 1), next].slice(-50);
      return { paths, at: paths.length - 1 };
    });
    setTyped(undefined);
    mutate(next);
  };
  return (
    <section aria-label={t`Preview`} className="flex h-full min-h-0 flex-col">
      <form
        className="flex flex-wrap items-center gap-1.5 border-b border-hairline px-3 py-1.5"
        onSubmit={(e) => {
          e.preventDefault();
          visit(typed ?? path);
        }}
      >
        <Button aria-label={t`Back`} disabled={visits.at === 0} onClick={() => go(visits.at - 1)}>
          ←
        </Button>
        <Button
          aria-label={t`Forward`}
          disabled={visits.at >= visits.paths.length - 1}
          onClick={() => go(visits.at + 1)}
        >
          →
        </Button>
        <Button aria-label={t`Reload`} onClick={() => mutate(path)}>
          ↻
        </Button>
        <select
          aria-label={t`Port`}
          className="h-7 rounded-sm border border-hairline bg-bg px-1 font-mono text-code"
          value={port}
          onChange={(e) => onPort(Number(e.target.value))}
        >
          {ports.map((p) => (
            <option key={p}>{p}</option>
          ))}
        </select>
        <input
          aria-label={t`Path`}
          className="h-7 min-w-32 flex-1 rounded-sm border border-hairline bg-bg px-2 font-mono text-code"
          value={typed ?? path}
          maxLength={2000}
          spellCheck={false}
          onChange={(e) => setTyped(e.target.value)}
          onBlur={() => setTyped(undefined)}
        />
        {SIZES.map(([name, px]) => (
          <Button key={name} aria-pressed={width === px} onClick={() => setWidth(px)}>
            {name}
          </Button>
        ))}
        <Button
          onClick={() =>
            void openPreview(() => openPort(workspace, port, path)).catch((error) =>
              toastError(t`The preview could not be opened`, error),
            )
          }
        >
          <Trans>Open in a new tab</Trans>
        </Button>
        <Button onClick={() => setSharing(true)}>
          <Trans>Share</Trans>
        </Button>
      </form>
      <div className="min-h-0 flex-1 overflow-auto bg-bg2">
        {!listens ? (
          <Empty title={t`Nothing listens on port ${port} yet`}>
            <Trans>The page loads by itself once a program does.</Trans>
          </Empty>
        ) : load.isError ? (
          <Failure
            className="m-4"
            what={t`The preview could not be opened.`}
            error={load.error}
            retry={() => mutate(path)}
          />
        ) : load.data ? (
          <iframe
            key={load.data}
            ref={frame}
            src={load.data}
            title={t`Port ${port}`}
            referrerPolicy="no-referrer"
            sandbox={ALLOWED}
            className="mx-auto h-full w-full border-0 bg-white"
            style={{ maxWidth: width }}
          />
        ) : (
          <Skeleton label={t`Opening the preview`} />
        )}
      </div>
      {errors.length > 0 && (
        <details className="max-h-40 overflow-auto border-t border-hairline px-3 py-1.5">
          <summary className="text-bad">
            {errors.length === 1 ? t`1 error in the console` : t`${errors.length} errors in the console`}
          </summary>
          <ol className="font-mono text-code break-all whitespace-pre-wrap">
            {errors.map((text, i) => (
              <li key={i}>{text}</li>
            ))}
          </ol>
        </details>
      )}
      {sharing && (
        <Suspense>
          <SharePort id={workspace} port={port} onClose={() => setSharing(false)} />
        </Suspense>
      )}
    </section>
  );
}
