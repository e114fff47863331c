package agents

// CodexHookHash is the hash by which Codex knows a hook.
var CodexHookHash = codexHookHash

// EditedCommand is the hook that has edits checked.
var EditedCommand = editedCommand
