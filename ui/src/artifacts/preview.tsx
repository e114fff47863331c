import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Suspense } from "react";
import { BASE, type Schemas } from "@/api/client";
import { bytes } from "@/format/text";
import { Prose } from "@/highlight/prose";
import { lazy } from "@/kit/part";
import { Failure, Output, Skeleton } from "@/kit/states";
import { LinkOpener } from "@/state/links";
import { openLink } from "@/terminal/open-link";
import { kindOf, readTable, TEXT_MOST } from "./kind";

const RecordingPlayer = lazy(() => import("@/browser/player"));

type Artifact = Schemas["Artifact"];

/** Where the content of an artifact is. */
export const contentUrl = (a: Artifact, preview = false) =>
  `${BASE}/artifacts/${encodeURIComponent(a.id)}/content${preview ? "?preview=true" : ""}`;

/** An artifact, shown where that is safe. A page an agent wrote gets no origin: the server and the frame both see to it. */
export function Preview({ artifact: a }: { artifact: Artifact }) {
  const kind = kindOf(a.mime);
  const url = contentUrl(a, true);
  switch (kind) {
    case "image":
      return <img src={url} alt={a.name} className="max-h-[70vh] max-w-full rounded-sm bg-bg2 object-contain" />;
    case "video":
      // biome-ignore lint/a11y/useMediaCaption: agents record none
      return <video src={url} controls className="max-h-[70vh] max-w-full" />;
    case "audio":
      // biome-ignore lint/a11y/useMediaCaption: agents record none
      return <audio src={url} controls className="w-full" />;
    case "page":
      return <iframe src={url} title={a.name} sandbox="allow-scripts" className="h-[70vh] w-full bg-white" />;
    case "pdf":
      return <iframe src={url} title={a.name} className="h-[70vh] w-full bg-bg2" />;
    case "recording":
      return (
        <Suspense fallback={<Skeleton rows={4} label={t`Loading the player`} />}>
          <RecordingPlayer url={contentUrl(a)} />
        </Suspense>
      );
    case "none":
      return (
        <p className="text-fg3">
          <Trans>There is no preview of {a.mime}. Download it to open it.</Trans>
        </p>
      );
    default:
      return <Text key={a.id} artifact={a} kind={kind} />;
  }
}

function Text({ artifact: a, kind }: { artifact: Artifact; kind: "markdown" | "csv" | "text" }) {
  const text = useQuery({
    queryKey: ["artifact", a.id, "text"],
    queryFn: async ({ signal }) => {
      const range: Record<string, string> = a.size > TEXT_MOST ? { Range: `bytes=0-${TEXT_MOST - 1}` } : {};
      const answer = await fetch(contentUrl(a, true), { headers: range, signal });
      if (!answer.ok) throw new Error(t`The server answered ${answer.status}.`);
      return answer.text();
    },
    staleTime: Number.POSITIVE_INFINITY, // a version never changes
    gcTime: 60_000,
  });
  if (text.isPending) return <Skeleton rows={4} label={t`Loading the content`} />;
  if (text.isError)
    return <Failure what={t`The content could not be loaded.`} error={text.error} retry={() => void text.refetch()} />;
  return (
    <>
      {kind === "markdown" ? (
        <LinkOpener value={openLink}>
          <Prose text={text.data} />
        </LinkOpener>
      ) : kind === "csv" ? (
        <Table text={text.data} separator={a.mime.includes("tab") ? "\t" : ","} />
      ) : (
        <Output text={text.data} className="max-h-[70vh]" />
      )}
      {a.size > TEXT_MOST && (
        <p className="mt-2 text-meta text-fg3">
          <Trans>
            The first {bytes(TEXT_MOST)} of {bytes(a.size)}. Download it for the rest.
          </Trans>
        </p>
      )}
    </>
  );
}

const ROWS = 500;

function Table({ text, separator }: { text: string; separator: string }) {
  const { rows, more } = readTable(text, separator, ROWS);
  const [head, ...body] = rows;
  if (!head)
    return (
      <p className="text-fg3">
        <Trans>The table is empty.</Trans>
      </p>
    );
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <div tabIndex={0} role="region" aria-label={t`Table`} className="max-h-[70vh] overflow-auto">
      <table className="border-collapse text-left">
        <thead>
          <tr>
            {head.map((cell, i) => (
              <th key={i} className="border border-hairline px-2 py-1 font-medium">
                {cell}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {body.map((row, i) => (
            <tr key={i}>
              {row.map((cell, j) => (
                <td key={j} className="border border-hairline px-2 py-1">
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {more && (
        <p className="mt-2 text-meta text-fg3">
          <Trans>The first {ROWS} rows. Download it for the rest.</Trans>
        </p>
      )}
    </div>
  );
}
