import { t } from "@lingui/core/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "@/api/client";
import { Button } from "@/kit/button";
import { SettingsForm } from "@/kit/settings/form";
import type { Entry } from "@/kit/settings/schema";
import type { OwnWays, Ways } from "@/signin/calls";
import { loginSessionsKey, ownWaysKey, tokensKey, tokensQuery } from "@/signin/queries";
import { toast } from "@/state/toasts";
import { Part } from "./part";

export function Password({ own, ways, email }: { own: OwnWays; ways: Ways; email: string }) {
  const [open, setOpen] = useState(false);
  if (!ways.password && !own.has_password) return null;
  return (
    <Part
      title={t`Password`}
      about={
        !ways.password
          ? t`This server no longer accepts passwords.`
          : own.has_password
            ? undefined
            : t`You sign in without a password. Set one as a fallback.`
      }
    >
      {open ? (
        <PasswordForm has={own.has_password} email={email} onClose={() => setOpen(false)} />
      ) : (
        ways.password && (
          <Button onClick={() => setOpen(true)}>{own.has_password ? t`Change the password` : t`Set a password`}</Button>
        )
      )}
    </Part>
  );
}

function PasswordForm({ has, email, onClose }: { has: boolean; email: string; onClose: () => void }) {
  const tokens = useQuery(tokensQuery()).data?.length ?? 0;
  return (
    <SettingsForm
      className="max-w-sm gap-3.5"
      create
      loaded={{ current_password: "", new_password: "", keep_tokens: false }}
      fields={[
        { note: () => <input type="text" autoComplete="username" value={email} readOnly hidden /> },
        ...(has ? [CURRENT] : []),
        {
          name: "new_password",
          label: t`New password`,
          type: "text",
          hint: t`At least 10 characters. Your other login sessions end.`,
          errors: ["password", "weak_password"],
          input: {
            type: "password",
            autoComplete: "new-password",
            required: true,
            autoFocus: !has,
            minLength: 10,
          },
        },
        ...(tokens > 0 ? [keepTokens(tokens)] : []),
      ]}
      save={(_, body) => api.PUT("/me/password", { body })}
      onSaved={(_, { keep_tokens }) => {
        toast({
          kind: "good",
          title: has ? t`Password changed` : t`Password set`,
          text:
            tokens > 0 && !keep_tokens
              ? t`Your other sign-ins and API tokens were ended.`
              : t`Your other sign-ins were ended.`,
        });
        onClose();
      }}
      refresh={[ownWaysKey, loginSessionsKey, tokensKey]}
      button={has ? t`Change password` : t`Set password`}
      cancel={onClose}
    />
  );
}

interface Values {
  current_password: string;
  new_password: string;
  keep_tokens: boolean;
}

const CURRENT: Entry<Values> = {
  name: "current_password",
  label: t`Current password`,
  type: "text",
  input: { type: "password", autoComplete: "current-password", required: true, autoFocus: true },
};

const keepTokens = (n: number): Entry<Values> => ({
  name: "keep_tokens",
  label: n === 1 ? t`Keep my API token` : t`Keep my ${n} API tokens`,
  type: "boolean",
  hint: t`Otherwise ${n === 1 ? t`it ends` : t`they end`} with the old password. Keep them only if nobody else knew it.`,
});
