import type { ChangesContext, ChangesExtension } from "./extension";
import { useParts } from "./parts/use-parts";
import { useComments } from "./review/use-comments";

/** The extensions' hooks, called on every render in this order: the list never changes while the app runs. */
export const extensions: readonly ((context: ChangesContext) => ChangesExtension)[] = [useComments, useParts];
