import { t } from "@lingui/core/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Session } from "@/api/client";
import { Button } from "@/kit/button";
import { cx } from "@/kit/cx";
import { Icon } from "@/kit/icon";
import { useTeam } from "@/state/team";
import { PromptQueue } from "./prompt-queue";
import { openPrompts, promptsQuery, queueWords } from "./prompts";
import { hasEnded } from "./sessions";

/** The queue of prompts where there is no message box: a line that opens it; nothing while nothing waits. */
export default function QueuePeek({ session: s }: { session: Session }) {
  const team = useTeam();
  const prompts = useQuery(promptsQuery(s.workspace_id, s.id));
  const [listed, setListed] = useState(false);
  const open = openPrompts(prompts.data);
  const words = queueWords(open);
  if (!words) return null;
  return (
    <section aria-label={t`Queue`} className="flex max-h-[50vh] flex-col border-t border-hairline bg-bg1">
      {listed && (
        <PromptQueue
          workspaceId={s.workspace_id}
          sessionId={s.id}
          open={open}
          may={team.can("terminal.type")}
          ended={hasEnded(s)}
        />
      )}
      <Button
        look="quiet"
        aria-expanded={listed}
        onClick={() => setListed(!listed)}
        className={cx("self-start tabular-nums", words.needs && "text-needs")}
      >
        {words.needs && <span aria-hidden>◆</span>}
        {words.text}
        <Icon name={listed ? "chevronDown" : "chevronUp"} size={12} />
      </Button>
    </section>
  );
}
