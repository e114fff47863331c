import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { raw } from "@/api/client";
import { tell } from "@/api/problem";
import type { ChangedFile, Comparison } from "@/diff/types";
import { bytes } from "@/format/text";
import { Busy } from "@/kit/states";
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
        <Shown title="Before" workspace={workspace} rev={fixed(from)} path={f.old_path ?? f.path} color="text-del" />
      )}
      {f.status !== "deleted" && (
        <Shown title="After" workspace={workspace} rev={fixed(to)} path={f.path} color="text-add" />
      )}
    </div>
  );
}

interface ShownProps {
  title: string;
  workspace: string;
  rev: string;
  path: string;
  color: string;
}

function Shown({ title, workspace, rev, path, color }: ShownProps) {
  const file = useQuery({
    queryKey: ["workspace", workspace, "picture", rev, path],
    queryFn: async ({ signal }) => {
      const q = new URLSearchParams({ rev, path });
      const response = await raw(`/workspaces/${encodeURIComponent(workspace)}/compare/file?${q}`, { signal });
      const kind = TYPES[path.slice(path.lastIndexOf(".") + 1).toLowerCase()];
      return new Blob([await response.arrayBuffer()], { type: kind });
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
        <p>The file is not a picture this browser knows.</p>
      ) : url ? (
        <img
          src={url}
          alt={`${path}, ${title.toLowerCase()}`}
          onLoad={(e) => setSize(`${e.currentTarget.naturalWidth} × ${e.currentTarget.naturalHeight},`)}
          onError={() => setBroken(true)}
          className="diff-picture max-h-[480px] max-w-full border border-hairline"
        />
      ) : (
        <Busy>Loading the picture…</Busy>
      )}
    </figure>
  );
}
