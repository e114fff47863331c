import { t } from "@lingui/core/macro";
import { createContext, useContext } from "react";
import { BASE, type Schemas } from "@/api/client";
import { bytes, visible } from "@/format/text";

/** The thread that is shown: what its parts refer to is fetched from there. */
export const ThreadId = createContext("");

type Part = Schemas["ThreadPart"];

/** The pictures and files of parts, and the whole of texts that are shown in part. Each opens large, in a tab of its own. */
export function PartMedia({ parts }: { parts: readonly Part[] }) {
  const thread = useContext(ThreadId);
  const shown = parts.filter((p) => p.media);
  if (shown.length === 0 || thread === "") return null;
  return (
    <div className="mt-1 flex flex-wrap items-start gap-2">
      {shown.map((p) => {
        const url = `${BASE}/threads/${encodeURIComponent(thread)}/media/${encodeURIComponent(p.media!)}`;
        const name = p.name ? visible(p.name) : "";
        return (
          <a
            key={`${p.media} ${name}`}
            href={url}
            target="_blank"
            rel="noopener"
            className="min-h-6 text-meta text-accent hover:underline pointer-coarse:min-h-11"
          >
            {p.kind === "image" ? (
              <img
                src={url}
                alt={name || t`Picture of the result`}
                title={[name, `${p.width}×${p.height}`].filter(Boolean).join(", ")}
                width={p.width}
                height={p.height}
                loading="lazy"
                className="h-auto max-h-[40vh] w-auto max-w-full rounded-sm bg-white"
              />
            ) : p.kind === "file" ? (
              `${name}, ${bytes(p.size ?? 0)}`
            ) : (
              t`Open all of it, ${bytes(p.size ?? 0)}`
            )}
          </a>
        );
      })}
    </div>
  );
}
