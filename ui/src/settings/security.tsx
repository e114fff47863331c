import { t } from "@lingui/core/macro";
import { useQuery } from "@tanstack/react-query";
import { Suspense } from "react";
import { lazy } from "@/kit/part";
import { Failure, Skeleton } from "@/kit/states";
import { ownWaysQuery, waysQuery } from "@/signin/queries";
import { useMe } from "@/state/team";
import { AuthenticatorApp } from "./security/app";
import { Passkeys } from "./security/passkeys";
import { Password } from "./security/password";
import { Providers } from "./security/providers";
import { LoginSessions } from "./security/sessions";

const RecoveryCodes = lazy(() => import("./security/recovery-codes"));

/** By what one signs in, and where one is signed in. */
export default function SecuritySettings() {
  const { user } = useMe();
  const own = useQuery(ownWaysQuery());
  const ways = useQuery(waysQuery());
  if (own.isPending || ways.isPending) return <Skeleton rows={6} label={t`Loading how you sign in`} />;
  if (!own.data || !ways.data)
    return (
      <Failure
        what={t`How you sign in could not be loaded.`}
        error={own.error ?? ways.error}
        retry={() => {
          void own.refetch();
          void ways.refetch();
        }}
      />
    );
  return (
    <div className="flex flex-col gap-8">
      <Password own={own.data} ways={ways.data} email={user.email} />
      <AuthenticatorApp own={own.data} email={user.email} />
      <Passkeys own={own.data} ways={ways.data} />
      {(own.data.totp.enabled || own.data.passkeys.length > 0) && (
        <Suspense fallback={<Skeleton rows={2} />}>
          <RecoveryCodes own={own.data} email={user.email} />
        </Suspense>
      )}
      <Providers own={own.data} ways={ways.data} />
      <LoginSessions providers={ways.data.providers} />
    </div>
  );
}
