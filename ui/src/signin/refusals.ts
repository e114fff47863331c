import { t } from "@lingui/core/macro";

/** Messages for a failed sign-in or link with a provider, by the code in the return address. */
const WORDS: Record<string, (provider: string) => string> = {
  sso_denied: (provider) => t`${provider} denied the sign-in, or you cancelled it. Try again.`,
  sso_expired: (provider) => t`Signing in with ${provider} timed out, or was started in another browser. Try again.`,
  sso_no_account: (provider) =>
    t`No user is linked to your ${provider} account. Ask for an invite, or sign in another way and link the account in Settings, Security.`,
  sso_link_first: (provider) =>
    t`A user with your email address already exists. Sign in another way and link ${provider} in Settings, Security.`,
  sso_linked_elsewhere: (provider) =>
    t`This ${provider} account is linked to another user. That user must unlink it first.`,
  sso_other_user: (provider) =>
    t`You are signed in as a different user than the one who started linking the ${provider} account. Try again.`,
  sso_email_unverified: (provider) =>
    t`${provider} has not verified your email address. Verify it there and try again.`,
  sso_domain_not_allowed: (provider) =>
    t`Email addresses in your domain may not sign in with ${provider}. Ask an operator of this server.`,
  sso_organization_required: (provider) =>
    t`You are not in an organization that may sign in, or ${provider} may not share your membership. Grant access to your organization there and try again.`,
  sso_groups_missing: (provider) =>
    t`${provider} did not send your groups because there are too many. An operator can configure it to send only the groups this server needs.`,
  sso_provider_unreachable: (provider) =>
    t`${provider} could not be reached. Try again in a moment. If it keeps failing, tell an operator of this server.`,
  sso_provider_refused: (provider) =>
    t`${provider} rejected this server's request. An operator can find the reason in the server's log.`,
  sso_answer_invalid: (provider) =>
    t`The response from ${provider} could not be verified. Try again. An operator can find the reason in the server's log.`,
  sso_unknown_provider: () => t`This sign-in method does not exist on this server. Choose one below.`,
  sso_setup_first: () => t`This server is not set up yet. Open the setup link it printed when it started.`,
  login_ended: () => t`That took too long. Sign in again.`,
  suspended: () => t`Your user is suspended on this server. Ask an operator.`,
  too_many_attempts: () => t`Too many failed attempts. Wait a minute, and try again.`,
  team_not_found: () =>
    t`Your groups map to a team that does not exist. Ask an operator of this server to fix the mapping.`,
};

/** The sentence for a code; an unknown one is named, so that it can be looked up. */
export function refusal(code: string, provider = t`the provider`): string {
  const words = WORDS[code];
  if (!words)
    return t`Sign-in failed (${code.replace(/[^\w-]/g, "").slice(0, 60)}). Try again, or ask an operator of this server.`;
  const text = words(provider);
  return text.charAt(0).toUpperCase() + text.slice(1);
}
