import { Suspense } from "react";
import { useFirstInput } from "@/kit/first-input";
import { lazy } from "@/kit/part";
import { question } from "@/state/confirm";
import { useStore } from "@/state/store";
import { toasts } from "@/state/toasts";

const Floating = lazy(() => import("@/kit/floating"));

/** What floats over the page. It loads when somebody begins to use the page, or when there is something to show. */
export function Above() {
  const used = useFirstInput();
  const notes = useStore(toasts).length > 0;
  const asked = useStore(question) !== undefined;
  return <Suspense>{(used || notes || asked) && <Floating />}</Suspense>;
}
