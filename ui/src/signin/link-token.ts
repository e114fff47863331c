import { useLocation, useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { tokenOf } from "./words";

/**
 * The token in a link's fragment. Removed from the address immediately, so it stays in no history, and stored for a
 * reload of this tab until `used`.
 */
export function useLinkToken(kind: "setup" | "reset" | "join" | "email"): { token: string; used: () => void } {
  const navigate = useNavigate();
  const hash = useLocation({ select: (l) => l.hash });
  const key = `parawork.${kind}-token`;
  const [token, setToken] = useState(() => tokenOf(hash) || kept(key));
  useEffect(() => {
    if (!hash) return;
    const found = tokenOf(hash);
    if (found) {
      setToken(found);
      keep(key, found);
    }
    void navigate({ to: ".", hash: "", replace: true });
  }, [hash, key, navigate]);
  return { token, used: () => keep(key, "") };
}

function kept(key: string): string {
  try {
    return sessionStorage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

function keep(key: string, token: string): void {
  try {
    if (token) sessionStorage.setItem(key, token);
    else sessionStorage.removeItem(key);
  } catch {
    // It holds until a reload.
  }
}
