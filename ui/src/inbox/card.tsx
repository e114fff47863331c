import { Trans } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";
import { visible } from "@/format/text";
import { ago, exact, limitText } from "@/format/time";
import { Button } from "@/kit/button";
import { cx } from "@/kit/cx";
import { Mark } from "@/kit/mark";
import { useTeam } from "@/state/team";
import type { InboxItem } from "./api";
import { KINDS, whereOf } from "./inbox";
import { QuestionCard } from "./question-card";
import type { Marks } from "./use-marks";

interface Props {
  item: InboxItem;
  now: number;
  selected: boolean;
  /** The keys answer it. */
  keys: boolean;
  onSelect: () => void;
  onOpen: () => void;
  marks: Marks;
}

/** An inbox item: where it comes from, what it is, and its actions. */
export function InboxCard({ item: i, now, selected, keys, onSelect, onOpen, marks }: Props) {
  const team = useTeam();
  const to = {
    to: "/$team/w/$key",
    params: { team: team.slug, key: i.workspace_key },
    search: whereOf(i),
  } as const;
  return (
    <div
      onFocusCapture={onSelect}
      className={cx(
        "relative flex flex-col gap-2 px-3 py-2.5",
        selected && "bg-bg1 before:absolute before:inset-y-0 before:left-0 before:w-0.5 before:bg-accent",
      )}
    >
      <p className="flex flex-wrap items-baseline gap-x-2 text-meta text-fg3">
        <Link {...to} className="min-w-0 truncate text-body font-medium text-fg hover:underline">
          {i.workspace_name}
        </Link>
        <span className="font-mono text-micro">{i.workspace_key}</span>
        <span className="min-w-0 truncate">{i.project_name}</span>
        <span title={exact(i.since)} className="ml-auto whitespace-nowrap">
          {ago(i.since, now)}
        </span>
      </p>
      {i.question ? (
        <QuestionCard
          key={i.question.id}
          question={i.question}
          team={team.slug}
          agent={i.agent_name}
          via="inbox"
          keys={keys}
          may={team.can("question.answer")}
        />
      ) : (
        <p className="flex flex-wrap items-baseline gap-x-2">
          <Mark kind={KINDS[i.kind].mark} word={i.kind === "limited" ? limitText(i.until, now) : KINDS[i.kind].word} />
          {i.agent_name && <span className="text-fg2">{visible(i.agent_name)}</span>}
          {i.kind !== "limited" && <span className="min-w-0 break-words">{i.reason}</span>}
        </p>
      )}
      <div className="-ml-2.5 flex flex-wrap items-center gap-x-1 pointer-coarse:ml-0 pointer-coarse:gap-2">
        <Button look="quiet" onClick={onOpen} keys={keys ? "enter" : undefined}>
          <span>
            <Trans>Open</Trans>
            <span className="sr-only"> {i.workspace_name}</span>
          </span>
        </Button>
        <Button look="quiet" onClick={() => marks.snooze(i, "hour")} keys={keys ? "s" : undefined}>
          <span>
            <Trans>Snooze 1 h</Trans>
            <span className="sr-only">, {i.workspace_name}</span>
          </span>
        </Button>
        <Button look="quiet" onClick={() => marks.snooze(i, "tomorrow")} keys={keys ? "t" : undefined}>
          <span>
            <Trans>Tomorrow</Trans>
            <span className="sr-only">, {i.workspace_name}</span>
          </span>
        </Button>
        <Button look="quiet" onClick={() => marks.finish(i)} keys={keys ? "x" : undefined}>
          <span>
            <Trans>Done</Trans>
            <span className="sr-only">
              {" "}
              <Trans>with {i.workspace_name}</Trans>
            </span>
          </span>
        </Button>
      </div>
    </div>
  );
}
