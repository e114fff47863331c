import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api } from "@/api/client";
import { Button } from "@/kit/button";
import { FormError } from "@/kit/states";

/** Signs out from a page outside the app's frame. A fresh page follows: nothing of the old user stays. */
export function SignOut() {
  const client = useQueryClient();
  const out = useMutation({
    mutationFn: () => api.POST("/logout"),
    onSuccess: () => {
      client.clear();
      location.assign("/login");
    },
  });
  return (
    <>
      <Button look="quiet" busy={out.isPending && t`Signing out`} onClick={() => out.mutate()}>
        <Trans>Sign out</Trans>
      </Button>
      <FormError error={out.error} />
    </>
  );
}
