import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import type { Comparison, SideName } from "@/changes/diff/types";
import { useNow } from "@/format/now";
import { visible } from "@/format/text";
import { ago, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Dialog, DialogBody } from "@/kit/dialog";
import { Mark, type MarkKind } from "@/kit/mark";
import { toast, toastError } from "@/state/toasts";
import { type Review, useTakeBack } from "./data";
import { aboutOf, placeOf, type Thread } from "./places";
import { ThreadView } from "./thread";

interface Props {
  workspace: Workspace;
  comparison: Comparison;
  threads: readonly Thread[];
  reviews: readonly Review[];
  onShow: (path: string, line?: { side: SideName; line: number }) => void;
  onClose: () => void;
}

type Show = "open" | "drafts" | "resolved";

/** Every comment of the workspace, also those whose files are not among what is being read. */
export default function AllComments({ workspace: w, comparison, threads, reviews, onShow, onClose }: Props) {
  const drafts = threads.filter((t) => !t.review || t.replies.some((r) => t.drafts.has(r.id)));
  const open = threads.filter((t) => t.review && t.root.state === "open");
  const resolved = threads.filter((t) => t.root.state === "resolved");
  const [show, setShow] = useState<Show>(drafts.length > 0 ? "drafts" : "open");
  const list = { open, drafts, resolved }[show];
  const said = reviews.filter((r) => r.state !== "cancelled" || r.mine);
  const tabs: [Show, string, number][] = [
    ["open", t`Open`, open.length],
    ["drafts", t`Your drafts`, drafts.length],
    ["resolved", t`Resolved`, resolved.length],
  ];
  return (
    <Dialog open wide onClose={onClose} title={t`Comments`}>
      <fieldset className="flex flex-wrap gap-1 px-4 pt-2 md:px-5">
        <legend className="sr-only">
          <Trans>Which comments</Trans>
        </legend>
        {tabs.map(([id, name, n]) => (
          <Button
            key={id}
            look="quiet"
            aria-pressed={show === id}
            onClick={() => setShow(id)}
            className="aria-pressed:bg-bg3 aria-pressed:text-fg"
          >
            {name} {n}
          </Button>
        ))}
      </fieldset>
      <DialogBody focusable>
        {list.length === 0 && (
          <p className="py-4 text-fg2">
            {show === "open"
              ? t`No open comments. Select a line and press c to comment on it.`
              : show === "drafts"
                ? t`You have no drafts. Select a line and press c to comment on it.`
                : t`No resolved comments yet.`}
          </p>
        )}
        <ul className="-mx-2">
          {list.map((t) => {
            const at = placeOf(t.root, comparison);
            return (
              <li key={t.root.id}>
                <ThreadView workspace={w.id} thread={t} listed onGo={onClose}>
                  <p className="mb-1 flex flex-wrap items-baseline gap-x-2 text-meta text-fg3">
                    <span className="min-w-0 font-mono break-all text-fg2">
                      {visible(t.root.current_path || t.root.path)}
                    </span>
                    <span>{aboutOf(t.root)}</span>
                    {!t.root.current_path && (
                      <span>
                        <Trans>The file is gone</Trans>
                      </span>
                    )}
                    {at && (
                      <Button
                        look="quiet"
                        className="h-6!"
                        onClick={() => onShow(at.path, at.line > 0 ? { side: at.side, line: at.line } : undefined)}
                      >
                        <Trans>Go to comment</Trans>
                      </Button>
                    )}
                  </p>
                </ThreadView>
              </li>
            );
          })}
        </ul>
        {drafts.length > 0 && show === "drafts" && <ThrowAway workspace={w.id} onDone={onClose} />}
        {said.length > 0 && (
          <section aria-labelledby="review-said" className="mt-4 border-t border-hairline pt-3">
            <h3 id="review-said" className="mb-1 font-semibold">
              <Trans>Reviews</Trans>
            </h3>
            <ul className="divide-y divide-hairline">
              {said.toReversed().map((r) => (
                <Said key={r.id} workspace={w.id} review={r} />
              ))}
            </ul>
          </section>
        )}
      </DialogBody>
    </Dialog>
  );
}

/** One review in the list of what was said. */
function Said({ workspace, review: r }: { workspace: string; review: Review }) {
  const now = useNow();
  const back = useTakeBack(workspace);
  const [mark, word] = standsAs(r);
  const at = r.sent_at ?? r.updated_at;
  const takes = r.mine && (r.state !== "sent" || r.verdict !== "comment");
  return (
    <li className="flex flex-wrap items-baseline gap-x-2 gap-y-1 py-2">
      <span className="font-medium">{r.mine ? t`You` : visible(r.author_name)}</span>
      <Mark kind={mark} word={word} />
      <span className="text-meta text-fg3" title={exact(at)}>
        {ago(at, now)}
      </span>
      <span className="text-meta text-fg2">{plural(r.comments.length, { one: "# comment", other: "# comments" })}</span>
      {takes && (
        <Button look="quiet" className="h-6!" busy={back.isPending} onClick={() => back.mutate(r.id)}>
          {r.state === "sent" ? t`Withdraw the verdict` : r.sent_at ? t`Unsend` : t`Restore`}
        </Button>
      )}
      {(r.reason || r.waits) && (
        <span className="basis-full text-meta break-words text-fg2">{r.reason || r.waits}</span>
      )}
      {r.body && <p className="basis-full break-words whitespace-pre-wrap">{r.body}</p>}
    </li>
  );
}

function standsAs(r: Review): [MarkKind, string] {
  switch (r.state) {
    case "queued":
      return ["setup", t`Queued for the agent`];
    case "failed":
      return ["failed", t`Not delivered`];
    case "cancelled":
      return ["stopped", r.sent_at ? t`Cancelled` : t`Discarded`];
  }
  switch (r.verdict) {
    case "approve":
      return ["merged", t`Approved`];
    case "changes":
      return ["needs", t`Changes requested`];
  }
  return ["review", t`Commented`];
}

/** Puts all drafts away; for a while they can be brought back with one press, later from the list of reviews. */
function ThrowAway({ workspace, onDone }: { workspace: string; onDone: () => void }) {
  const client = useQueryClient();
  const back = useTakeBack(workspace);
  const discard = useMutation({
    mutationFn: () => data(api.DELETE("/workspaces/{id}/review", { params: { path: { id: workspace } } })),
    onSuccess: (r) => {
      toast({
        title: t`Your drafts were discarded`,
        lasts: 10_000,
        actions: [{ label: t`Undo`, run: () => back.mutate(r.id) }],
      });
      onDone();
    },
    onSettled: () => client.invalidateQueries({ queryKey: keys.reviews(workspace) }),
    onError: (error) => toastError(t`The drafts were not discarded`, error),
  });
  return (
    <Button look="quiet" busy={discard.isPending && t`Discarding`} onClick={() => discard.mutate()}>
      <Trans>Discard all drafts</Trans>
    </Button>
  );
}
