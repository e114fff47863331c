// Package server is the house's front door: the HTTP API of api/openapi.yaml, the sockets of terminals and events, and the
// web app's files.
//
// It knows every room and holds no rule of theirs: a handler parses, calls one room and maps the answer. What it does itself
// is what only the door can do: say who asks (auth.go), decide by one table whether they may (policy.go), turn errors into
// answers (errors.go), keep foreign pages and hosts out (origin.go), make repeated calls happen once (idempotency.go), and
// close what is open when a person's rights or the server end (sockets.go).
//
// Goroutines: those of net/http, two for each terminal and three for each events socket. Serve owns them all: it returns when
// they have ended.
package server
