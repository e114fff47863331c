import { QueryClient } from "@tanstack/react-query";
import { ApiError } from "@/api/problem";

/** The page's query cache. Events invalidate it, so focus does not trigger refetches. */
export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      refetchOnWindowFocus: false,
      retry: (failures, error) => {
        // Retry only network failures; a definite response will not change.
        if (error instanceof ApiError && error.status > 0 && error.status < 500) return false;
        return failures < 2;
      },
    },
  },
});
