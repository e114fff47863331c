// Package daemon is the guest's program: it owns the PTYs and processes of one sandbox, keeps their output by absolute offset,
// and answers a host for them, for files, for git's changes and for figures.
//
// It speaks HTTP/2 with prior knowledge on whatever its listener accepts; see routes.go for all it answers. Measured through a
// unix socket, the standard library's moves 1.5 GB/s for 1.1 CPU seconds per GB, both ends together: far from being the
// narrow place beside a PTY (100 MB/s, 4 CPU seconds per GB). Only the time of a keystroke's echo is better on a pipe of its
// own, which a host may ask for where pipes are cheap (direct.go).
//
// Goroutines: Serve starts all and returns when they have ended. A process has one for its end, one for each of its outputs, and
// one for its input only while the program does not take it. Nothing a host does or leaves undone stops a program: its output
// goes to a capped log that readers pull from (internal/bytelog).
//
// Every process begins a session of its own, and what it starts may begin others. Whoever belongs to it is found by walking
// the process table (tree.go): by parents, by session, by what was seen before, and by a mark in the environment. On Linux the
// program makes itself the reaper of its orphans, so that none escapes the walk (reap_linux.go).
package daemon
