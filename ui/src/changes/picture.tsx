import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { raw } from "@/api/client";
import { tell } from "@/api/problem";
import { bytes, within } from "@/format/text";
import { Busy } from "@/kit/states";
import type { ChangedFile, Comparison } from "./diff/types";
import { fixed } from "./source";

const TYPES: Record<string, string> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
  avif: "image/avif",
  bmp: "image/bmp",
  ico: "image/x-icon",
};

interface Props {
  file: ChangedFile;
  workspace: string;
  comparison: Comparison;
}

/** A picture as it was and as it is. */
export function Picture({ file: f, workspace, comparison }: Props) {
  const { from, to } = comparison;
  return (
    <div className="flex flex-wrap gap-4 p-4 font-sans">
      {f.status !== "added" && (
        <Shown
          title={t`Before`}
          of={at(workspace, fixed(from), f.old_path ?? f.path)}
          path={f.old_path ?? f.path}
          color="text-del"
        />
      )}
      {f.status !== "deleted" && (
        <Shown title={t`After`} of={at(workspace, fixed(to), f.path)} path={f.path} color="text-add" />
      )}
    </div>
  );
}

const at = (workspace: string, rev: string, path: string) =>
  `/workspaces/${encodeURIComponent(workspace)}/compare/file?${new URLSearchParams({ rev, path })}`;

const typeOf = (path: string) => TYPES[path.slice(path.lastIndexOf(".") + 1).toLowerCase()];

/** Whether a file is a picture by its name. */
export const isPicture = (path: string) => typeOf(path) !== undefined;

interface ShownProps {
  title: string;
  /** Where its bytes are asked for. */
  of: string;
  path: string;
  color?: string;
  /** What else its bytes depend on. */
  stamp?: string;
}

/** One picture, with its size. */
export function Shown({ title, of, path, color, stamp }: ShownProps) {
  const file = useQuery({
    queryKey: ["picture", of, stamp],
    queryFn: async ({ signal }) => {
      const response = await raw(of, { signal });
      return new Blob([await response.arrayBuffer()], { type: typeOf(path) });
    },
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
    structuralSharing: false,
    retry: 1,
  });
  const [url, setUrl] = useState<string>();
  const [size, setSize] = useState("");
  const [broken, setBroken] = useState(false);
  const blob = file.data;
  useEffect(() => {
    if (!blob) return;
    const made = URL.createObjectURL(blob);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [blob]);
  return (
    <figure className="min-w-40 flex-1">
      <figcaption className="mb-1 text-meta text-fg3">
        <span className={color}>{title}</span> {size}
        {blob && ` ${bytes(blob.size)}`}
      </figcaption>
      {file.isError ? (
        <p role="alert">{tell(file.error).message}</p>
      ) : broken ? (
        <p>
          <Trans>This browser cannot display the image.</Trans>
        </p>
      ) : url ? (
        <img
          src={url}
          alt={`${path}, ${within(title)}`}
          onLoad={(e) => setSize(`${e.currentTarget.naturalWidth} × ${e.currentTarget.naturalHeight},`)}
          onError={() => setBroken(true)}
          className="diff-picture max-h-[480px] max-w-full border border-hairline"
        />
      ) : (
        <Busy>
          <Trans>Loading the image…</Trans>
        </Busy>
      )}
    </figure>
  );
}
