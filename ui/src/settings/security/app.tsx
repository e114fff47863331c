import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Suspense, useState } from "react";
import { keys } from "@/api/queries";
import { exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Mark } from "@/kit/mark";
import { lazy } from "@/kit/part";
import { FormError, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { locale } from "@/language/locale";
import { beginApp, type OwnWays, removeApp } from "@/signin/calls";
import { Part } from "./part";

const SetUp = lazy(() => import("./set-up-app"));

/** Codes of six digits from an app on one's phone, as a second step after the password. */
export function AuthenticatorApp({ own, email }: { own: OwnWays; email: string }) {
  const [making, setMaking] = useState<{ secret: string; uri: string } | undefined>();
  const begin = useAction({ act: beginApp, done: setMaking });
  const off = useAction({
    act: removeApp,
    confirm: {
      title: t`Turn the authenticator app off?`,
      body: t`Signing in will not ask for a code. To move to another app, turn it off and set it up again.`,
      action: t`Turn off`,
      danger: true,
    },
    refresh: [keys.me],
    done: t`The authenticator app is off`,
    failed: t`The authenticator app was not turned off`,
  });
  const { enabled, confirmed_at: since } = own.totp;

  return (
    <Part
      title={t`Authenticator app`}
      about={t`After the password, a six-digit code from an app on your phone, such as Aegis, 1Password or Google Authenticator.`}
    >
      {making ? (
        <Suspense fallback={<Skeleton rows={4} />}>
          <SetUp made={making} email={email} onClose={() => setMaking(undefined)} />
        </Suspense>
      ) : enabled ? (
        <div className="flex flex-wrap items-center gap-3">
          <Mark kind="done" word={t`On`} />
          {since ? (
            <span className="text-meta text-fg3" title={exact(since)}>
              <Trans>since {new Intl.DateTimeFormat(locale(), { dateStyle: "medium" }).format(since)}</Trans>
            </span>
          ) : null}
          <span className="flex-1" />
          <Button busy={off.busy && t`Turning off`} onClick={() => void off.run()}>
            <Trans>Turn off</Trans>
          </Button>
        </div>
      ) : (
        <Button busy={begin.busy && t`Starting`} onClick={() => void begin.run()}>
          <Trans>Set up an authenticator app</Trans>
        </Button>
      )}
      <div className="mt-2 empty:hidden">
        <FormError error={begin.error} />
      </div>
    </Part>
  );
}
