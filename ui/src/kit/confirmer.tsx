import { Trans } from "@lingui/react/macro";
import { AlertDialog as Radix } from "radix-ui";
import { useRef } from "react";
import { question } from "@/state/confirm";
import { useStore } from "@/state/store";
import { buttonClass } from "./button";

/** Renders the dialog of confirm(). */
export function Confirmer() {
  const q = useStore(question);
  const yes = useRef<HTMLButtonElement>(null);
  return (
    <Radix.Root open={q !== undefined} onOpenChange={(o) => !o && q?.answer(false)}>
      <Radix.Portal>
        <Radix.Overlay className="fade-in fixed inset-0 z-[55] bg-(--scrim)" />
        <Radix.Content
          onOpenAutoFocus={(e) => {
            // Enter confirms only if nothing can be lost.
            if (q?.danger) return;
            e.preventDefault();
            yes.current?.focus();
          }}
          {...(q?.body ? {} : { "aria-describedby": undefined })}
          className="rise-in fixed top-[18vh] left-1/2 z-[56] w-[min(440px,calc(100vw-24px))] -translate-x-1/2 rounded-md bg-bg1 p-4 shadow-float outline-none"
        >
          <Radix.Title className="text-title font-semibold break-words">{q?.title}</Radix.Title>
          {q?.body && (
            <Radix.Description asChild>
              <div className="mt-1.5 break-words text-fg2">{q.body}</div>
            </Radix.Description>
          )}
          <div className="mt-4 flex justify-end gap-2">
            <Radix.Cancel className={buttonClass("plain")}>
              <Trans>Cancel</Trans>
            </Radix.Cancel>
            <Radix.Action
              ref={yes}
              className={buttonClass(q?.danger ? "danger" : "primary")}
              onClick={() => q?.answer(true)}
            >
              {q?.action}
            </Radix.Action>
          </div>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
