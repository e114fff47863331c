import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { sessionsQuery } from "@/api/queries";
import { visible } from "@/format/text";
import { Button } from "@/kit/button";
import { Mark } from "@/kit/mark";
import { type Review, type Standing as Summary, useTakeBack } from "./data";

interface Props {
  workspace: string;
  standing: Summary;
  reviews: readonly Review[];
  may: boolean;
}

/** Shows the review state of the workspace and the user's own queued review. */
export function Standing({ workspace, standing: s, reviews, may }: Props) {
  const back = useTakeBack(workspace);
  const sessions = useQuery(sessionsQuery(workspace));
  const agentOf = (r: Review) => {
    const to = sessions.data?.find((x) => x.id === r.session_id);
    return to && visible(to.agent_name);
  };
  const waiting = reviews.filter((r) => r.mine && (r.state === "queued" || r.state === "failed"));
  const last = reviews.filter((r) => r.state === "sent" || r.state === "queued").filter((r) => isVerdict(r));
  const verdict = last.reduce<Review | undefined>(
    (a, r) => (a && (a.sent_at ?? 0) > (r.sent_at ?? 0) ? a : r),
    undefined,
  );
  if (s.state === "none" && waiting.length === 0) return null;
  const since = verdict?.changed_since ?? 0;
  const who = verdict?.mine ? "you" : visible(s.by_name);
  return (
    <section aria-label={t`Review`} className="flex flex-col gap-1.5 border-t border-hairline px-3 py-2">
      {s.state !== "none" && (
        <p className="flex flex-wrap items-baseline gap-x-2">
          {s.state === "changes" ? (
            <Mark kind="needs" word={t`Changes requested`} />
          ) : s.state === "approved" ? (
            <Mark kind="merged" word={t`Approved`} />
          ) : (
            <Mark kind="review" word={t`Approved before`} />
          )}
          <span className="min-w-0 break-words text-fg2">
            <Trans>
              {s.state === "stale" && since > 0 ? `${plural(since, { one: "# change", other: "# changes" })}, ` : ""}by{" "}
              {who}
            </Trans>
          </span>
          {may && verdict?.mine && verdict.state === "sent" && (
            <Button look="quiet" className="h-6!" busy={back.isPending} onClick={() => back.mutate(verdict.id)}>
              <Trans>Withdraw</Trans>
            </Button>
          )}
        </p>
      )}
      {waiting.map((r) => (
        <p key={r.id} role="status" className="flex flex-wrap items-baseline gap-x-2">
          <Mark
            kind={r.state === "failed" ? "failed" : "setup"}
            word={r.state === "failed" ? t`Review not delivered` : t`Review queued`}
          />
          {agentOf(r) && (
            <span className="min-w-0 break-words">
              <Trans>for {agentOf(r)}</Trans>
            </span>
          )}
          <span className="min-w-0 break-words text-fg2">{r.state === "failed" ? r.reason : r.waits}</span>
          <Button className="h-6!" busy={back.isPending && t`Unsending`} onClick={() => back.mutate(r.id)}>
            <Trans>Unsend</Trans>
          </Button>
        </p>
      ))}
    </section>
  );
}

const isVerdict = (r: Review): boolean => r.verdict === "approve" || r.verdict === "changes";
