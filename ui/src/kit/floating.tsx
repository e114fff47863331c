import { Confirmer } from "./confirmer";
import { Toaster } from "./toaster";

/** Dialogs and toasts. They load after the first paint. */
export default function Floating() {
  return (
    <>
      <Confirmer />
      <Toaster />
    </>
  );
}
