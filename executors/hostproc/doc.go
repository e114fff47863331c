// Package hostproc keeps guests that are processes of this machine, for the executors that start such: a folder per sandbox with
// the guest's socket, token and record, who a process is beyond its pid, and the end of everything that belongs to a sandbox. It
// knows how to find and to end a guest; how one is started, and what is around it, is the executor's.
package hostproc
