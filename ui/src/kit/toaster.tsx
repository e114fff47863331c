import { t as tr } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Toast as Radix } from "radix-ui";
import { useStore } from "@/state/store";
import { dismiss, toasts } from "@/state/toasts";
import { Button, IconButton } from "./button";
import { cx } from "./cx";
import { Icon } from "./icon";
import { Output } from "./states";

const SIGN = { note: ["○", "text-fg2"], good: ["✓", "text-merged"], bad: ["▲", "text-failed"] } as const;

/** The toasts of the page, bottom right. F8 moves the focus there. */
export function Toaster() {
  const all = useStore(toasts);
  return (
    <Radix.Provider swipeDirection="right" label={tr`Note`}>
      {all.map((t) => (
        <Radix.Root
          key={t.id}
          open={t.open}
          onOpenChange={(o) => !o && dismiss(t.id)}
          duration={t.lasts || Number.POSITIVE_INFINITY}
          type={t.kind === "bad" ? "foreground" : "background"}
          className="rise-in w-[min(420px,calc(100vw-24px))] rounded-md bg-bg1 p-3 shadow-float data-[swipe=move]:translate-x-(--radix-toast-swipe-move-x)"
        >
          <div className="flex items-start gap-2">
            <span aria-hidden className={SIGN[t.kind][1]}>
              {SIGN[t.kind][0]}
            </span>
            <div className="min-w-0 flex-1">
              <Radix.Title className="font-medium break-words">{t.title}</Radix.Title>
              {t.text && <Radix.Description className="break-words text-fg2">{t.text}</Radix.Description>}
              {t.output && <Output text={t.output} className="max-h-32" />}
              {t.requestId && (
                <p className="mt-1 font-mono text-micro text-fg3 select-all">
                  <Trans>request {t.requestId}</Trans>
                </p>
              )}
            </div>
            <Radix.Close asChild>
              <IconButton label={tr`Dismiss`} className={cx("-mt-1 -mr-1")}>
                <Icon name="close" size={14} />
              </IconButton>
            </Radix.Close>
          </div>
          {t.actions && (
            <div className="mt-2 flex gap-2 pl-5">
              {t.actions.map((a) => (
                <Radix.Action key={a.label} asChild altText={a.label}>
                  <Button onClick={a.run}>{a.label}</Button>
                </Radix.Action>
              ))}
            </div>
          )}
        </Radix.Root>
      ))}
      <Radix.Viewport className="fixed right-3 bottom-[max(12px,env(safe-area-inset-bottom))] z-[60] flex list-none flex-col gap-2 outline-none max-md:bottom-16" />
    </Radix.Provider>
  );
}
