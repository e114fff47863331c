import { useMutation } from "@tanstack/react-query";
import type { Me } from "@/api/client";
import { passkeyOptions, signInWithPasskey } from "./calls";
import { getPasskey } from "./passkey";

/** Signing in with a passkey as the second step. */
export function usePasskeySignIn(onMe: (me: Me) => void) {
  return useMutation({
    mutationFn: async () => signInWithPasskey(await getPasskey(await passkeyOptions())),
    onSuccess: onMe,
  });
}
