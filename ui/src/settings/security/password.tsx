import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "@/api/client";
import { fieldError } from "@/api/problem";
import { Button } from "@/kit/button";
import { Check, TextField } from "@/kit/field";
import { FormError } from "@/kit/states";
import type { OwnWays, Ways } from "@/signin/calls";
import { newPasswordError } from "@/signin/password-error";
import { loginSessionsKey, ownWaysKey, tokensKey, tokensQuery } from "@/signin/queries";
import { toast } from "@/state/toasts";
import { Part } from "./part";

export function Password({ own, ways, email }: { own: OwnWays; ways: Ways; email: string }) {
  const [open, setOpen] = useState(false);
  if (!ways.password && !own.has_password) return null;
  return (
    <Part
      title="Password"
      about={
        !ways.password
          ? "This server takes no passwords any more."
          : own.has_password
            ? undefined
            : "You sign in without a password. With one you have a way in when the other ways fail."
      }
    >
      {open ? (
        <PasswordForm has={own.has_password} email={email} onClose={() => setOpen(false)} />
      ) : (
        ways.password && (
          <Button onClick={() => setOpen(true)}>{own.has_password ? "Change the password" : "Set a password"}</Button>
        )
      )}
    </Part>
  );
}

function PasswordForm({ has, email, onClose }: { has: boolean; email: string; onClose: () => void }) {
  const client = useQueryClient();
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const [keep, setKeep] = useState(false);
  const tokens = useQuery(tokensQuery()).data?.length ?? 0;
  const change = useMutation({
    mutationFn: () =>
      api.PUT("/me/password", { body: { current_password: current, new_password: next, keep_tokens: keep } }),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: ownWaysKey });
      void client.invalidateQueries({ queryKey: loginSessionsKey });
      void client.invalidateQueries({ queryKey: tokensKey });
      toast({
        kind: "good",
        title: has ? "Password changed" : "Password set",
        text:
          tokens > 0 && !keep ? "Your other sign-ins and API tokens were ended." : "Your other sign-ins were ended.",
      });
      onClose();
    },
  });
  const currentError = fieldError(change.error, "current_password");
  const nextError = newPasswordError(change.error);
  return (
    <form
      className="flex max-w-sm flex-col gap-3.5"
      onSubmit={(e) => {
        e.preventDefault();
        change.mutate();
      }}
    >
      <input type="text" autoComplete="username" value={email} readOnly hidden />
      {has && (
        <TextField
          label="Current password"
          type="password"
          autoComplete="current-password"
          required
          autoFocus
          value={current}
          error={currentError}
          onChange={(e) => setCurrent(e.target.value)}
        />
      )}
      <TextField
        label="New password"
        type="password"
        autoComplete="new-password"
        required
        autoFocus={!has}
        minLength={10}
        hint="At least 10 characters. Your other sign-ins end."
        value={next}
        error={nextError}
        onChange={(e) => setNext(e.target.value)}
      />
      {tokens > 0 && (
        <Check
          label={tokens === 1 ? "Keep my API token" : `Keep my ${tokens} API tokens`}
          hint={`Otherwise ${tokens === 1 ? "it ends" : "they end"} with the old password. Only if nobody else knew that password.`}
          checked={keep}
          onChange={(e) => setKeep(e.target.checked)}
        />
      )}
      <FormError error={currentError || nextError ? null : change.error} />
      <div className="flex gap-2">
        <Button type="submit" look="primary" busy={change.isPending && "Saving"}>
          {has ? "Change password" : "Set password"}
        </Button>
        <Button onClick={onClose}>Cancel</Button>
      </div>
    </form>
  );
}
