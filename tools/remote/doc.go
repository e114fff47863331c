// Package remote is Parawork as a set of tools for agents and programs elsewhere: a person's assistant on a laptop lists workspaces,
// starts agents, reads what they do, answers their questions and merges their work. Each tool maps its arguments to one or a few
// requests to Parawork's own HTTP API and the answers to a short result, so that rights, scopes, limits and the audit are exactly the
// API's. The package knows no MCP and no server: who uses it brings the Doer that carries the requests.
//
// It starts no goroutine and holds no lock.
package remote
