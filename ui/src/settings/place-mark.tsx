import { t } from "@lingui/core/macro";
import { Mark } from "@/kit/mark";
import type { Place } from "@/sandboxes/remote";

/** How a place does. One that nobody set up is no fault. */
export function PlaceMark({ of: p }: { of: Pick<Place, "available" | "not_set_up"> }) {
  if (p.available) return <Mark kind="done" word={t`Works`} />;
  if (p.not_set_up) return <Mark kind="stopped" word={t`Not set up`} />;
  return <Mark kind="failed" word={t`Cannot be used`} />;
}
