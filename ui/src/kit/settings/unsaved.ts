import { useEffect, useId } from "react";
import { Store } from "@/state/store";

/** The forms that hold something that is not saved. */
export const unsaved = new Store<ReadonlySet<string>>(new Set());

/** Says whether a form holds something that is not saved, for as long as it is shown. */
export function useUnsaved(dirty: boolean): void {
  const id = useId();
  useEffect(() => {
    if (!dirty) return;
    unsaved.update((all) => new Set(all).add(id));
    return () => unsaved.update((all) => new Set([...all].filter((x) => x !== id)));
  }, [id, dirty]);
}
