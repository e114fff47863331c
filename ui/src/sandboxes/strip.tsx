import type { Workspace } from "@/api/client";
import CannotServe from "./cannot-serve";
import { StartingBar } from "./starting";
import { useWatched } from "./watch";

/** Shown above a terminal while its sandbox starts, or if that failed. Otherwise renders nothing. */
export default function PlaceStrip({ workspace: w }: { workspace: Workspace }) {
  const { place, name, sandbox, starting, problem } = useWatched(w);
  if (starting && sandbox) return <StartingBar workspace={w} sandbox={sandbox} name={name} />;
  if (!problem) return null;
  return (
    <div className="max-h-[50vh] overflow-y-auto border-b border-hairline px-4 py-3">
      <CannotServe workspace={w} place={place} problem={problem} />
    </div>
  );
}
