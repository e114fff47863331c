import { t } from "@lingui/core/macro";
import type { Schemas } from "@/api/client";

/** The origin of a project as the user may see it: not everyone may see which folder on the server it is. */
export function originOf(source: Schemas["ProjectSource"]): string {
  if (source.url) return source.url;
  if (source.path) return source.path;
  return source.kind === "sample" ? t`The sample repository` : t`A folder on the server`;
}
