// Package server is the HTTP API of api/openapi.yaml, the sockets of terminals and events, and the web app's files.
//
// The operations stand in a package for each subject: money, places, people, running and work, above rest, which all of them stand on. A
// handler parses, calls one service and maps the answer; operations.go joins them. What this package does itself is what is done once for
// all of them: say who asks (auth.go), decide by one table whether they may (policy.go, guard.go), keep foreign pages and hosts out
// (origin.go), make repeated calls happen once (idempotency.go), write the audit (recording.go), and close what is open when a person's
// rights or the server end (sockets.go). rest turns errors into answers.
//
// Goroutines: those of net/http, two for each terminal and three for each events socket. Serve owns them all: it returns when
// they have ended.
package server
