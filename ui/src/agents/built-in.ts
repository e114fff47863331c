// What runs in a session without being a coding agent goes by a name in the place of an agent's.
export const SHELL = "shell";
/** The script that prepares a new workspace. */
export const SETUP = "setup";
/** Any program a person named. */
export const COMMAND = "command";
