import { queryOptions } from "@tanstack/react-query";
import { readLoginSessions, readOwnWays, readSecondStep, readTokens, readWays } from "./calls";

export const waysKey = ["sign-in"] as const;
export const ownWaysKey = ["me", "sign-in"] as const;
export const loginSessionsKey = ["me", "login-sessions"] as const;
export const tokensKey = ["me", "tokens"] as const;

export const waysQuery = () => queryOptions({ queryKey: waysKey, queryFn: readWays, staleTime: 60_000 });
export const secondStepQuery = () =>
  queryOptions({ queryKey: ["sign-in", "second"], queryFn: readSecondStep, gcTime: 0, retry: false });
export const ownWaysQuery = () => queryOptions({ queryKey: ownWaysKey, queryFn: readOwnWays });
export const loginSessionsQuery = () => queryOptions({ queryKey: loginSessionsKey, queryFn: readLoginSessions });
export const tokensQuery = () => queryOptions({ queryKey: tokensKey, queryFn: readTokens });
