import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useLocation, useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { api, data, type Me } from "@/api/client";
import { ApiError, fieldError } from "@/api/problem";
import { keys, meQuery } from "@/api/queries";
import { exact } from "@/format/time";
import { Button, buttonClass } from "@/kit/button";
import { TextField } from "@/kit/field";
import { PlainPage } from "@/kit/pages";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { locale } from "@/language/locale";
import { useTitle } from "@/state/use-title";
import { asRole } from "./words";

const KEPT = "parawork.invite";

/** The token behind the # of the link. It is taken out of the address at once, and kept in this tab for a reload or a way round to sign in. */
function useToken(): string {
  const navigate = useNavigate();
  const given = useLocation({ select: (l) => l.hash });
  const [token, setToken] = useState(() => given || recallToken());
  useEffect(() => {
    if (!given) return;
    setToken(given); // a second invite may be opened in the same tab
    try {
      sessionStorage.setItem(KEPT, given);
    } catch {
      // nothing is kept then
    }
    void navigate({ to: "/join", hash: "", replace: true });
  }, [given, navigate]);
  return token;
}

function recallToken(): string {
  try {
    return sessionStorage.getItem(KEPT) ?? "";
  } catch {
    return "";
  }
}

function forget(): void {
  try {
    sessionStorage.removeItem(KEPT);
  } catch {
    // nothing was kept
  }
}

/** Joins a team by an invite: as who is signed in, or as a new user. */
export function JoinScreen() {
  useTitle(t`Join a team`);
  const token = useToken();
  const invite = useQuery({
    queryKey: ["invite", token],
    queryFn: () => data(api.POST("/invites/preview", { body: { token } })),
    enabled: token !== "",
    retry: false,
    gcTime: 0,
  });
  const me = useQuery({ ...meQuery(), retry: false });

  if (!token)
    return (
      <PlainPage title={t`Invalid invite link`}>
        <p className="text-fg2">
          <Trans>This page needs the complete invite link. Open the link exactly as it was sent to you.</Trans>
        </p>
      </PlainPage>
    );
  if (invite.isPending || me.isPending)
    return (
      <PlainPage title={t`Join a team`}>
        <Skeleton rows={3} label={t`Loading the invite`} />
      </PlainPage>
    );
  if (invite.isError) {
    const over = invite.error instanceof ApiError && invite.error.status === 410;
    return (
      <PlainPage title={over ? t`This invite is no longer valid` : t`Join a team`}>
        {over ? (
          <>
            <p className="mb-4 text-fg2">
              <Trans>It was used, revoked, or is older than seven days. Ask the sender for a new one.</Trans>
            </p>
            <Link to="/" className={buttonClass("plain", "self-start")} onClick={forget}>
              <Trans>Go to Parawork</Trans>
            </Link>
          </>
        ) : (
          <Failure what={t`The invite could not be loaded.`} error={invite.error} retry={() => void invite.refetch()} />
        )}
      </PlainPage>
    );
  }
  const i = invite.data;
  return (
    <PlainPage title={t`Join ${i.team.name}`}>
      <p className="mb-4 text-fg2">
        {i.inviter ? t`${i.inviter} invites you` : t`You are invited`} {asRole(i.role)}.{" "}
        <span title={exact(i.expires_at)}>
          <Trans>
            The invite works once, until{" "}
            {new Intl.DateTimeFormat(locale(), { dateStyle: "medium" }).format(i.expires_at)}.
          </Trans>
        </span>
      </p>
      {me.data ? (
        <AsMyself token={token} me={me.data} email={i.email} slug={i.team.slug} />
      ) : (
        <AsNew token={token} email={i.email} slug={i.team.slug} />
      )}
    </PlainPage>
  );
}

/** What follows once one has joined. */
function useJoined(slug: string) {
  const client = useQueryClient();
  const navigate = useNavigate();
  return async (me: Me) => {
    forget();
    client.clear(); // somebody else may have been signed in before
    client.setQueryData(keys.me, me);
    await navigate({ to: "/$team", params: { team: slug } });
  };
}

function AsMyself({ token, me, email, slug }: { token: string; me: Me; email: string; slug: string }) {
  const joined = useJoined(slug);
  const client = useQueryClient();
  const accept = useMutation({
    mutationFn: () => data(api.POST("/invites/accept", { body: { token } })),
    onSuccess: joined,
  });
  const signOut = useMutation({
    mutationFn: () => api.POST("/logout"),
    onSuccess: () => {
      client.clear();
      location.reload();
    },
  });
  const other = email !== "" && email.toLowerCase() !== me.user.email.toLowerCase();
  return (
    <div className="flex flex-col gap-3.5">
      <p>
        <Trans>
          You are signed in as <span className="font-medium">{me.user.name}</span> ({me.user.email}).
        </Trans>
      </p>
      {other && (
        <p role="alert" className="text-needs">
          <Trans>The invite is for {email}. Sign out, then open it as that person.</Trans>
        </p>
      )}
      <FormError error={accept.error ?? signOut.error} />
      <div className="flex flex-wrap gap-2">
        {!other && (
          <Button look="primary" busy={accept.isPending && t`Joining`} onClick={() => accept.mutate()}>
            <Trans>Join as {me.user.name}</Trans>
          </Button>
        )}
        <Button busy={signOut.isPending} onClick={() => signOut.mutate()}>
          <Trans>Sign out and join as somebody else</Trans>
        </Button>
      </div>
    </div>
  );
}

function AsNew({ token, email: bound, slug }: { token: string; email: string; slug: string }) {
  const joined = useJoined(slug);
  const [name, setName] = useState("");
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const accept = useMutation({
    mutationFn: () =>
      data(
        api.POST("/invites/accept", {
          body: { token, name: name.trim(), password, ...(bound ? {} : { email: email.trim() }) },
        }),
      ),
    onSuccess: joined,
  });
  const field = (f: string) => fieldError(accept.error, f);
  const shown = ["name", "email", "password"].some(field);
  return (
    <>
      <form
        className="flex flex-col gap-3.5"
        onSubmit={(e) => {
          e.preventDefault();
          accept.mutate();
        }}
      >
        <TextField
          label={t`Your name`}
          autoComplete="name"
          required
          autoFocus
          maxLength={100}
          value={name}
          error={field("name")}
          onChange={(e) => setName(e.target.value)}
        />
        <TextField
          label={t`E-mail`}
          type="email"
          autoComplete="username"
          required
          readOnly={bound !== ""}
          hint={bound ? t`The invite is for this address.` : undefined}
          value={bound || email}
          error={field("email")}
          onChange={(e) => setEmail(e.target.value)}
        />
        <TextField
          label={t`Password`}
          type="password"
          autoComplete="new-password"
          required
          minLength={10}
          hint={t`At least 10 characters. A long phrase is best.`}
          value={password}
          error={field("password")}
          onChange={(e) => setPassword(e.target.value)}
        />
        {!shown && <FormError error={accept.error} />}
        <Button type="submit" look="primary" busy={accept.isPending && t`Joining`} className="self-start">
          <Trans>Create account and join</Trans>
        </Button>
      </form>
      <p className="mt-5 border-t border-hairline pt-4 text-fg2">
        <Trans>
          Already have an account?{" "}
          <Link to="/login" search={{ next: "/join" }} className="text-accent underline">
            Sign in and join
          </Link>
        </Trans>
      </p>
    </>
  );
}
