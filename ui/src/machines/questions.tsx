import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";
import { useNow } from "@/format/now";
import { visible } from "@/format/text";
import { ago, exact } from "@/format/time";
import { CopyLine } from "@/kit/states";
import { useTeam } from "@/state/team";
import type { Machine } from "./api";

/** Questions for the machine's owner. They can be answered only at the machine, never in a browser. */
export function Questions({ machine: m }: { machine: Machine }) {
  const team = useTeam();
  const now = useNow();
  if (m.questions.length === 0) return null;
  return (
    <section aria-labelledby="machine-questions" className="rounded-md border border-needs p-3">
      <h2 id="machine-questions" className="text-title font-semibold">
        <span aria-hidden className="text-needs">
          ◆{" "}
        </span>
        <Trans>Waiting for {m.mine ? t`your` : `${m.user_name}'s`} approval at the machine</Trans>
      </h2>
      <ul className="divide-y divide-hairline">
        {m.questions.map((q) => {
          const w = m.workspaces.find((x) => x.id === q.workspace_id);
          return (
            <li key={q.id} className="py-2">
              <p className="break-words whitespace-pre-wrap">{visible(q.text)}</p>
              <p className="mb-1 text-meta text-fg3">
                {w && (
                  <>
                    <Link
                      to="/$team/w/$key"
                      params={{ team: team.slug, key: w.key }}
                      className="inline-block min-h-6 leading-6 text-accent hover:underline"
                    >
                      {w.key} {w.name}
                    </Link>{" "}
                    ·{" "}
                  </>
                )}
                <span title={exact(q.asked_at)}>
                  <Trans>asked {ago(q.asked_at, now)}</Trans>
                </span>
              </p>
              {m.mine && <CopyLine text={`parawork runner allow ${q.id}`} label={t`the command that allows it`} />}
            </li>
          );
        })}
      </ul>
      <p className="text-meta text-fg3">
        {m.mine
          ? t`Answer with this command in any terminal on that machine. Use deny instead of allow to refuse, or add --always to allow later requests from that workspace as well. Without an answer the request is refused.`
          : t`It continues or is refused once the owner answers there.`}
      </p>
    </section>
  );
}
