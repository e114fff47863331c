// Package hostproc makes, finds and ends guests that are processes of this machine, for the executors that start such guests: it manages one
// folder per sandbox with the guest's socket, token and record, identifies a process beyond its pid, and ends every process of a sandbox.
// The executor decides what the guest's process is and what surrounds it.
package hostproc
