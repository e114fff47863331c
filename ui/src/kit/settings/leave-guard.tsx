import { t } from "@lingui/core/macro";
import { useBlocker } from "@tanstack/react-router";
import { confirm } from "@/state/confirm";
import { unsaved } from "./unsaved";

/** Asks before somebody leaves a page whose forms hold something that is not saved. */
export function LeaveGuard() {
  const dirty = () => unsaved.get().size > 0;
  useBlocker({
    enableBeforeUnload: dirty,
    shouldBlockFn: async ({ current, next }) => {
      // Whoever is signed out has nothing left to save.
      if (!dirty() || current.pathname === next.pathname || next.pathname === "/login") return false;
      const leave = await confirm({
        title: t`Leave without saving?`,
        body: t`Your changes on this page will be lost.`,
        action: t`Leave`,
        danger: true,
      });
      return !leave;
    },
  });
  return null;
}
