import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import type { Me } from "@/api/client";
import { passkeyOptions, signInWithPasskey } from "./calls";
import { getPasskey, PasskeyPutOff, suggestsPasskeys } from "./passkey";

/** ms after which a waiting suggestion asks for a new challenge: the server's ends after five minutes. */
const RENEW = 4 * 60_000;

/**
 * Signing in with a passkey: by a button, and where `suggest` by the browser's suggestions in the field for the e-mail address. A
 * browser waits for one passkey at a time, so that the button ends the suggestion.
 */
export function usePasskeySignIn({ suggest, onMe }: { suggest: boolean; onMe: (me: Me) => void }) {
  const quiet = useRef<AbortController | undefined>(undefined);
  const options = useRef<Promise<unknown>>(Promise.resolve());
  const enter = useRef(onMe);
  enter.current = onMe;

  const ask = useMutation({
    mutationFn: async () => {
      quiet.current?.abort();
      quiet.current = undefined;
      return signInWithPasskey(await getPasskey(await passkeyOptions()));
    },
    onSuccess: (me) => enter.current(me),
  });
  const sent = useMutation({ mutationFn: signInWithPasskey, onSuccess: (me) => enter.current(me) });
  const { mutate: send } = sent;

  useEffect(() => {
    if (!suggest) return;
    const stop = new AbortController();
    quiet.current = stop;
    const follow = async () => {
      if (!(await suggestsPasskeys())) return;
      while (!stop.signal.aborted) {
        const renew = AbortSignal.timeout(RENEW);
        try {
          const asked = passkeyOptions();
          options.current = asked.catch(() => {});
          send(await getPasskey(await asked, AbortSignal.any([stop.signal, renew]), true));
          return;
        } catch (error) {
          // The user did not request it, so show no error: the button and the password remain.
          if (!(error instanceof PasskeyPutOff) || !renew.aborted) return;
        }
      }
    };
    void follow();
    return () => stop.abort();
  }, [suggest, send]);

  return {
    ask,
    sending: ask.isPending || sent.isPending,
    error: ask.error ?? sent.error,
    /** Resolves when no challenge is under way: its cookie must not come after, and in place of, that of another sign-in. */
    settled: () => options.current,
  };
}
