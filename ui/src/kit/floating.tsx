import { Confirmer } from "./confirmer";
import { Toaster } from "./toaster";

/** Questions and notes over the page. They load behind the first paint: nothing of them is there at first. */
export default function Floating() {
  return (
    <>
      <Confirmer />
      <Toaster />
    </>
  );
}
