import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "@/api/client";
import { fieldError } from "@/api/problem";
import { useMe } from "@/app/team";
import { Button } from "@/kit/button";
import { TextField } from "@/kit/field";
import { FormError } from "@/kit/states";
import { toast } from "@/state/toasts";

export default function ProfileSettings() {
  const { user } = useMe();
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const change = useMutation({
    mutationFn: () => api.PUT("/me/password", { body: { current_password: current, new_password: next } }),
    onSuccess: () => {
      setCurrent("");
      setNext("");
      toast({ kind: "good", title: "Password changed", text: "Your other sign-ins were ended." });
    },
  });
  const field = (f: string) => fieldError(change.error, f);
  const nextError = field("new_password") ?? field("password");
  return (
    <div className="flex flex-col gap-6">
      <dl className="grid grid-cols-[80px_minmax(0,1fr)] gap-y-1">
        <dt className="text-fg3">Name</dt>
        <dd className="break-words">{user.name}</dd>
        <dt className="text-fg3">E-mail</dt>
        <dd className="break-all">{user.email}</dd>
        {user.operator && (
          <>
            <dt className="text-fg3">Rights</dt>
            <dd>Operator of this server</dd>
          </>
        )}
      </dl>
      <form
        className="flex max-w-sm flex-col gap-3.5"
        onSubmit={(e) => {
          e.preventDefault();
          change.mutate();
        }}
      >
        <h2 className="text-title font-semibold">Change the password</h2>
        <input type="text" autoComplete="username" value={user.email} readOnly hidden />
        <TextField
          label="Current password"
          type="password"
          autoComplete="current-password"
          required
          value={current}
          error={field("current_password")}
          onChange={(e) => setCurrent(e.target.value)}
        />
        <TextField
          label="New password"
          type="password"
          autoComplete="new-password"
          required
          minLength={10}
          hint="At least 10 characters."
          value={next}
          error={nextError}
          onChange={(e) => setNext(e.target.value)}
        />
        <FormError error={change.error && !field("current_password") && !nextError ? change.error : null} />
        <Button type="submit" look="primary" className="self-start" busy={change.isPending && "Changing"}>
          Change password
        </Button>
      </form>
    </div>
  );
}
