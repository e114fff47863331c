import { t } from "@lingui/core/macro";
import type { Schemas } from "@/api/client";

type Run = Schemas["CodeRun"];

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/** The parts of an output that are shown: of a result the richest one, pictures before pages before text. */
export function parts(o: Schemas["CodeOutput"]) {
  const artifacts = Object.entries(o.artifacts ?? {});
  if (o.type !== "result") return { text: o.text ?? "", artifacts };
  const content = o.data ?? {};
  for (const mime of PICTURES)
    if (typeof content[mime] === "string") return { image: `data:${mime};base64,${content[mime]}`, artifacts };
  const svg = content["image/svg+xml"];
  if (typeof svg === "string") return { image: `data:image/svg+xml,${encodeURIComponent(svg)}`, artifacts };
  const html = content["text/html"];
  if (typeof html === "string") return { page: html, artifacts };
  for (const mime of ["text/markdown", "text/latex", "text/plain"]) {
    const text = content[mime];
    if (typeof text === "string") return { text, artifacts };
  }
  const rest = Object.values(content);
  return rest.length > 0 ? { text: JSON.stringify(rest[0], null, 2), artifacts } : { artifacts };
}

const ENDINGS: Partial<Record<Run["state"], string>> = {
  interrupted: t`Interrupted`,
  timed_out: t`It took too long and was interrupted`,
  died: t`The interpreter ended, and its variables are lost`,
  lost: t`Nobody knows how it ended`,
};

/** How a run ended, in words; "" when nothing needs to be said. */
export function ending(r: Pick<Run, "state" | "cause" | "exit_code">): string {
  const words = ENDINGS[r.state];
  if (words) return r.cause ? `${words}: ${r.cause}.` : `${words}.`;
  return r.exit_code ? t`Exit code ${r.exit_code}.` : "";
}
