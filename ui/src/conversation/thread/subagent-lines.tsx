import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { createContext, useContext } from "react";
import type { Schemas } from "@/api/client";
import { visible } from "@/format/text";
import { Mark } from "@/kit/mark";
import { SubagentLink } from "@/sessions/subagent-tree";
import { MARK_OF, subagentsQuery } from "@/sessions/subagents";
import { useTeam } from "@/state/team";

/** The session whose conversation is shown. */
export const SessionId = createContext("");

/** Files of one subagent that are named. */
const FILES = 6;

/** What the subagents of a call are: each leads to its session. */
export function SubagentLines({ ids }: { ids: readonly string[] }) {
  const session = useContext(SessionId);
  const team = useTeam();
  const all = useQuery({ ...subagentsQuery(team.slug, session), enabled: session !== "" });
  const shown = (all.data ?? []).filter((a) => ids.includes(a.id));
  if (shown.length === 0) return null;
  return (
    <ul aria-label={t`Subagents of this call`} className="mb-1 ml-5 grid gap-1">
      {shown.map((a) => (
        <li key={a.id} className="flex min-w-0 flex-wrap items-center gap-x-3 text-meta text-fg2">
          <SubagentLink subagent={a} />
          <Mark kind={MARK_OF[a.status]} word={a.status} />
          <span>{[a.agent, a.mode, a.model].filter(Boolean).join(" · ")}</span>
          <Files subagent={a} />
        </li>
      ))}
    </ul>
  );
}

function Files({ subagent: a }: { subagent: Schemas["Subagent"] }) {
  const rest = Math.max(0, a.files.length - FILES) + a.more_files;
  return (
    <>
      {a.files.slice(0, FILES).map((path) =>
        a.where === "sibling" ? (
          <span key={path} className="font-mono break-all">
            {visible(path)}
          </span>
        ) : (
          <Link
            key={path}
            to="."
            search={(s) => ({ ...s, tab: "changes", file: path, session: undefined, place: undefined })}
            className="font-mono break-all text-accent hover:underline"
          >
            {visible(path)}
          </Link>
        ),
      )}
      {rest > 0 && (
        <span>
          <Trans>and {rest} more</Trans>
        </span>
      )}
    </>
  );
}
