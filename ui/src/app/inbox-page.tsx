import { t } from "@lingui/core/macro";
import { Suspense } from "react";
import { InboxScreen } from "@/inbox/inbox-screen";
import { lazy } from "@/kit/part";
import { Skeleton } from "@/kit/states";

const HomeComposer = lazy(() => import("@/composer/home"));

/** The inbox, which begins with the composer in a team that has no workspace yet. */
export function InboxPage() {
  return (
    <InboxScreen
      empty={
        <Suspense fallback={<Skeleton label={t`Loading`} />}>
          <HomeComposer />
        </Suspense>
      }
    />
  );
}
