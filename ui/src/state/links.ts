import { createContext } from "react";

/** Opens a link that an agent wrote, by the rules for such links. Where nothing provides it, links are plain text. */
export const LinkOpener = createContext<((target: string, shown: string) => void) | undefined>(undefined);
