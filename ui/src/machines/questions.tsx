import { Link } from "@tanstack/react-router";
import { useNow } from "@/format/now";
import { visible } from "@/format/text";
import { ago, exact } from "@/format/time";
import { CopyLine } from "@/kit/states";
import { useTeam } from "@/state/team";
import type { Machine } from "./api";

/** What the machine's owner is asked there. It is answered at the machine alone: a browser cannot say yes for it. */
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
        Waiting for {m.mine ? "your" : `${m.user_name}'s`} yes at the machine
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
                <span title={exact(q.asked_at)}>asked {ago(q.asked_at, now)}</span>
              </p>
              {m.mine && <CopyLine text={`parawork runner allow ${q.id}`} label="the command that allows it" />}
            </li>
          );
        })}
      </ul>
      <p className="text-meta text-fg3">
        {m.mine
          ? "Answer on that machine, with this command in any terminal: deny instead of allow refuses, and --always allows what follows from that workspace, too. Without an answer it is refused."
          : "It goes on, or is refused, when it is answered there."}
      </p>
    </section>
  );
}
