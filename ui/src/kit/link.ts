import { defaultStringifySearch } from "@tanstack/react-router";
import { useEffect } from "react";
import { toast } from "@/state/toasts";
import { copyText } from "./states";

/** Copies the address at which the workspace of this page opens at something, for somebody else. */
export function copyLink(search: Record<string, string | number | undefined>, what: string): void {
  const to = new URL(location.href);
  to.pathname = to.pathname.replace(/\/edit$/, ""); // the page of one file
  to.search = defaultStringifySearch(search);
  to.hash = "";
  void copyText(to.href, what);
}

/** Says once that what an address names is not there any more; no title: it is there. */
export function useGone(title: string | undefined, text: string): void {
  useEffect(() => {
    if (title !== undefined) toast({ title, text });
  }, [title, text]);
}
