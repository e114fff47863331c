/** Why a way through a provider came back without a login or a link, by the code in the address it came back to. */
const WORDS: Record<string, string> = {
  sso_denied: "{provider} did not let you in, or you cancelled. Try again.",
  sso_expired: "Signing in with {provider} took too long, or was begun in another browser. Try again.",
  sso_no_account:
    "Nobody here is linked to your account of {provider}. Ask for an invite, or sign in as before and link it under Settings, Security.",
  sso_link_first:
    "There is a user with your e-mail address already. Sign in as before, and link {provider} under Settings, Security.",
  sso_linked_elsewhere: "This account of {provider} is linked to another user here. That user unlinks it first.",
  sso_other_user: "The account of {provider} was to be linked to another user than the one signed in here. Try again.",
  sso_email_unverified: "{provider} does not vouch for your e-mail address. Verify it there, and try again.",
  sso_domain_not_allowed:
    "Addresses of your mail domain may not sign in here with {provider}. Ask whoever runs this server.",
  sso_organization_required:
    "You are in none of the organisations that may sign in here, or {provider} was not allowed to tell. Grant access to your organisation there, and try again.",
  sso_groups_missing:
    "{provider} did not tell your groups: you are in too many. Whoever runs this server can have it tell only those that matter here.",
  sso_provider_unreachable:
    "{provider} could not be reached. Try again in a moment; if it stays, tell whoever runs this server.",
  sso_provider_refused: "{provider} refused this server, not you. Whoever runs it finds the reason in its log.",
  sso_answer_invalid:
    "The answer of {provider} is not one this server may believe. Try again; whoever runs it finds the reason in its log.",
  sso_unknown_provider: "This server has no such way to sign in. Choose one of those below.",
  sso_setup_first: "This server is not set up yet. Open the setup link it printed when it started.",
  suspended: "Your user is suspended on this server. Ask whoever runs it.",
  too_many_attempts: "Too many failed attempts. Wait a minute, and try again.",
  team_not_found: "Your groups lead to a team that is not there. Whoever runs this server can mend that.",
};

/** The sentence for a code; an unknown one is named, so that it can be looked up. */
export function refusal(code: string, provider = "the provider"): string {
  const words = WORDS[code];
  if (!words)
    return `Signing in did not work (${code.replace(/[^\w-]/g, "").slice(0, 60)}). Try again, or ask whoever runs this server.`;
  const text = words.replaceAll("{provider}", provider);
  return text.charAt(0).toUpperCase() + text.slice(1);
}
