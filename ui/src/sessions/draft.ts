import { useEffect, useState } from "react";
import { forget, isString, recall, remember } from "@/state/remember";

/** What was written and not sent, kept in this browser for each session. */
export function useDraft(sessionId: string) {
  const key = `draft.${sessionId}`;
  const [text, setText] = useState(() => recall(key, isString) ?? "");
  useEffect(() => {
    if (text) remember(key, text);
    else forget(key);
  }, [key, text]);
  return [text, setText] as const;
}
