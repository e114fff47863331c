import { useEffect } from "react";
import { setPageTitle } from "./title";

export function useTitle(title: string): void {
  useEffect(() => {
    setPageTitle(title);
    return () => setPageTitle("");
  }, [title]);
}
