// Package daemon is the guest's server: it owns the PTYs and processes of one sandbox, stores their output by absolute offset,
// and serves a host these, files, git's changes and statistics.
//
// It speaks HTTP/2 with prior knowledge on whatever its listener accepts; see routes.go for all routes. Measured through a unix
// socket, the standard library's HTTP/2 moves 1.5 GB/s for 1.1 CPU seconds per GB, both ends together: far from being the
// bottleneck compared with a PTY (100 MB/s, 4 CPU seconds per GB). Only a keystroke's echo is faster on a separate pipe, which a
// host may request where pipes are cheap (direct.go).
//
// Goroutines: Serve starts all and returns when they have ended. A process has one for its end, one for each of its outputs, and
// one for its input only while the program does not take it. No host can stop a program by what it does or fails to do: output
// goes to a capped log that readers pull from (internal/bytelog).
//
// Every process begins a new session, and what it starts may begin others. All descendants are found by walking the process table
// (tree.go): by parents, by session, by earlier observations, and by a mark in the environment. On Linux the program makes itself
// the reaper of its orphans, so that none escapes the walk (reap_linux.go).
package daemon
