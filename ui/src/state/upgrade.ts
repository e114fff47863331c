import { Store } from "./store";

/**
 * Whether the server has a newer version of the page: "there" when it has, "missed" when this page asked for a part of its own version, which is
 * gone from the server.
 */
export const upgrade = new Store<"" | "there" | "missed">("");
