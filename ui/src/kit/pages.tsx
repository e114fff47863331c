import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { type ErrorComponentProps, Link, useRouter } from "@tanstack/react-router";
import { ApiError } from "@/api/problem";
import { buttonClass } from "./button";
import { PLAIN_PAGE } from "./classes";
import { Logo } from "./mark";
import { Empty, Failure } from "./states";

/** No such page, or not yours to see: both look the same. For use inside a page's frame. */
export function NotFound() {
  return (
    <Empty
      top
      title={t`Page not found`}
      action={
        <Link to="/" className={buttonClass("primary")}>
          <Trans>Go to your workspaces</Trans>
        </Link>
      }
    >
      <Trans>
        The page does not exist, or you do not have access to it. Ask the person who sent you the link to add you to the
        team.
      </Trans>
    </Empty>
  );
}

export function NotFoundPage() {
  return (
    <main className="h-full">
      <NotFound />
    </main>
  );
}

/** A page that could not be shown at all. */
export function CrashPage({ error, reset }: ErrorComponentProps) {
  const router = useRouter();
  return (
    <main className="grid h-full place-items-center p-6">
      <Failure
        what={
          !(error instanceof ApiError)
            ? t`This page failed with an error.`
            : error.code === "database_in_doubt"
              ? t`This server is read-only until an operator resolves the lost database records. Your work is safe.`
              : t`The page could not be loaded.`
        }
        error={error}
        retry={() => {
          reset();
          void router.invalidate();
        }}
      />
    </main>
  );
}

/** The frame of pages outside the app: one column, the name above it. */
export function PlainPage({ title, children }: { title: string; children: React.ReactNode }) {
  return (
    <main className={PLAIN_PAGE.main}>
      <p className={PLAIN_PAGE.name}>
        <span className={PLAIN_PAGE.mark}>
          <Logo size={20} />
        </span>
        Parawork
      </p>
      <h1 className={PLAIN_PAGE.h1}>{title}</h1>
      {children}
    </main>
  );
}
