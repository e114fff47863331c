import { t } from "@lingui/core/macro";
import { type ReactElement, Suspense, useState } from "react";
import type { Session } from "@/api/client";
import { Mark } from "@/kit/mark";
import { lazy } from "@/kit/part";
import { sessionMark } from "./sessions";

const load = () => import("./state-popover");
const StatePopover = lazy(load);

/** A session's state; opened, it shows the evidence and lets users correct it. */
export function StateChip({ session: s, children }: { session: Session; children?: ReactElement }) {
  const [used, setUsed] = useState(false);
  const [open, setOpen] = useState(false);
  const mark = sessionMark(s);
  const button = (
    <button
      type="button"
      aria-haspopup="dialog"
      aria-expanded={open}
      title={t`How this is known`}
      data-state-chip={s.id}
      onPointerEnter={() => void load().catch(() => {})}
      onClick={() => {
        setUsed(true);
        setOpen(true);
      }}
      className="flex min-h-6 items-center rounded-sm px-1 hover:bg-bg2 pointer-coarse:min-h-11"
    >
      {children ?? <Mark kind={mark.mark} word={mark.word} />}
    </button>
  );
  if (!used) return button;
  return (
    <Suspense fallback={button}>
      <StatePopover session={s} trigger={button} open={open} onOpenChange={setOpen} />
    </Suspense>
  );
}
