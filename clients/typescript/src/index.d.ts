export interface Connection {
  /** The server's address; otherwise PARAWORK_URL. */
  url?: string;
  /** An API token; otherwise PARAWORK_TOKEN. */
  token?: string;
  /** The team's slug; otherwise PARAWORK_TEAM. */
  team?: string;
  fetch?: typeof fetch;
}

export interface Network {
  mode: "open" | "allow" | "none";
  /** In mode allow: hosts such as example.com and *.example.com, or @registries and @git. */
  allow?: string[];
}

export interface CreateOptions extends Connection {
  /** Finds your live sandbox with the same key and purpose, instead of making one. */
  key?: string;
  purpose?: "app" | "execution" | "desktop";
  executor?: string;
  /** Name of the image it is made from, where the executor makes sandboxes from images. */
  image?: string;
  /** What it reaches: never more than the team's sandboxes do. */
  network?: Network;
  /** Ends your sandbox with this key first, if its image or network differs. Without it, that is an error. */
  replace?: boolean;
  /** The sandbox ends when nobody used it for so long. */
  timeoutMs?: number;
}

export interface CommandOptions {
  cwd?: string;
  envs?: Record<string, string>;
  timeoutMs?: number;
  stdin?: string;
  /** As root, by the sandbox's own sudo. */
  sudo?: boolean;
  onStdout?: (text: string) => void | Promise<void>;
  onStderr?: (text: string) => void | Promise<void>;
  signal?: AbortSignal;
}

export interface CommandResult {
  stdout: string;
  stderr: string;
  exitCode: number;
  durationMs: number;
  truncated: boolean;
}

export interface CodeResult {
  mime: string;
  data?: unknown;
  artifact_id?: string;
  main: boolean;
}

export interface CodeOptions {
  language?: "python" | "javascript" | "typescript" | "shell";
  kernel?: string;
  timeoutMs?: number;
  onStdout?: (text: string) => void | Promise<void>;
  onStderr?: (text: string) => void | Promise<void>;
  onResult?: (result: { data: Record<string, unknown>; main?: boolean }) => void | Promise<void>;
  signal?: AbortSignal;
}

/** What code did. Code that failed does not throw: error says what was raised. */
export interface Execution {
  id: string;
  state: "ok" | "failed" | "interrupted" | "timed_out" | "died" | "lost";
  /** The value of the last expression, as text. */
  text?: string;
  results: CodeResult[];
  logs: { stdout: string; stderr: string };
  error?: { name: string; value: string; traceback: string };
  truncated: boolean;
  durationMs: number;
}

/** As in the API: docs/sandboxes.md. */
export interface SandboxInfo {
  id: string;
  key: string;
  purpose: "app" | "execution" | "desktop";
  image: string;
  network: Network | null;
  state: string;
  [field: string]: unknown;
}

export interface FileEntry {
  name: string;
  [field: string]: unknown;
}

export declare class ParaworkError extends Error {
  readonly status: number;
  /** Stable: docs/errors.md lists the codes. */
  readonly code: string;
  readonly details?: Record<string, unknown>;
  readonly requestId?: string;
}

export declare class CommandExitError extends Error implements CommandResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
  readonly durationMs: number;
  readonly truncated: boolean;
}

export declare class TimeoutError extends CommandExitError {}

export declare class Sandbox {
  private constructor();
  readonly sandboxId: string;
  readonly info: SandboxInfo;
  static create(options?: CreateOptions): Promise<Sandbox>;
  static connect(id: string, connection?: Connection): Promise<Sandbox>;
  static list(connection?: Connection): Promise<SandboxInfo[]>;
  readonly commands: {
    /** Throws CommandExitError when the exit code is not 0. */
    run(command: string | string[], options?: CommandOptions): Promise<CommandResult>;
  };
  readonly files: {
    read(path: string, options?: { format?: "text" }): Promise<string>;
    read(path: string, options: { format: "bytes" }): Promise<Uint8Array>;
    write(path: string, data: string | Uint8Array | ArrayBuffer | Blob): Promise<void>;
    list(path?: string): Promise<FileEntry[]>;
    /** Removes a file, or a folder with everything in it. */
    remove(path: string): Promise<void>;
    exists(path: string): Promise<boolean>;
  };
  runCode(code: string, options?: CodeOptions): Promise<Execution>;
  /** How to reach a port: send the headers with each request to the url, until they expire. */
  getPort(port: number): Promise<{ url: string; host: string; headers: Record<string, string>; expiresAt: Date }>;
  /** The host of getPort, whose headers it takes to reach it. */
  getHost(port: number): Promise<string>;
  /** Lets the sandbox live at least so long from now. It never shortens. */
  setTimeout(ms: number): Promise<void>;
  /** Reports whether the sandbox existed. */
  kill(): Promise<boolean>;
}

export default Sandbox;

export interface JobOptions extends Connection {
  prompt: string;
  agent: string;
  /** A request that is repeated with its key is answered with the first job. */
  key?: string;
  argv?: string[];
  model?: string;
  account?: string;
  project_id?: string;
  sandbox_id?: string;
  executor?: string;
  runner_id?: string;
  base?: string;
  branch?: string;
  timeout_ms?: number;
  artifacts?: string[];
  webhook?: { url: string; secret: string };
  keep?: boolean;
  confirm_no_boundary?: boolean;
}

export interface JobArtifact {
  id: string;
  name: string;
  size: number;
  mime: string;
  url: string;
}

export type JobStatus = "queued" | "running" | "completed" | "failed" | "timeout" | "cancelled";

/** Work that an agent does without a person. */
export class Job {
  static create(options: JobOptions): Promise<Job>;
  static connect(jobId: string, connection?: Connection): Promise<Job>;
  readonly jobId: string;
  /** The job as the API shows it. */
  info: Record<string, unknown>;
  readonly status: JobStatus;
  readonly output: string;
  readonly artifacts: JobArtifact[];
  refresh(): Promise<this>;
  /** Waits until the job has ended, however it did: look at status. */
  wait(options?: { pollMs?: number }): Promise<this>;
  /** Cancels the job. What was done stays. */
  cancel(): Promise<this>;
  /** Deletes the job with its artifacts. One that has not ended is cancelled first. */
  delete(): Promise<void>;
  /** The content of an artifact. */
  read(name: string): Promise<Uint8Array>;
}
