import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";
import type { Session } from "@/api/client";
import { visible } from "@/format/text";
import { cx } from "@/kit/cx";
import { Shape } from "@/kit/mark";
import { questionOf } from "./api";

/** Links to other sessions of the workspace with a pending question. */
export default function AskingElsewhere({
  sessions,
  shown,
}: {
  sessions: readonly Session[];
  shown: string | undefined;
}) {
  const asking = sessions.filter((s) => s.id !== shown && questionOf(s));
  if (asking.length === 0) return null;
  return (
    <nav
      aria-label={t`Other sessions with questions`}
      // On a phone the strip of sessions, which has their marks, stands right below: no room for both.
      className={cx("flex flex-wrap gap-2 border-b border-hairline bg-bg1 px-4 py-1.5", shown && "max-md:hidden")}
    >
      {asking.map((s) => (
        <Link
          key={s.id}
          to="."
          search={(x) => ({ ...x, tab: undefined, file: undefined, dialog: undefined, session: s.id })}
          className="inline-flex min-h-7 max-w-full items-center gap-1.5 rounded-full border border-control px-2.5 text-meta hover:bg-bg2 pointer-coarse:min-h-11"
        >
          <Shape kind="needs" />
          <span className="truncate">
            <span className="text-fg2">
              <Trans>{visible(s.agent_name)} asks:</Trans>
            </span>{" "}
            {questionOf(s)?.title}
          </span>
        </Link>
      ))}
    </nav>
  );
}
