import { useQueryClient } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import type { Me } from "@/api/client";
import { keys } from "@/api/queries";
import { leaveTo, safeNext } from "./next";

/** Completes a sign-in: drops the previous user's state and opens the requested page. */
export function useEnter(next: string | undefined): (me: Me) => void {
  const client = useQueryClient();
  const router = useRouter();
  return (me) => {
    client.clear();
    client.setQueryData(keys.me, me);
    leaveTo(safeNext(next), (page) => router.history.push(page));
  };
}
