import { t } from "@lingui/core/macro";
import { useQuery } from "@tanstack/react-query";
import { Suspense, useState } from "react";
import { Icon } from "@/kit/icon";
import { lazy } from "@/kit/part";
import { noticesQuery } from "./api";

const load = () => import("./popover");
const NoticesPopover = lazy(load);

/** The bell of the header: how much happened that one has not seen, and the list of it. */
export default function Bell() {
  const [used, setUsed] = useState(false);
  const [open, setOpen] = useState(false);
  const unread = useQuery(noticesQuery()).data?.unread ?? 0;
  const button = (
    <button
      type="button"
      aria-haspopup="dialog"
      aria-expanded={open}
      onPointerEnter={() => void load().catch(() => {})}
      onClick={() => {
        setUsed(true);
        setOpen(true);
      }}
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
  );
  if (!used) return button;
  return (
    <Suspense fallback={button}>
      <NoticesPopover trigger={button} open={open} onOpenChange={setOpen} />
    </Suspense>
  );
}
