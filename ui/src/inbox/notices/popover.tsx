import { t } from "@lingui/core/macro";
import { Popover } from "radix-ui";
import type { ReactElement } from "react";
import Panel from "./panel";

interface Props {
  trigger: ReactElement;
  open: boolean;
  onOpenChange: (open: boolean) => void;
}

/** The list of what happened, below the bell. */
export default function NoticesPopover({ trigger, open, onOpenChange }: Props) {
  return (
    <Popover.Root open={open} onOpenChange={onOpenChange}>
      <Popover.Trigger asChild>{trigger}</Popover.Trigger>
      <Popover.Portal>
        <Popover.Content
          align="end"
          sideOffset={4}
          collisionPadding={8}
          aria-label={t`Notifications`}
          className="rise-in z-50 flex max-h-[min(640px,var(--radix-popover-content-available-height))] w-[min(420px,calc(100vw-16px))] flex-col rounded-md bg-bg1 shadow-float outline-none"
        >
          <Panel onClose={() => onOpenChange(false)} />
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}
