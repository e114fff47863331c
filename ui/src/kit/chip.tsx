import { Popover } from "radix-ui";
import { type ReactNode, useState } from "react";
import { cx } from "./cx";
import { Icon } from "./icon";

/** How a chip looks: what is chosen, on a small layer of its own. */
export const chipClass =
  "inline-flex min-h-6 max-w-full items-center gap-1.5 rounded-full border border-transparent bg-bg3 px-2.5 py-0.5 text-meta " +
  "text-fg2 hover:bg-bg4 hover:text-fg disabled:opacity-55 aria-expanded:bg-bg4 aria-expanded:text-fg pointer-coarse:min-h-9";

interface Props {
  /** What is chosen here; read out before what is chosen. */
  label: string;
  /** What is chosen, in a few words. */
  value: ReactNode;
  /** Something is missing or dangerous. */
  warn?: boolean;
  /** The panel needs room. */
  wide?: boolean;
  children: ReactNode;
}

/** One choice of a form in a few words; the panel behind it has the rest. */
export function Chip({ label, value, warn, wide, children }: Props) {
  const [open, setOpen] = useState(false);
  return (
    <Popover.Root open={open} onOpenChange={setOpen}>
      <Popover.Trigger asChild>
        <button type="button" className={cx(chipClass, warn && "border-needs text-needs")}>
          <span className="sr-only">{label}: </span>
          <span className="min-w-0 truncate">{value}</span>
          <Icon name="chevronDown" size={12} className="shrink-0 text-fg3" />
        </button>
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Content
          align="start"
          sideOffset={4}
          collisionPadding={8}
          aria-label={label}
          className={cx(
            "rise-in z-50 flex max-h-[min(560px,var(--radix-popover-content-available-height))] flex-col gap-3 overflow-y-auto rounded-md bg-bg1 p-3 shadow-float outline-none",
            wide ? "w-[min(560px,calc(100vw-16px))]" : "w-[min(360px,calc(100vw-16px))]",
          )}
        >
          {children}
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}
