import { pending } from "@/keys/keyboard";
import { useStore } from "@/state/store";

/** Shows the beginning of a key sequence while it waits for its next key. */
export function SequenceEcho() {
  const keys = useStore(pending);
  if (!keys) return null;
  return (
    <div
      role="status"
      className="fixed bottom-4 left-1/2 z-50 -translate-x-1/2 rounded-md bg-bg3 px-3 py-1.5 font-mono shadow-float"
    >
      {keys} …
    </div>
  );
}
