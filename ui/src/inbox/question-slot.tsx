import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useEffect, useRef, useState } from "react";
import type { Session } from "@/api/client";
import { useAction } from "@/keys/keyboard";
import { Kbd } from "@/kit/kbd";
import { isCoarse } from "@/state/look";
import { useTeam } from "@/state/team";
import { type Question, questionOf, questionsOf, type Via } from "./api";
import { endingOf } from "./question";
import { QuestionCard } from "./question-card";
import { answeredHere } from "./use-answer";

const NOTE_MS = 8000;

interface Props {
  session: Session;
  via: Via;
  /** The keys a, d and 1 to 9 answer it while it has the focus. */
  keys?: boolean;
  className?: string;
}

/**
 * The place where a session's question appears and is answered. It announces a new question to screen readers, says who answered
 * elsewhere, and gives the focus back to where it was before the answer.
 */
export default function QuestionSlot({ session: s, via, keys = true, className }: Props) {
  const team = useTeam();
  const q = questionOf(s);
  const slot = useRef<HTMLDivElement>(null);
  const note = useEnding(q, s.id);
  useReturnOfFocus(slot, q?.id);
  useAction(
    "answer.focus",
    () => slot.current?.querySelector<HTMLElement>("button:not(:disabled),input:not(:disabled),textarea")?.focus(),
    q !== undefined && keys,
  );
  return (
    <div ref={slot} data-keys="question">
      <p role="status" className="sr-only">
        {q ? t`${s.agent_name} asks: ${q.title}` : ""}
      </p>
      {note && (
        <p role="status" className={className}>
          <span aria-hidden className="mr-2 text-merged">
            ✓
          </span>
          <span className="break-words text-fg2">{note}</span>
        </p>
      )}
      {q && (
        <div className={className} data-question={q.id}>
          <QuestionCard
            key={q.id}
            question={q}
            team={team.slug}
            agent={s.agent_name}
            via={via}
            keys={keys}
            may={team.can("question.answer")}
          />
          {via === "workspace" && (
            <p className="from-terminal absolute right-4 bottom-2.5 text-meta text-fg3 max-md:hidden pointer-coarse:hidden">
              <Kbd keys="ctrl+shift+a" /> <Trans>answer by key</Trans>
            </p>
          )}
        </div>
      )}
    </div>
  );
}

/** For a moment how a question ended that the user did not answer. Where the agent asks the next one already, only who answered. */
function useEnding(q: Question | undefined, session: string): string {
  const [ended, setEnded] = useState<Question>();
  const last = useRef<string>(undefined);
  useEffect(() => {
    const before = last.current;
    last.current = q?.id;
    if (!before || before === q?.id || answeredHere(before)) return;
    void questionsOf(session)
      .then((list) => setEnded(list.find((x) => x.id === before)))
      .catch(() => {}); // the question is gone all the same; who answered is a courtesy
  }, [q, session]);
  useEffect(() => {
    if (!ended) return;
    const t = setTimeout(() => setEnded(undefined), NOTE_MS);
    return () => clearTimeout(t);
  }, [ended]);
  if (!ended || ended.session_id !== session || (q && ended.state !== "answered")) return "";
  return endingOf(ended) ?? "";
}

/** After answering, return the focus to the terminal or the tab. On a phone this must not open the keyboard. */
function useReturnOfFocus(slot: React.RefObject<HTMLElement | null>, question: string | undefined): void {
  const from = useRef<HTMLElement>(undefined);
  const inside = useRef(false);
  useEffect(() => {
    const place = slot.current;
    if (!place) return;
    const enter = (e: FocusEvent) => {
      const before = e.relatedTarget;
      if (!inside.current) from.current = before instanceof HTMLElement && !place.contains(before) ? before : undefined;
      inside.current = true;
    };
    const leave = (e: FocusEvent) => {
      // Without a next element the button may have been locked or taken away: it was still the last to have the focus.
      if (e.relatedTarget instanceof Node && !place.contains(e.relatedTarget)) inside.current = false;
    };
    place.addEventListener("focusin", enter);
    place.addEventListener("focusout", leave);
    return () => {
      place.removeEventListener("focusin", enter);
      place.removeEventListener("focusout", leave);
    };
  }, [slot]);
  useEffect(() => {
    if (question !== undefined || !inside.current) return;
    inside.current = false;
    const at = document.activeElement;
    if (at && at !== document.body) return;
    const back = from.current;
    const field = back?.matches("input,textarea,select,[contenteditable=true]");
    if (back?.isConnected && !(field && isCoarse())) back.focus();
    else document.getElementById("active-tab")?.focus();
  }, [question]);
}
