// Package rest is what every operation of the HTTP API stands on: the call that is under way (Call), what errors become (Translate), how
// bodies and paths are read, how downloads are sent, who sees which workspaces (Privacy), how browsers reach the server (Browsers) and how
// often costly operations are done (Throttle).
//
// It starts no goroutine. Privacy and Throttle each take a lock of their own for a moment, and none while they read from the database.
package rest
