// Sessions that run no coding agent have one of these names as their agent.
export const SHELL = "shell";
/** The script that prepares a new workspace. */
export const SETUP = "setup";
/** Any program a person named. */
export const COMMAND = "command";
