import { QueryClient } from "@tanstack/react-query";
import { ApiError } from "@/api/problem";

/** One cache for the page. Events say when something is stale, so nothing is read again merely because a window got the focus. */
export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      refetchOnWindowFocus: false,
      retry: (failures, error) => {
        // A clear answer does not get better by asking again; a network may.
        if (error instanceof ApiError && error.status > 0 && error.status < 500) return false;
        return failures < 2;
      },
    },
  },
});
