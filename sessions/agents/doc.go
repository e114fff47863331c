// Package agents knows the CLI programs that do the work: how to find, start and resume each, how to prepare it so that no dialog
// blocks it, how to give it a prompt, and what its terminal says about its state. One file holds each adapter's knowledge.
//
// It accesses the host's file system in two ways only: it looks up programs on PATH, and it writes presets into private homes,
// one per user, below Config.HomesDir. It never edits a person's own ~/.claude or ~/.codex; with a person's consent it reads the
// login stored there and copies it. It starts no goroutine that outlives a call.
package agents
