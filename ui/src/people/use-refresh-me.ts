import { useQueryClient } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import { meQuery } from "@/api/queries";

/** Asks anew who one is and in which teams, and has the page show it. No page holds the answer itself: marking it stale asks nobody. */
export function useRefreshMe(): () => Promise<void> {
  const client = useQueryClient();
  const router = useRouter();
  return async () => {
    await client.fetchQuery({ ...meQuery(), staleTime: 0 });
    await router.invalidate();
  };
}
