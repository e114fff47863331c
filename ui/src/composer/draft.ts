import { t } from "@lingui/core/macro";
import { useEffect, useState } from "react";
import { forget, isString, recall, remember } from "@/state/remember";

/** The prompt suggested for the project that everybody can try. */
export const SAMPLE_PROMPT = t`Add an option --top N to wordcount.py that prints the N most frequent words of the text, with a test for it.`;

const keyOf = (project: string) => `compose.${project}`;

/** What is written and not sent yet, kept in this browser for each project. */
export function usePromptDraft(project: { id: string; source: { kind: string } }, tried: boolean) {
  const suggested = project.source.kind === "sample" && !tried ? SAMPLE_PROMPT : "";
  const kept = recall(keyOf(project.id), isString);
  const [written, setWritten] = useState<{ project: string; text: string }>();
  const text = written?.project === project.id ? written.text : (kept ?? suggested);
  useEffect(() => {
    if (written) remember(keyOf(written.project), written.text);
  }, [written]);
  return {
    text,
    set: (now: string) => setWritten({ project: project.id, text: now }),
    /** Takes what is written along to another project, unless that has a draft of its own. */
    moveTo: (other: string) => {
      if (text === "" || text === suggested || recall(keyOf(other), isString)) return;
      forget(keyOf(project.id));
      setWritten({ project: other, text });
    },
    sent: () => {
      setWritten(undefined);
      forget(keyOf(project.id));
    },
  };
}
