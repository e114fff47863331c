import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas, type Session } from "@/api/client";
import { keys, workspacesQuery } from "@/api/queries";
import { usd } from "@/format/money";
import { Button } from "@/kit/button";
import { Icon } from "@/kit/icon";
import { Mark } from "@/kit/mark";
import { useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";
import { inTree, MARK_OF, subagentsQuery, subagentWords, WORD_OF } from "./subagents";

type Subagent = Schemas["Subagent"];

/** The agents that a session's agent started, and those below them; nothing while there are none. */
export default function SubagentTree({ session: s }: { session: Session }) {
  const team = useTeam();
  const queryKey = keys.subagents(team.slug, s.id);
  const all = useQuery(subagentsQuery(team.slug, s.id));
  const [listed, setListed] = useState(false);
  const client = useQueryClient();
  const stop = useMutation({
    mutationFn: (a: Subagent) =>
      data(api.POST("/subagents/{id}/interrupt", { params: { path: { id: a.id } }, body: { stop: true } })),
    onSettled: () => void client.invalidateQueries({ queryKey }),
    onError: (error, a) => toastError(t`${a.name} was not stopped`, error),
  });
  const merge = useMutation({
    mutationFn: (a: Subagent) => data(api.POST("/subagents/{id}/merge", { params: { path: { id: a.id } } })),
    onSuccess: (m, a) =>
      toast({ title: m.up_to_date ? t`The work of ${a.name} is merged already` : t`Merged ${m.branch}` }),
    onError: (error, a) => toastError(t`${a.name} was not merged`, error),
  });
  const may = team.can("terminal.type");
  const mayMerge = team.can("workspace.edit");
  const items = all.data ?? [];
  if (items.length === 0) return null;
  return (
    <section aria-label={t`Subagents`} className="flex max-h-[40vh] flex-col border-b border-hairline bg-bg1">
      <Button
        look="quiet"
        aria-expanded={listed}
        onClick={() => setListed(!listed)}
        className="self-start tabular-nums"
      >
        {subagentWords(items)}
        <Icon name={listed ? "chevronUp" : "chevronDown"} size={12} />
      </Button>
      {listed && (
        <ul className="min-h-0 overflow-y-auto px-3 pb-2">
          {inTree(items, s.id).map(({ subagent: a, depth }) => (
            <li
              key={a.id}
              className="flex flex-wrap items-center gap-x-3 gap-y-0.5 py-0.5 text-meta text-fg2"
              style={{ paddingInlineStart: `${depth * 1.25}rem` }}
            >
              <SubagentLink subagent={a} />
              <span>{a.agent}</span>
              <Mark kind={MARK_OF[a.status]} word={WORD_OF[a.status]} />
              {a.cost_nano !== null && <span className="tabular-nums">{usd(a.cost_nano)}</span>}
              {(a.question || a.error) && <span className="min-w-0 break-words text-fg3">{a.question || a.error}</span>}
              {mayMerge && a.where === "sibling" && a.branch && a.ended_at !== null && (
                <Button
                  look="quiet"
                  className="ml-auto h-6!"
                  busy={merge.isPending && merge.variables.id === a.id}
                  onClick={() => merge.mutate(a)}
                  aria-label={t`Merge ${a.name}`}
                >
                  <Trans>Merge</Trans>
                </Button>
              )}
              {may && a.live && (
                <Button
                  look="quiet"
                  className="ml-auto h-6!"
                  busy={stop.isPending && stop.variables.id === a.id}
                  onClick={() => stop.mutate(a)}
                  aria-label={t`Stop ${a.name}`}
                >
                  <Trans>Stop</Trans>
                </Button>
              )}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** A subagent's name, which leads to its session. */
export function SubagentLink({ subagent: a }: { subagent: Subagent }) {
  const team = useTeam();
  const list = useQuery({ ...workspacesQuery(team.slug), enabled: a.where === "sibling" });
  const look = "min-w-0 break-words font-medium text-fg hover:underline";
  const sibling = list.data?.find((w) => w.id === a.workspace_id);
  if (a.status === "spawned" || a.status === "starting" || (a.where === "sibling" && !sibling))
    return <span className="min-w-0 break-words font-medium text-fg">{a.name}</span>;
  return sibling ? (
    <Link
      to="/$team/w/$key"
      params={{ team: team.slug, key: sibling.key }}
      search={{ session: a.session_id }}
      className={look}
    >
      {a.name} ({sibling.key})
    </Link>
  ) : (
    <Link to="." search={(x) => ({ ...x, session: a.session_id })} className={look}>
      {a.name}
    </Link>
  );
}
