import type { ReactNode } from "react";
import type { Workspace } from "@/api/client";
import CannotServe from "./cannot-serve";
import Starting from "./starting";
import { useWatched } from "./watch";

/** Where no session is yet: the place being made, or why that failed, in the place of what would be there. */
export default function PlaceFirst({ workspace: w, children }: { workspace: Workspace; children: ReactNode }) {
  const { place, name, sandbox, starting, problem } = useWatched(w);
  return (
    <div className="flex h-full min-h-0 flex-col">
      {starting && sandbox && (
        <div className="p-4 md:p-6">
          <Starting workspace={w} sandbox={sandbox} name={name} />
        </div>
      )}
      {!starting && problem && (
        <div className="px-4 pt-4 md:px-6">
          <CannotServe workspace={w} place={place} problem={problem} />
        </div>
      )}
      {/* What was filled in stays while its place starts, and its answer still comes back to it. */}
      <div hidden={starting} className={starting ? undefined : "min-h-0 flex-1 overflow-y-auto"}>
        {children}
      </div>
    </div>
  );
}
