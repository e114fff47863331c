import { t } from "@lingui/core/macro";
import { Suspense } from "react";
import type { Workspace } from "@/api/client";
import { Skeleton } from "@/kit/states";
import { GitWork } from "./git-work";
import { SLOTS } from "./slots";

const ORDER = ["first", "before", "beside", "after"] as const;

/** Everything on the way from "it is done" to "it is merged", from top to bottom. */
export default function MergeTab({ workspace }: { workspace: Workspace }) {
  const state = workspace.pull_request?.state;
  const open = state === "open" || state === "draft";
  return (
    <section
      aria-label={t`Update, merge, push`}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
      tabIndex={0}
      className="h-full overflow-y-auto -outline-offset-2"
    >
      <div className="mx-auto flex max-w-3xl flex-col gap-4 p-4">
        <GitWork workspace={workspace} />
        {ORDER.flatMap((place) => SLOTS.filter((s) => ((open && s.open) || s.place) === place)).map(({ id, Card }) => (
          <Suspense key={id} fallback={<Skeleton rows={2} />}>
            <Card workspace={workspace} />
          </Suspense>
        ))}
      </div>
    </section>
  );
}
