declare module "*.po" {
  import type { Messages } from "@lingui/core";

  const messages: Messages;
  export default messages;
}

/** The words of the sign-in page alone. */
declare module "*.po?signin" {
  import type { Messages } from "@lingui/core";

  const messages: Messages;
  export default messages;
}
