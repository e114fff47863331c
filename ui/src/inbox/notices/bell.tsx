import { t } from "@lingui/core/macro";
import { useQuery } from "@tanstack/react-query";
import { Popover } from "radix-ui";
import { Suspense, useState } from "react";
import { Icon } from "@/kit/icon";
import { lazy } from "@/kit/part";
import { Skeleton } from "@/kit/states";
import { noticesQuery } from "./api";

const Panel = lazy(() => import("./panel"));

/** The bell of the header: how much happened that one has not seen, and the list of it. */
export default function Bell() {
  const [open, setOpen] = useState(false);
  const unread = useQuery(noticesQuery()).data?.unread ?? 0;
  return (
    <Popover.Root open={open} onOpenChange={setOpen}>
      <Popover.Trigger asChild>
        <button
          type="button"
          title={t`Notifications`}
          aria-label={unread > 0 ? t`Notifications, ${unread} unread` : t`Notifications`}
          className="control-h relative grid w-7 place-items-center rounded-md text-fg2 hover:bg-bg2 hover:text-fg aria-expanded:bg-bg3 aria-expanded:text-fg pointer-coarse:w-11"
        >
          <Icon name="bell" />
          {unread > 0 && (
            <span
              aria-hidden
              className="absolute -top-0.5 left-3.5 min-w-4 rounded-full bg-needs px-1 text-center text-[11px] leading-4 font-semibold text-bg0 tabular-nums"
            >
              {unread > 99 ? "99+" : unread}
            </span>
          )}
        </button>
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Content
          align="end"
          sideOffset={4}
          collisionPadding={8}
          aria-label={t`Notifications`}
          className="rise-in z-50 flex max-h-[min(640px,var(--radix-popover-content-available-height))] w-[min(420px,calc(100vw-16px))] flex-col rounded-md bg-bg1 shadow-float outline-none"
        >
          <Suspense fallback={<Skeleton label={t`Loading`} />}>
            <Panel onClose={() => setOpen(false)} />
          </Suspense>
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}
