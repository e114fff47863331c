import { type QueryClient, useMutation, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import type { Session } from "@/api/client";
import { keys } from "@/api/queries";
import { toast } from "@/state/toasts";
import { type Answer, answerQuestion, type InboxItem, type Question, type Via } from "./api";
import { refusalOf, SETTLE_MS } from "./question";

const answered = new Set<string>();

/** Whether this page answered the question; then it need not say who did. */
export const answeredHere = (id: string): boolean => answered.has(id);

/** Answers a question once. Whatever the result, the displayed state is correct afterwards. */
export function useAnswer(q: Question, team: string, via: Via, onDone?: () => void) {
  const client = useQueryClient();
  const settled = useSettled(q.id);
  const send = useMutation({
    mutationFn: (a: Answer) => {
      answered.add(q.id);
      return answerQuestion(q, a, via);
    },
    onSuccess: () => {
      drop(client, team, q);
      onDone?.();
    },
    onError: (error) => {
      const r = refusalOf(error);
      if (!r.over) {
        answered.delete(q.id);
        return; // told beside the buttons, which can be pressed again
      }
      toast({ title: r.title, text: r.text });
      drop(client, team, q);
      onDone?.();
    },
    onSettled: () => {
      void client.invalidateQueries({ queryKey: keys.sessions(q.workspace_id) });
      void client.invalidateQueries({ queryKey: keys.inbox(team) });
    },
  });
  const answer = (a: Answer) => {
    // Whoever wrote words has seen the question they wrote them for.
    if ((settled || a.text) && !send.isPending && !send.isSuccess) send.mutate(a);
  };
  const failed = send.error && !refusalOf(send.error).over ? refusalOf(send.error) : undefined;
  return {
    answer,
    sending: send.isPending ? send.variables : undefined,
    locked: send.isPending || send.isSuccess,
    settled,
    failed,
  };
}

/** Removes the question from the page immediately. */
function drop(client: QueryClient, team: string, q: Question): void {
  client.setQueryData<Session[]>(keys.sessions(q.workspace_id), (list) =>
    list?.map((s) => (s.id === q.session_id ? { ...s, question: null } : s)),
  );
  client.setQueryData<InboxItem[]>(keys.inbox(team), (list) => list?.filter((i) => i.question?.id !== q.id));
}

/** False for a moment after a question was replaced by another. */
function useSettled(id: string): boolean {
  const [known, setKnown] = useState("");
  useEffect(() => {
    const t = setTimeout(() => setKnown(id), SETTLE_MS);
    return () => clearTimeout(t);
  }, [id]);
  return known === id;
}
