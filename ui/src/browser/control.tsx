import { plural, t } from "@lingui/core/macro";
import type { ReactNode } from "react";
import { Button } from "@/kit/button";
import { Kbd } from "@/kit/kbd";
import { locale } from "@/language/locale";
import type { Phase } from "./live";

/** Takes over and gives back. It is one chord that pages and programs hardly use. */
const SWITCH = "ctrl+shift+o";
const isSwitch = (e: React.KeyboardEvent) => e.ctrlKey && e.shiftKey && e.code === "KeyO";

/** Who has control of a browser or a desktop, for one viewer. */
export interface ControlState {
  control: { person: { id: string; name: string }; since: number };
  yours: boolean;
  viewers: number;
}

/** The frame of a live view, in which one chord takes over and gives back, whatever has the focus. */
export function Controlled({ canUse, toggle, children }: { canUse: boolean; toggle: () => void; children: ReactNode }) {
  return (
    <div
      className="flex h-full min-h-0 flex-col"
      onKeyDownCapture={(e) => {
        if (!isSwitch(e) || !canUse) return;
        e.preventDefault();
        e.stopPropagation();
        toggle();
      }}
    >
      {children}
    </div>
  );
}

/** Says who has control; its last button takes over and gives back. */
export function ControlBar({
  state: s,
  phase,
  canUse,
  toggle,
  notes,
  children,
}: {
  state: ControlState;
  phase: Phase;
  canUse: boolean;
  toggle: () => void;
  notes?: (string | false)[];
  /** More buttons, for who may use it. */
  children?: ReactNode;
}) {
  return (
    <div className="flex flex-wrap items-center gap-2 border-b border-hairline px-3 py-1.5">
      <p role="status" className="min-w-0 flex-1 basis-48 text-fg2">
        {[
          phase !== "live" && t`Reconnecting.`,
          driver(s),
          ...(notes ?? []),
          s.viewers > 1 && plural(s.viewers, { one: "# person watches.", other: "# people watch." }),
        ]
          .filter(Boolean)
          .join(" ")}
      </p>
      {canUse && (
        <>
          {children}
          <Button look={s.yours ? "plain" : "primary"} onClick={toggle} aria-keyshortcuts="Control+Shift+O">
            {s.yours ? t`Release control` : t`Take control`}
            <Kbd keys={SWITCH} onFill={!s.yours} />
          </Button>
        </>
      )}
    </div>
  );
}

function driver(s: ControlState): string {
  if (s.yours) return t`You have control. Agents wait until you give it back.`;
  if (!s.control.person.id) return t`Agents have control.`;
  const since = new Date(s.control.since).toLocaleTimeString(locale(), { hour: "2-digit", minute: "2-digit" });
  return t`${s.control.person.name} has had control since ${since}.`;
}
