import { t } from "@lingui/core/macro";
import { Dialog as Radix } from "radix-ui";
import type { ReactNode } from "react";
import { IconButton } from "./button";
import { cx } from "./cx";
import { Icon } from "./icon";

interface Props {
  open: boolean;
  onClose: () => void;
  title: string;
  /** Read out with the title; shown below it. */
  about?: ReactNode;
  children: ReactNode;
  wide?: boolean;
}

/** A dialog over the page. On a phone it fills the screen. */
export function Dialog({ open, onClose, title, about, children, wide }: Props) {
  return (
    <Radix.Root open={open} onOpenChange={(o) => !o && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="fade-in fixed inset-0 z-40 bg-(--scrim)" />
        <Radix.Content
          onOpenAutoFocus={focusFirst}
          {...(about ? {} : { "aria-describedby": undefined })}
          className={cx(
            "rise-in fixed z-50 flex flex-col bg-bg1 shadow-float outline-none",
            "inset-0 md:inset-auto md:top-[8vh] md:left-1/2 md:max-h-[84vh] md:-translate-x-1/2 md:rounded-md",
            wide ? "md:w-[min(720px,calc(100vw-32px))]" : "md:w-[min(520px,calc(100vw-32px))]",
          )}
        >
          <header className="flex items-start gap-3 px-4 pt-3 md:px-5 md:pt-4">
            <div className="min-w-0 flex-1">
              <Radix.Title className="text-title font-semibold break-words">{title}</Radix.Title>
              {about && <Radix.Description className="text-fg2">{about}</Radix.Description>}
            </div>
            <Radix.Close asChild>
              <IconButton label={t`Close`} className="-mr-1.5">
                <Icon name="close" />
              </IconButton>
            </Radix.Close>
          </header>
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

/** The focus goes to what was marked for it, else to the first field, else to the dialog: not to the button that closes it. */
function focusFirst(e: Event): void {
  const dialog = e.target as HTMLElement | null;
  if (!dialog || dialog.contains(document.activeElement)) return;
  e.preventDefault();
  const first =
    dialog.querySelector<HTMLElement>("[data-first]") ??
    dialog.querySelector<HTMLElement>(
      "input:not([type=hidden]):not(:disabled), textarea:not(:disabled), select:not(:disabled)",
    );
  (first ?? dialog).focus();
}

/** The scrolling middle of a dialog. One that holds nothing to focus is focused itself, so that it can be scrolled by keys. */
export function DialogBody({
  children,
  className,
  focusable,
}: {
  children: ReactNode;
  className?: string;
  focusable?: boolean;
}) {
  return (
    <div
      {...(focusable ? { tabIndex: 0, "data-first": true, role: "region", "aria-label": t`Content` } : {})}
      className={cx("min-h-0 flex-1 overflow-y-auto px-4 py-3 -outline-offset-2 md:px-5", className)}
    >
      {children}
    </div>
  );
}

export function DialogFoot({ children }: { children: ReactNode }) {
  return (
    <footer className="flex flex-wrap items-center justify-end gap-2 px-4 pt-2 pb-[max(--spacing(4),env(safe-area-inset-bottom))] md:px-5">
      {children}
    </footer>
  );
}
