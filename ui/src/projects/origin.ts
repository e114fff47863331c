import type { Schemas } from "@/api/client";

/** Where a project comes from, as its viewer may know it: not everybody is told which folder of the server it is. */
export function originOf(source: Schemas["ProjectSource"]): string {
  if (source.url) return source.url;
  if (source.path) return source.path;
  return source.kind === "sample" ? "The sample repository" : "A folder on the server";
}
