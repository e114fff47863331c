import { useLocation } from "@tanstack/react-router";
import { useEffect } from "react";

/** Brings the part of a page that the address names after its # into view once it is there: parts are loaded after the page. */
export function useNamedPart(parts: readonly string[]): void {
  const hash = useLocation({ select: (l) => l.hash });
  const named = parts.includes(hash) ? hash : "";
  useEffect(() => {
    if (!named) return;
    const show = () => {
      const part = document.getElementById(named);
      part?.scrollIntoView();
      return part !== null;
    };
    if (show()) return;
    const watch = new MutationObserver(() => show() && watch.disconnect());
    watch.observe(document.body, { childList: true, subtree: true });
    return () => watch.disconnect();
  }, [named]);
}
