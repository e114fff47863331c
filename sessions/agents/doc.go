// Package agents knows the CLI programs that work: how each is found, started, prepared so that no dialog blocks it, given a
// prompt and resumed, and what its terminal says about its state. Each adapter's knowledge is in one file.
//
// It touches the host's file system in two ways only: it looks programs up on PATH, and it writes presets into homes of its
// own, one a user, below Config.HomesDir. It never edits a person's own ~/.claude or ~/.codex; with a person's consent it
// reads the login kept there and copies it. It starts no goroutine that outlives a call.
package agents
