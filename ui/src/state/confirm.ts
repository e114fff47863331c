import type { ReactNode } from "react";
import { Store } from "./store";

export interface Question {
  title: string;
  body?: ReactNode;
  /** What the button does, as a verb. */
  action: string;
  danger?: boolean;
  answer: (yes: boolean) => void;
}

export const question = new Store<Question | undefined>(undefined);

/** Asks before something is done. Resolves to false when it is dismissed. A second question refuses the first. */
export function confirm(q: Omit<Question, "answer">): Promise<boolean> {
  question.get()?.answer(false);
  return new Promise((resolve) => {
    question.set({
      ...q,
      answer: (yes) => {
        question.set(undefined);
        resolve(yes);
      },
    });
  });
}
