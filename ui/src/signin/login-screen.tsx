import { t } from "@lingui/core/macro";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect } from "react";
import { PlainPage } from "@/kit/pages";
import { Skeleton } from "@/kit/states";
import { useTitle } from "@/state/use-title";
import { secondStepQuery } from "./queries";
import { SecondStepForm } from "./second-step";
import { useEnter } from "./use-enter";

/** Whether the document itself came from the address of the first step: then the server has no page for it, and loading it again would not help. */
function loadedHere(): boolean {
  const [loaded] = performance.getEntriesByType("navigation");
  const url = loaded && new URL(loaded.name);
  return url?.pathname === "/login" && !url.searchParams.has("step");
}

const route = getRouteApi("/login");

/** The second step of signing in. The first is a page of its own (page.ts), which the server has for this address. */
export function LoginScreen() {
  useTitle(t`Sign in`);
  const { next, step } = route.useSearch();
  const enter = useEnter(next);
  const begun = useQuery({ ...secondStepQuery(), enabled: step === "second" });
  const startOver = (late: boolean) =>
    location.replace(`/login?${new URLSearchParams({ ...(next && { next }), ...(late && { error: "login_ended" }) })}`);
  const first = step !== "second";
  useEffect(() => {
    if (first && !loadedHere()) location.reload();
    else if (begun.isError) startOver(true);
  });
  return (
    <PlainPage title={first || !begun.data ? t`Sign in` : t`Second factor`}>
      {first || !begun.data ? <Skeleton /> : <SecondStepForm step={begun.data} onMe={enter} onStartOver={startOver} />}
    </PlainPage>
  );
}
