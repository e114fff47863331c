import { useMutation, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useRouter } from "@tanstack/react-router";
import { useState } from "react";
import { api, data } from "@/api/client";
import { keys } from "@/api/queries";
import { PlainPage } from "@/app/pages";
import { useTitle } from "@/app/use-title";
import { Button } from "@/kit/button";
import { TextField } from "@/kit/field";
import { FormError } from "@/kit/states";

const route = getRouteApi("/login");

export function LoginScreen() {
  useTitle("Sign in");
  const { next } = route.useSearch();
  const client = useQueryClient();
  const router = useRouter();
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const login = useMutation({
    mutationFn: () => data(api.POST("/login", { body: { email, password } })),
    onSuccess: (me) => {
      client.clear();
      client.setQueryData(keys.me, me);
      // Only to a page of this app: an address from outside could lead anywhere.
      const to = next?.startsWith("/") && !next.startsWith("//") && !next.startsWith("/\\") ? next : "/";
      router.history.push(to);
    },
    onError: () => setPassword(""),
  });

  return (
    <PlainPage title="Sign in">
      <form
        className="flex flex-col gap-3.5"
        onSubmit={(e) => {
          e.preventDefault();
          login.mutate();
        }}
      >
        <TextField
          label="E-mail"
          type="email"
          autoComplete="username"
          required
          autoFocus
          value={email}
          onChange={(e) => setEmail(e.target.value)}
        />
        <TextField
          label="Password"
          type="password"
          autoComplete="current-password"
          required
          value={password}
          onChange={(e) => setPassword(e.target.value)}
        />
        <FormError error={login.error} />
        <Button type="submit" look="primary" busy={login.isPending && "Signing in"} className="self-start">
          Sign in
        </Button>
      </form>
      <p className="mt-8 text-meta text-fg3">
        No account, or the password is lost? Whoever runs this server makes one with{" "}
        <code className="rounded-sm bg-bg3 px-1 text-fg2">parawork admin create-user</code>.
      </p>
    </PlainPage>
  );
}
