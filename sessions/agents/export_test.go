package agents

// CodexHookHash is the hash by which Codex knows a hook.
var CodexHookHash = codexHookHash
