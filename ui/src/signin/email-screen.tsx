import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Button, buttonClass } from "@/kit/button";
import { PlainPage } from "@/kit/pages";
import { FormError } from "@/kit/states";
import { useTitle } from "@/state/use-title";
import { confirmEmail } from "./calls";
import { useLinkToken } from "./link-token";

/** Where the link leads that was mailed to an address which somebody wants to use. A button confirms it: programs that read mail open links. */
export function EmailScreen() {
  useTitle(t`Confirm your address`);
  const { token, used } = useLinkToken("email");
  const confirm = useMutation({ mutationFn: () => confirmEmail(token), onSuccess: used });
  return (
    <PlainPage title={t`Confirm your e-mail address`}>
      {confirm.isSuccess ? (
        <div role="status">
          <p className="mb-4 text-fg2">
            <Trans>Your account has this address now. Sign in with it from now on.</Trans>
          </p>
          <Link to="/" className={buttonClass("primary")}>
            <Trans>Open Parawork</Trans>
          </Link>
        </div>
      ) : token ? (
        <form
          className="flex flex-col items-start gap-3"
          onSubmit={(e) => {
            e.preventDefault();
            confirm.mutate();
          }}
        >
          <p className="text-fg2">
            <Trans>Your account gets the address to which this link was mailed.</Trans>
          </p>
          <FormError error={confirm.error} />
          <Button type="submit" look="primary" busy={confirm.isPending && t`Confirming`}>
            <Trans>Confirm</Trans>
          </Button>
        </form>
      ) : (
        <p className="text-fg2">
          <Trans>This page is opened by the link in a mail. Open it again from there.</Trans>
        </p>
      )}
    </PlainPage>
  );
}
